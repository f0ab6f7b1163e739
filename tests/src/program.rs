//! The program under test, its commands and their output.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;

/// Upper bound on the duration of a command, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// Interval at which a program is checked that is about to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Endings of the files that the program is built from.
const SOURCES: [&str; 12] =
    [".rs", ".proto", ".toml", ".xsd", ".lock", ".luau", ".py", ".js", ".rb", ".R", ".jl", ".pl"];

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in a folder of the workspace")
}

/// The `xavantes` program of the profile that the tests were built with.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("a test has a file");
        // target/<profile>/deps/<test>
        let folder = test.ancestors().nth(2).expect("tests are built into a folder").to_owned();
        let program = folder.join("xavantes");
        if modified(&program) < newest_source(workspace()) {
            let profile = match folder.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => "dev",
                Some(profile) => profile,
            };
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let built = Command::new(cargo)
                .args(["build", "--quiet", "--workspace", "--bin", "xavantes", "--profile", profile])
                .current_dir(workspace())
                .status();
            assert!(built.is_ok_and(|status| status.success()), "xavantes cannot be built");
        }
        program
    })
}

fn modified(file: &Path) -> SystemTime {
    file.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When a source file of the program last changed.
fn newest_source(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let is_source = !name.starts_with('.') && !["target", "tests", "fuzz", "benches"].contains(&&*name);
                if is_source {
                    pending.push(path);
                }
            } else if SOURCES.iter().any(|ending| name.ends_with(ending)) {
                newest = newest.max(modified(&path));
            }
        }
    }
    newest
}

/// The exit code and output of a command.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl Ended {
    /// The JSON document on standard output.
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("the output is not JSON ({error}): {self:?}"))
    }

    /// Asserts that the command succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// A running command. Dropping it kills the command.
pub struct Running {
    child: Child,
    what: String,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Starts `xavantes`.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(&ProgramPlace::default(), arguments)
    }

    pub(crate) fn start_in(place: &ProgramPlace, arguments: &[&str]) -> Self {
        let mut command = command(place, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program exists");
        let stdout = read(child.stdout.take().expect("it is a pipe"));
        let stderr = read(child.stderr.take().expect("it is a pipe"));
        Self { child, what: arguments.join(" "), stdout, stderr }
    }

    /// Waits for the end of the command.
    pub fn wait(mut self) -> Ended {
        let (Ok(stdout), Ok(stderr)) = (self.stdout.recv_timeout(PATIENCE), self.stderr.recv_timeout(PATIENCE)) else {
            panic!("xavantes {} does not end", self.what);
        };
        let code = self.child.wait().expect("it has ended").code().expect("nobody sends it signals");
        Ended { code, stdout, stderr }
    }

    /// Whether the command has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Kills the command and all programs that it started.
    pub fn kill(mut self) {
        kill(&mut self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Runs `xavantes` and waits for its end.
pub fn xavantes(arguments: &[&str]) -> Ended {
    Running::start(arguments).wait()
}

/// Kills a program and all programs that it started, as the loss of its machine would. Does nothing if it has ended.
pub(crate) fn kill(child: &mut Child) {
    if child.try_wait().is_ok_and(|ended| ended.is_some()) {
        return;
    }
    // A stopped program starts no others.
    let pid = child.id();
    signal("STOP", [pid.to_string()]);
    // This also runs when a test fails, so it must not panic.
    let _ = (0..10_000).find(|_| {
        is_stopped(pid) || {
            std::thread::sleep(STOP_POLL_INTERVAL);
            false
        }
    });
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: Vec<String> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let _ = child.kill();
    let _ = child.wait();
    if !children.is_empty() {
        // Each activity has its own process group.
        let groups: Vec<String> = children.iter().map(|pid| format!("-{pid}")).collect();
        signal("KILL", children.into_iter().chain(groups));
    }
}

/// Whether all threads of a program are stopped or have ended.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).all(|stat| {
        // The state follows the name, which is in parentheses.
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        matches!(state, Some("T" | "t" | "Z" | "X"))
    })
}

/// Sends a signal to processes. Ignores those that have ended.
pub(crate) fn signal(name: &str, pids: impl IntoIterator<Item = String>) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).arg("--").args(pids).stderr(Stdio::null());
    let _ = kill.status();
}

/// The control group and network in which programs start.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramPlace {
    pub cgroup: Option<PathBuf>,
    pub network: Option<String>,
}

pub(crate) fn command(place: &ProgramPlace, arguments: &[&str]) -> Command {
    let mut command = match place {
        ProgramPlace { cgroup: Some(cgroup), .. } => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "echo 0 > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup).arg(program());
            shell
        }
        ProgramPlace { network: Some(network), .. } => {
            let mut ip = Command::new("ip");
            ip.args(["netns", "exec", network]).arg(program());
            ip
        }
        _ => Command::new(program()),
    };
    command.args(arguments).stdin(Stdio::null());
    // Settings of the user's own grid must not reach the programs under test.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("XAVANTES_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command
}

fn read(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
