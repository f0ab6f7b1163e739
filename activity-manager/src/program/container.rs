//! Programs in containers, run by the command of Docker or Podman.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use xavantes_model::definition::Requires;

use super::cgroups::Cgroup;
use super::child::tool;
use super::folder::Folder;
use super::interpreters::search;
use super::invocation::Invocation;
use super::register::{MARKER, Register};

/// The commands that are looked for, the first that works is used.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// An engine that does not answer within so long is not used.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// The label that tells whose containers are.
const LABEL: &str = "xavantes.root";
/// With these exit statuses the engine itself failed, or the program.
const ENGINE_FAILED: std::ops::RangeInclusive<i32> = 125..=127;
/// A container that did not end though it was asked to, perhaps because it was not there yet, is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Docker or Podman.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    program: PathBuf,
    /// Where the directories of attempts are.
    root: PathBuf,
    podman: Option<Podman>,
}

/// What is to be known of Podman.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Podman {
    /// It is not root's: users in containers are others than outside, unless that is said.
    rootless: bool,
    /// What can be limited there.
    controllers: Vec<String>,
}

impl Podman {
    /// As it tells: `true [cpu memory pids]`.
    fn parse(told: &str) -> Self {
        let (rootless, controllers) = told.trim().split_once(' ').unwrap_or((told.trim(), ""));
        let controllers = controllers.trim_matches(['[', ']']).split_ascii_whitespace().map(str::to_owned).collect();
        Self { rootless: rootless == "true", controllers }
    }

    /// Without root's rights some limits may not be there to be set.
    fn limits(&self, controller: &str) -> bool {
        !self.rootless || self.controllers.iter().any(|it| it == controller)
    }
}

/// What a container of an attempt is called.
pub(crate) fn name(root: &Path, folder: &Folder) -> String {
    // Roots are different on one machine, and so are their hashes.
    let sum = crc32fast::hash(root.as_os_str().as_encoded_bytes());
    let number = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("xavantes-{sum:08x}-{number}")
}

impl Engine {
    /// The engine that answers, of those that are wanted; what a former life has left in it is removed.
    pub fn find(path: &OsStr, wanted: Option<&str>, root: &Path) -> Option<Self> {
        let candidates = ENGINES.iter().filter(|name| wanted.is_none_or(|wanted| wanted == **name));
        let mut found = candidates.filter_map(|name| Some((*name, search(path, name)?)));
        let (program, podman) = found.find_map(|(name, program)| {
            let podman = name == "podman";
            let told = answer(&program, podman)?;
            Some((program, podman.then(|| Podman::parse(&told))))
        })?;
        let engine = Self { program, root: root.to_owned(), podman };
        engine.remove_leftovers();
        info!(engine = %engine.program.display(), "containers can be run");
        Some(engine)
    }

    fn remove_leftovers(&self) {
        let filter = format!("label={LABEL}={}", self.root.display());
        let listed = Command::new(&self.program).args(["ps", "-aq", "--filter", &filter]).stdin(Stdio::null()).output();
        let listed = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
        let containers: Vec<&str> = listed.split_ascii_whitespace().collect();
        if !containers.is_empty() {
            warn!(containers = containers.len(), "removing containers that a former life of this node has left");
            let mut remove = Command::new(&self.program);
            let _ = remove.args(["rm", "-f"]).args(containers).stdin(Stdio::null()).output();
        }
    }

    /// The command that runs a program in a container.
    pub fn command(
        &self,
        image: &str,
        invocation: &Invocation,
        environment: &[(String, String)],
        requires: &Requires,
        gpus: &[u32],
        folder: &Folder,
    ) -> Command {
        let mut command = Command::new(&self.program);
        let directory = folder.path().display();
        command.args(["run", "--name", &name(&self.root, folder)]);
        command.arg("--label").arg(format!("{LABEL}={}", self.root.display()));
        // What is left of it when it ends is reaped; what it prints is kept by us.
        command.args(["--init", "--log-driver", "none"]);
        // Files in the directory of the attempt belong to us, so that we can remove them.
        command.args(["--security-opt", "no-new-privileges"]);
        if self.podman.as_ref().is_some_and(|podman| podman.rootless) {
            command.arg("--userns=keep-id");
        }
        let limits = |controller: &str| self.podman.as_ref().is_none_or(|podman| podman.limits(controller));
        command.arg("--volume").arg(format!("{directory}:{directory}"));
        command.arg("--workdir").arg(folder.work());
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        command.arg("--user").arg(format!("{user}:{group}"));
        if limits("cpu") {
            command.arg("--cpus").arg(requires.cpus.to_string());
        }
        if requires.memory > 0 && limits("memory") {
            let memory = requires.memory.to_string();
            command.args(["--memory", &memory, "--memory-swap", &memory]);
        }
        if requires.processes > 0 && limits("pids") {
            command.arg("--pids-limit").arg(requires.processes.to_string());
        }
        if requires.open_files > 0 {
            command.arg("--ulimit").arg(format!("nofile={0}:{0}", requires.open_files));
        }
        if self.podman.is_some() {
            for gpu in gpus {
                command.arg("--device").arg(format!("nvidia.com/gpu={gpu}"));
            }
        } else if !gpus.is_empty() {
            let ids: Vec<String> = gpus.iter().map(u32::to_string).collect();
            command.arg("--gpus").arg(format!("\"device={}\"", ids.join(",")));
        }
        for (name, value) in environment {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        let (program, arguments) =
            invocation.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        command.args(["--entrypoint", program, image]).args(arguments);
        // The command itself belongs to the attempt, too, and may leave something where it is.
        command.env(MARKER, folder.path()).current_dir(folder.path());
        command
    }

    /// Asks a container to end, and makes it after the grace.
    pub async fn stop(&self, register: &Arc<Register>, folder: &Folder, grace: Duration) {
        let until = Instant::now() + grace;
        loop {
            let mut command = Command::new(&self.program);
            let seconds = until.saturating_duration_since(Instant::now()).as_secs().max(1).to_string();
            command.args(["stop", "-t", &seconds, &name(&self.root, folder)]);
            let asked = tool(register, &mut command).await;
            if asked.is_ok_and(|asked| asked.status.success()) || Instant::now() > until {
                return;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// What the engine tells of a container; nothing if there is none.
    async fn inspect(&self, register: &Arc<Register>, folder: &Folder, what: &str) -> Option<String> {
        let mut command = Command::new(&self.program);
        command.args(["inspect", "--format", what, &name(&self.root, folder)]);
        let told = tool(register, &mut command).await.ok().filter(|told| told.status.success())?;
        Some(String::from_utf8_lossy(&told.stdout).trim().to_owned())
    }

    /// Whether the system ended a container because it used too much memory. Podman leaves a file that tells so where it
    /// was started, and does not always know of it itself.
    pub async fn ran_out_of_memory(&self, register: &Arc<Register>, folder: &Folder) -> bool {
        folder.path().join("oom").exists()
            || self.inspect(register, folder, "{{.State.OOMKilled}}").await.as_deref() == Some("true")
    }

    /// Whether a container ended so because its program was never started.
    pub async fn has_failed(&self, register: &Arc<Register>, folder: &Folder, status: Option<i32>) -> bool {
        status.is_some_and(|status| ENGINE_FAILED.contains(&status))
            && matches!(self.inspect(register, folder, "{{.State.Status}}").await.as_deref(), None | Some("created"))
    }

    /// The control group of a container: nothing before it runs, and none if it is not to be seen from here.
    pub async fn group(&self, register: &Arc<Register>, folder: &Folder) -> Option<Option<Cgroup>> {
        let told = self.inspect(register, folder, "{{.Id}} {{.State.Pid}}").await?;
        let (id, pid) = told.split_once(' ')?;
        let pid: u32 = pid.parse().ok().filter(|pid| *pid > 0)?;
        // Elsewhere the number may be that of another process here.
        Some(Cgroup::of(pid).filter(|group| group.is_of(id)))
    }

    /// Removes a container, whatever it does.
    pub async fn remove(&self, register: &Arc<Register>, folder: &Folder) {
        let mut command = Command::new(&self.program);
        command.args(["rm", "-f", "-v", &name(&self.root, folder)]);
        let _ = tool(register, &mut command).await;
    }
}

/// What an engine tells of itself, if it works: its command may be there without it.
fn answer(program: &Path, podman: bool) -> Option<String> {
    let what = if podman { "{{.Host.Security.Rootless}} {{.Host.CgroupControllers}}" } else { "{{.ID}}" };
    let mut command = Command::new(program);
    command.args(["info", "--format", what]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let began = Instant::now();
    loop {
        match child.try_wait() {
            // It is a line: it does not wait for a reader.
            Ok(Some(status)) => {
                let mut told = String::new();
                let _ = child.stdout.take()?.read_to_string(&mut told);
                return status.success().then_some(told);
            }
            Ok(None) if began.elapsed() < ANSWERS_WITHIN => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                warn!(engine = %program.display(), "does not answer, so no containers are run");
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_is_understood() {
        let podman = Podman::parse("true [memory pids]\n");
        assert!(podman.rootless && podman.limits("memory") && !podman.limits("cpu"));
        // Root may limit everything, whatever is told.
        let podman = Podman::parse("false []\n");
        assert!(!podman.rootless && podman.limits("cpu"));
        assert_eq!(Podman::parse(""), Podman { rootless: false, controllers: Vec::new() });
    }
}
