//! Programs in containers, which the commands of Docker or Podman run.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use xavantes_model::definition::Requires;

use super::attempt_directories::WorkDir;
use super::cgroups::Cgroup;
use super::child::run_tool;
use super::interpreters::search;
use super::invocation::Invocation;
use super::procfs::MARKER_VARIABLE;
use super::program_table::ProgramTable;

/// Container engines, by their commands. The first one that works is used.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// An engine that takes longer to answer is not used.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(10);
/// The label of containers that names the directories of attempts.
const LABEL: &str = "xavantes.root";
/// Exit statuses of the engine if it or the program failed to start.
const START_FAILED: std::ops::RangeInclusive<i32> = 125..=127;
/// Interval between requests to end a container. The first one may come before the container exists.
const STOP_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Docker or Podman.
#[derive(Debug, Clone)]
pub(crate) struct ContainerEngine {
    program: PathBuf,
    /// The folder of the attempts' directories.
    root: PathBuf,
    podman: Option<Podman>,
}

/// Properties of Podman.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Podman {
    /// Podman runs without root: user ids in containers differ from those outside, unless `--userns=keep-id` is given.
    rootless: bool,
    /// Controllers that can limit containers.
    controllers: Vec<String>,
}

impl Podman {
    /// Parses the output of `podman info`: `true [cpu memory pids]`.
    fn parse(output: &str) -> Self {
        let (rootless, controllers) = output.trim().split_once(' ').unwrap_or((output.trim(), ""));
        let controllers = controllers.trim_matches(['[', ']']).split_ascii_whitespace().map(str::to_owned).collect();
        Self { rootless: rootless == "true", controllers }
    }

    /// True if the controller can limit containers. Without root, some cannot.
    fn limits(&self, controller: &str) -> bool {
        !self.rootless || self.controllers.iter().any(|it| it == controller)
    }
}

/// What this worker sees of a container's control group.
#[derive(Debug)]
pub(crate) enum ContainerCgroup {
    /// The container does not run yet.
    NotRunning,
    /// The container runs, but its group is not visible from here.
    Invisible,
    Found(Cgroup),
}

/// The name of an attempt's container.
fn container_name(root: &Path, workdir: &WorkDir) -> String {
    // Two nodes of one machine have different roots, so the hash tells their containers apart.
    let sum = crc32fast::hash(root.as_os_str().as_encoded_bytes());
    let number = workdir.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("xavantes-{sum:08x}-{number}")
}

impl ContainerEngine {
    /// The first engine that works, or only the `wanted` one. Removes the containers that a former process left.
    pub fn find(path: &OsStr, wanted: Option<&str>, root: &Path) -> Option<Self> {
        let candidates = ENGINES.iter().filter(|name| wanted.is_none_or(|wanted| wanted == **name));
        let mut found = candidates.filter_map(|name| Some((*name, search(path, name)?)));
        let (program, podman) = found.find_map(|(name, program)| {
            let podman = name == "podman";
            let output = engine_info(&program, podman)?;
            Some((program, podman.then(|| Podman::parse(&output))))
        })?;
        let engine = Self { program, root: root.to_owned(), podman };
        engine.remove_leftover_containers();
        info!(engine = %engine.program.display(), "found a container engine");
        Some(engine)
    }

    fn remove_leftover_containers(&self) {
        let filter = format!("label={LABEL}={}", self.root.display());
        let listed = Command::new(&self.program).args(["ps", "-aq", "--filter", &filter]).stdin(Stdio::null()).output();
        let listed = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
        let containers: Vec<&str> = listed.split_ascii_whitespace().collect();
        if !containers.is_empty() {
            warn!(containers = containers.len(), "removing containers that a former run of this node left");
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
        workdir: &WorkDir,
    ) -> Command {
        let mut command = Command::new(&self.program);
        let directory = workdir.path().display();
        command.args(["run", "--name", &container_name(&self.root, workdir)]);
        command.arg("--label").arg(format!("{LABEL}={}", self.root.display()));
        // An init process reaps orphans in the container. This worker stores the output, so the engine need not.
        command.args(["--init", "--log-driver", "none"]);
        // The program runs as the user of this node, so that this node may remove its files.
        command.args(["--security-opt", "no-new-privileges"]);
        if self.podman.as_ref().is_some_and(|podman| podman.rootless) {
            command.arg("--userns=keep-id");
        }
        let limits = |controller: &str| self.podman.as_ref().is_none_or(|podman| podman.limits(controller));
        command.arg("--volume").arg(format!("{directory}:{directory}"));
        command.arg("--workdir").arg(workdir.work());
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
        // The engine's command belongs to the attempt, too, and may leave files in its current directory.
        command.env(MARKER_VARIABLE, workdir.path()).current_dir(workdir.path());
        command
    }

    /// Asks a container to end. The engine kills it after the grace.
    pub async fn stop(&self, processes: &Arc<ProgramTable>, workdir: &WorkDir, grace: Duration) {
        let until = Instant::now() + grace;
        loop {
            let mut command = Command::new(&self.program);
            let seconds = until.saturating_duration_since(Instant::now()).as_secs().max(1).to_string();
            command.args(["stop", "-t", &seconds, &container_name(&self.root, workdir)]);
            let stopped = run_tool(processes, &mut command).await;
            if stopped.is_ok_and(|output| output.status.success()) || Instant::now() > until {
                return;
            }
            tokio::time::sleep(STOP_RETRY_INTERVAL).await;
        }
    }

    /// A property of a container; `None` if there is no such container.
    async fn inspect(&self, processes: &Arc<ProgramTable>, workdir: &WorkDir, what: &str) -> Option<String> {
        let mut command = Command::new(&self.program);
        command.args(["inspect", "--format", what, &container_name(&self.root, workdir)]);
        let output = run_tool(processes, &mut command).await.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// True if the kernel killed a container because it used too much memory. Podman does not always know that, but leaves a
    /// file in the current directory of its command.
    pub async fn ran_out_of_memory(&self, processes: &Arc<ProgramTable>, workdir: &WorkDir) -> bool {
        workdir.path().join("oom").exists()
            || self.inspect(processes, workdir, "{{.State.OOMKilled}}").await.as_deref() == Some("true")
    }

    /// True if a container ended with this status because its program was never started.
    pub async fn never_started(&self, processes: &Arc<ProgramTable>, workdir: &WorkDir, status: Option<i32>) -> bool {
        status.is_some_and(|status| START_FAILED.contains(&status))
            && matches!(self.inspect(processes, workdir, "{{.State.Status}}").await.as_deref(), None | Some("created"))
    }

    /// The control group of a container.
    pub async fn cgroup(&self, processes: &Arc<ProgramTable>, workdir: &WorkDir) -> ContainerCgroup {
        let output = self.inspect(processes, workdir, "{{.Id}} {{.State.Pid}}").await;
        let running = output.as_deref().and_then(|output| {
            let (id, pid) = output.split_once(' ')?;
            Some((id, pid.parse::<u32>().ok().filter(|pid| *pid > 0)?))
        });
        let Some((id, pid)) = running else { return ContainerCgroup::NotRunning };
        // In another pid namespace, the number may be that of another process here.
        let found = Cgroup::of(pid).filter(|cgroup| cgroup.is_named(id));
        found.map_or(ContainerCgroup::Invisible, ContainerCgroup::Found)
    }

    /// Removes a container, even if it runs.
    pub async fn remove(&self, processes: &Arc<ProgramTable>, workdir: &WorkDir) {
        let mut command = Command::new(&self.program);
        command.args(["rm", "-f", "-v", &container_name(&self.root, workdir)]);
        let _ = run_tool(processes, &mut command).await;
    }
}

/// Properties of an engine, if it works. Its command may exist without the engine.
fn engine_info(program: &Path, podman: bool) -> Option<String> {
    let what = if podman { "{{.Host.Security.Rootless}} {{.Host.CgroupControllers}}" } else { "{{.ID}}" };
    let mut command = Command::new(program);
    command.args(["info", "--format", what]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let began = Instant::now();
    loop {
        match child.try_wait() {
            // The output is one line, which fits into the pipe, so the engine does not block.
            Ok(Some(status)) => {
                let mut output = String::new();
                let _ = child.stdout.take()?.read_to_string(&mut output);
                return status.success().then_some(output);
            }
            Ok(None) if began.elapsed() < ENGINE_TIMEOUT => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                warn!(engine = %program.display(), "container engine does not answer; it is not used");
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
    fn podman_info_is_parsed() {
        let podman = Podman::parse("true [memory pids]\n");
        assert!(podman.rootless && podman.limits("memory") && !podman.limits("cpu"));
        // With root all controllers work, whatever Podman says.
        let podman = Podman::parse("false []\n");
        assert!(!podman.rootless && podman.limits("cpu"));
        assert_eq!(Podman::parse(""), Podman { rootless: false, controllers: Vec::new() });
    }
}
