//! The program under test, and what its commands print.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;

/// Longer than any command here takes on a busy machine: whatever takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at a program that is about to stand still.
const LOOK: Duration = Duration::from_millis(1);

/// The workspace.
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
        if changed(&program) < newest_source(workspace()) {
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

fn changed(file: &Path) -> SystemTime {
    file.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When the last file that the program is made of was changed.
fn newest_source(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let made_of = !name.starts_with('.') && !["target", "tests", "fuzz", "benches"].contains(&&*name);
                if made_of {
                    pending.push(path);
                }
            } else if [".rs", ".proto", ".toml", ".xsd", ".lock", ".luau"].iter().any(|ending| name.ends_with(ending)) {
                newest = newest.max(changed(&path));
            }
        }
    }
    newest
}

/// How a command ended and what it wrote.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// The JSON document that it printed.
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("this is not JSON ({error}): {self:?}"))
    }

    /// The same, if it succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// A command that runs.
pub struct Running {
    child: Child,
    what: String,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Starts `xavantes`.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(&Place::default(), arguments)
    }

    pub(crate) fn start_in(place: &Place, arguments: &[&str]) -> Self {
        let mut command = command(place, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program is there");
        let stdout = read(child.stdout.take().expect("it is a pipe"));
        let stderr = read(child.stderr.take().expect("it is a pipe"));
        Self { child, what: arguments.join(" "), stdout, stderr }
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let (Ok(stdout), Ok(stderr)) = (self.stdout.recv_timeout(PATIENCE), self.stderr.recv_timeout(PATIENCE)) else {
            panic!("xavantes {} does not end", self.what);
        };
        let code = self.child.wait().expect("it has ended").code().expect("nobody sends it signals");
        Ended { code, stdout, stderr }
    }

    /// Ends it at once, without a word, with everything that it started.
    pub fn kill(mut self) {
        kill(&mut self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Runs `xavantes` to its end.
pub fn xavantes(arguments: &[&str]) -> Ended {
    Running::start(arguments).wait()
}

/// Ends a program as the loss of its machine would: with everything that it started. Nothing happens to one that has
/// ended.
pub(crate) fn kill(child: &mut Child) {
    if child.try_wait().is_ok_and(|ended| ended.is_some()) {
        return;
    }
    // What stands still starts nothing more.
    let pid = child.id();
    signal("STOP", [pid.to_string()]);
    // This also happens when a test fails, so it does not fail itself.
    let _ = (0..10_000).find(|_| {
        stands_still(pid) || {
            std::thread::sleep(LOOK);
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
        // Activities have process groups of their own.
        let groups: Vec<String> = children.iter().map(|pid| format!("-{pid}")).collect();
        signal("KILL", children.into_iter().chain(groups));
    }
}

/// Whether all threads of a program are stopped, or it has ended.
fn stands_still(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).all(|stat| {
        // The state comes after the name, which stands in parentheses.
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        matches!(state, Some("T" | "t" | "Z" | "X"))
    })
}

/// Sends a signal. Those that have ended already are no matter.
pub(crate) fn signal(name: &str, pids: impl IntoIterator<Item = String>) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).arg("--").args(pids).stderr(Stdio::null());
    let _ = kill.status();
}

/// Where programs are started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub cgroup: Option<PathBuf>,
    pub network: Option<String>,
}

pub(crate) fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = match place {
        Place { cgroup: Some(cgroup), .. } => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "echo 0 > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup).arg(program());
            shell
        }
        Place { network: Some(network), .. } => {
            let mut ip = Command::new("ip");
            ip.args(["netns", "exec", network]).arg(program());
            ip
        }
        _ => Command::new(program()),
    };
    command.args(arguments).stdin(Stdio::null());
    // What is set for the user's own grid is not meant for these.
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
