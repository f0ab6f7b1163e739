//! Programs in containers, run by the command of Docker or Podman.

use std::ffi::OsStr;
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
/// The engine itself failed, not the program.
pub(crate) const ENGINE_FAILED: i32 = 125;

/// Docker or Podman.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    program: PathBuf,
    /// Where the directories of attempts are.
    root: PathBuf,
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
        let found = candidates.filter_map(|name| search(path, name)).find(|program| answers(program))?;
        let engine = Self { program: found, root: root.to_owned() };
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
        command.arg("--volume").arg(format!("{directory}:{directory}"));
        command.arg("--workdir").arg(folder.work());
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        command.arg("--user").arg(format!("{user}:{group}"));
        command.arg("--cpus").arg(requires.cpus.to_string());
        if requires.memory > 0 {
            let memory = requires.memory.to_string();
            command.args(["--memory", &memory, "--memory-swap", &memory]);
        }
        if requires.processes > 0 {
            command.arg("--pids-limit").arg(requires.processes.to_string());
        }
        if requires.open_files > 0 {
            command.arg("--ulimit").arg(format!("nofile={0}:{0}", requires.open_files));
        }
        if !gpus.is_empty() {
            let ids: Vec<String> = gpus.iter().map(u32::to_string).collect();
            command.arg("--gpus").arg(format!("\"device={}\"", ids.join(",")));
        }
        for (name, value) in environment {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        let (program, arguments) =
            invocation.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        command.args(["--entrypoint", program, image]).args(arguments);
        // The command itself belongs to the attempt, too.
        command.env(MARKER, folder.path());
        command
    }

    /// Asks a container to end, and makes it after the grace.
    pub async fn stop(&self, register: &Arc<Register>, folder: &Folder, grace: Duration) {
        let mut command = Command::new(&self.program);
        let seconds = grace.as_secs().max(1).to_string();
        command.args(["stop", "-t", &seconds, &name(&self.root, folder)]);
        let _ = tool(register, &mut command).await;
    }

    /// Whether the system ended a container because it used too much memory.
    pub async fn ran_out_of_memory(&self, register: &Arc<Register>, folder: &Folder) -> bool {
        let mut command = Command::new(&self.program);
        command.args(["inspect", "--format", "{{.State.OOMKilled}}", &name(&self.root, folder)]);
        let told = tool(register, &mut command).await;
        told.is_ok_and(|told| told.stdout.trim_ascii() == b"true")
    }

    /// The control group of a container that runs, if the engine tells and it is on this machine.
    pub async fn group(&self, register: &Arc<Register>, folder: &Folder) -> Option<Cgroup> {
        let mut command = Command::new(&self.program);
        command.args(["inspect", "--format", "{{.Id}} {{.State.Pid}}", &name(&self.root, folder)]);
        let told = tool(register, &mut command).await.ok()?.stdout;
        let (id, pid) = std::str::from_utf8(&told).ok()?.trim().split_once(' ')?;
        // Elsewhere the number may be that of another process here.
        Cgroup::of(pid.parse().ok()?).filter(|group| group.is_of(id))
    }

    /// Removes a container, whatever it does.
    pub async fn remove(&self, register: &Arc<Register>, folder: &Folder) {
        let mut command = Command::new(&self.program);
        command.args(["rm", "-f", "-v", &name(&self.root, folder)]);
        let _ = tool(register, &mut command).await;
    }
}

/// Whether an engine works: its command may be there without it.
fn answers(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(["info", "--format", "{{.ID}}"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if program.ends_with("podman") {
        command.args(["--format", "{{.Host.OS}}"]);
    }
    let Ok(mut child) = command.spawn() else { return false };
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if began.elapsed() < ANSWERS_WITHIN => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                warn!(engine = %program.display(), "does not answer, so no containers are run");
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}
