//! Grids of real, separate processes for tests: starts nodes on free ports of this machine, runs commands, kills nodes,
//! and cleans up. One grid exists at a time, so that tests do not take each other's processors.

use std::fmt::Write as _;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value as Json;

/// Longer than any command here takes on a busy machine: whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of each node's log that are shown when a test fails.
const SHOWN_LINES: usize = 60;

static TURN: Mutex<()> = Mutex::new(());

/// Looks again and again until there is something, for so many seconds at most.
pub fn until<T>(what: &str, seconds: u64, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} seconds: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Looks again and again whether something stays as it is, for so many milliseconds.
pub fn stays(what: &str, milliseconds: u64, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < deadline {
        assert!(look(), "{what}");
        std::thread::sleep(LOOK);
    }
}

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
                .args(["build", "--quiet", "--package", "xavantes", "--profile", profile])
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

/// Runs `xavantes` to its end.
pub fn xavantes(arguments: &[&str]) -> Ended {
    let mut child =
        command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program is there");
    let stdout = read(child.stdout.take().expect("it is a pipe"));
    let stderr = read(child.stderr.take().expect("it is a pipe"));
    let (Ok(stdout), Ok(stderr)) = (stdout.recv_timeout(PATIENCE), stderr.recv_timeout(PATIENCE)) else {
        let _ = child.kill();
        panic!("xavantes {} does not end", arguments.join(" "));
    };
    let code = child.wait().expect("it has ended").code().expect("nobody sends it signals");
    Ended { code, stdout, stderr }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
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

/// An address on this machine that nobody listens on.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    listener.local_addr().expect("it has an address").to_string()
}

struct Node {
    /// `group/name`.
    name: String,
    child: Child,
    log: PathBuf,
}

impl Node {
    /// Ends it as the loss of its machine would: with everything that it started.
    fn kill(&mut self) {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let children: Vec<String> = threads
            .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
            .flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !children.is_empty() {
            let _ = Command::new("kill").arg("-9").args(children).stderr(Stdio::null()).status();
        }
    }
}

/// Nodes, and a folder. All of it goes away with this; if that is because of a failure, the logs are shown.
pub struct Grid {
    nodes: Vec<Node>,
    folder: PathBuf,
    files: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Default for Grid {
    fn default() -> Self {
        Self::new()
    }
}

impl Grid {
    /// A grid without nodes.
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // A test that failed leaves nothing behind that the next could stumble over.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("xavantes-tests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("tests can write here");
        Self { nodes: Vec::new(), folder, files: 0, _turn: turn }
    }

    /// A group: a node `main` that manages and coordinates, and workers `w1`, `w2`, … with so many slots and no queue,
    /// so that what they have is what they run. Gives the address of `main`.
    pub fn group(&mut self, group: &str, slots: &[u32], flags: &[&str]) -> String {
        let address = free_address();
        let roles = ["--roles", "group-manager,process-coordinator"];
        self.start(&format!("{group}/main"), &address, &[&roles[..], flags].concat());
        for (index, slots) in slots.iter().enumerate() {
            self.worker(&format!("{group}/w{}", index + 1), &address, &["--slots", &slots.to_string(), "--queue", "0"]);
        }
        self.wait_for_nodes(&address, slots.len() + 1);
        address
    }

    /// Starts a worker.
    pub fn worker(&mut self, name: &str, managers: &str, flags: &[&str]) {
        let roles = ["--roles", "activity-manager", "--join", managers];
        self.start(name, "127.0.0.1:0", &[&roles[..], flags].concat());
    }

    /// Starts the node `group/name`.
    pub fn start(&mut self, name: &str, listen: &str, flags: &[&str]) {
        let (group, short) = name.split_once('/').expect("group/name");
        let log = self.write("log", "");
        let open = std::fs::OpenOptions::new().append(true).open(&log).expect("it can be written");
        let child = command(&["node", "--group", group, "--name", short, "--listen", listen])
            .args(flags)
            // A worker that is killed cannot remove the folders of its activities.
            .env("TMPDIR", &self.folder)
            .stdout(Stdio::null())
            .stderr(open)
            .spawn()
            .expect("the program is there");
        self.nodes.push(Node { name: name.to_owned(), child, log: log.into() });
    }

    /// Waits until the manager at this address knows so many nodes.
    pub fn wait_for_nodes(&self, address: &str, count: usize) {
        until(&format!("{count} nodes at {address}"), 15, || (self.nodes(address).len() == count).then_some(()));
    }

    /// The nodes that the manager at this address knows; none if it does not answer.
    pub fn nodes(&self, address: &str) -> Vec<Json> {
        let answer = self.cli(address, &["nodes"]);
        if answer.code == 0 { answer.json()["nodes"].as_array().cloned().unwrap_or_default() } else { Vec::new() }
    }

    /// Runs a command against the coordinator at this address.
    pub fn cli(&self, address: &str, arguments: &[&str]) -> Ended {
        xavantes(&[arguments, &["--coordinator", address, "--output", "json"]].concat())
    }

    /// Writes a file and gives its path.
    pub fn write(&mut self, name: &str, content: &str) -> String {
        self.files += 1;
        let path = self.folder.join(format!("{}-{name}", self.files));
        std::fs::write(&path, content).expect("tests can write here");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// Starts a process and gives its id.
    pub fn submit(&self, address: &str, file: &str, parameters: &[&str]) -> String {
        let parameters = parameters.iter().flat_map(|parameter| ["-p", parameter]);
        let arguments: Vec<&str> = ["submit", file].into_iter().chain(parameters).collect();
        self.cli(address, &arguments).ok().json()["process"].as_str().expect("it has an id").to_owned()
    }

    /// The line of `list` about a process.
    pub fn status(&self, address: &str, process: &str) -> Json {
        let list = self.cli(address, &["list"]).ok().json();
        let found = list["processes"].as_array().into_iter().flatten().find(|it| it["process"] == process);
        found.cloned().unwrap_or(Json::Null)
    }

    /// Waits for the end of a process, and gives what `results` prints: its state, counts and results.
    pub fn end(&self, address: &str, process: &str) -> Json {
        self.cli(address, &["wait", process]);
        self.cli(address, &["results", process]).json()
    }

    fn node(&mut self, name: &str) -> &mut Node {
        let found = self.nodes.iter_mut().rfind(|node| node.name == name);
        found.unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// Ends a node at once, without a word.
    pub fn kill(&mut self, name: &str) {
        self.node(name).kill();
    }

    /// Asks a node to stop.
    pub fn terminate(&mut self, name: &str) {
        let pid = self.node(name).child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().is_ok_and(|status| status.success()));
    }

    /// The exit code of a node, if it has ended.
    pub fn ended(&mut self, name: &str) -> Option<i32> {
        self.node(name).child.try_wait().expect("it is ours").and_then(|status| status.code())
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let log = std::fs::read_to_string(&node.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            let _ = writeln!(text, "--- {}\n{}", node.name, last.join("\n"));
        }
        text
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
