//! A grid of nodes, with their ports, logs and data in one folder.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::program::{self, Ended, PATIENCE, ProgramPlace, Running};
use crate::{POLL_INTERVAL, until};

/// Number of lines of each log that a failed test prints.
const PRINTED_LOG_LINES: usize = 60;
/// Ports of nodes. They are below the ports that the kernel gives to outgoing connections, so that no connection takes the port
/// of a node that restarts.
const PORTS: std::ops::Range<u32> = 10_000..30_000;
/// Upper bound on attempts to start a node whose port another program uses.
const MAX_STARTS: usize = 5;

/// Held by the grid that exists.
static TURN: Mutex<()> = Mutex::new(());

/// An address on this machine on which no program listens.
pub fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test programs that run at the same time begin with different ports.
    let first = std::process::id().wrapping_mul(7919);
    let ports =
        PORTS.map(|_| PORTS.start + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u32);
    let mut addresses = ports.map(|port| format!("127.0.0.1:{port}"));
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a port is free")
}

struct GridNode {
    /// `group/name`.
    name: String,
    listen: String,
    flags: Vec<String>,
    child: Option<Child>,
    log: PathBuf,
    data: PathBuf,
    place: ProgramPlace,
}

impl GridNode {
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            program::kill(child);
        }
    }

    /// Starts the node and waits until its log says so.
    fn launch(&mut self, folder: &Path) {
        for _ in 0..MAX_STARTS {
            let log =
                std::fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("tests can write here");
            let before = self.log().len();
            let (group, short) = self.name.split_once('/').expect("group/name");
            let arguments = ["node", "--group", group, "--name", short, "--listen", &self.listen];
            let mut command = program::command(&self.place, &arguments);
            if !self.flags.iter().any(|flag| flag == "--in-memory" || flag == "--data-dir") {
                command.arg("--data-dir").arg(&self.data);
            }
            // A killed worker cannot remove the folders of its activities, so they are in the folder of the grid.
            command.args(&self.flags).env("TMPDIR", folder).stdout(Stdio::null()).stderr(log);
            self.child = Some(command.spawn().expect("the program exists"));
            let deadline = Instant::now() + PATIENCE;
            let ended = loop {
                // Checked before the log, so that the log is complete if the node has ended.
                let ended =
                    self.child.as_mut().is_none_or(|child| child.try_wait().expect("it is a child process").is_some());
                if self.log()[before..].contains("node started") || ended {
                    break ended;
                }
                assert!(Instant::now() < deadline, "{} does not start:\n{}", self.name, self.log());
                std::thread::sleep(POLL_INTERVAL / 5);
            };
            if !ended {
                return;
            }
            assert!(self.log()[before..].contains("listen"), "{} does not start:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("another program uses {}", self.listen);
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node was started").id()
    }
}

/// Nodes and their folder. Dropping the grid kills the nodes and removes the folder. If the test failed, it also prints the logs.
pub struct Grid {
    nodes: Vec<GridNode>,
    folder: PathBuf,
    /// Number of files that the test has written.
    files: usize,
    /// Whether the folder stays if the test fails.
    keep: bool,
    place: ProgramPlace,
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
        Self::within(&std::env::temp_dir())
    }

    /// A grid without nodes, with its files in a new folder within this one.
    pub fn within(folder: &Path) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // The lock is poisoned if another test failed. Its grid is gone all the same.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("xavantes-tests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).expect("tests can write here");
        Self { nodes: Vec::new(), folder, files: 0, keep: false, place: ProgramPlace::default(), _turn: turn }
    }

    /// Keeps the folder if the test fails from now on.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Starts further nodes in this control group.
    pub fn enter(&mut self, cgroup: &Path) {
        self.place.cgroup = Some(cgroup.to_owned());
    }

    /// Starts further nodes and commands in this network.
    pub fn enter_network(&mut self, network: &str) {
        self.place.network = Some(network.to_owned());
    }

    /// Starts a group: a node `main` that manages and coordinates, and workers `w1`, `w2`, … with these numbers of slots. Workers
    /// have no queue, so they run every attempt that they have. Returns the address of `main`.
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
        self.start(name, &free_address(), &[&roles[..], flags].concat());
    }

    /// Starts the node `group/name` and waits until it has started. Kills an earlier node of this name; the new node uses its
    /// data.
    pub fn start(&mut self, name: &str, listen: &str, flags: &[&str]) {
        self.nodes.iter_mut().filter(|node| node.name == name).for_each(GridNode::kill);
        self.nodes.retain(|node| node.name != name);
        let file = self.folder.join(name.replace('/', "-"));
        let node = GridNode {
            name: name.to_owned(),
            listen: listen.to_owned(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            child: None,
            log: file.with_extension("log"),
            data: file.with_extension("data"),
            place: self.place.clone(),
        };
        self.nodes.push(node);
        self.restart(name);
    }

    /// Restarts a node with the same flags and data, and waits until it has started. Kills it first if it runs.
    pub fn restart(&mut self, name: &str) {
        let folder = self.folder.clone();
        let node = self.node_mut(name);
        node.kill();
        node.launch(&folder);
    }

    /// Waits until the manager at this address knows `count` nodes.
    pub fn wait_for_nodes(&self, address: &str, count: usize) {
        until(&format!("{count} nodes at {address}"), 60, || (self.nodes(address).len() == count).then_some(()));
    }

    /// The nodes that the manager at this address knows; none if it does not answer.
    pub fn nodes(&self, address: &str) -> Vec<Json> {
        self.listed_nodes(address).into_iter().filter(|node| node["state"] != "lost").collect()
    }

    /// The nodes that the manager at this address lists, with those that are lost; none if it does not answer.
    pub fn listed_nodes(&self, address: &str) -> Vec<Json> {
        let answer = self.cli(address, &["nodes"]);
        if answer.code == 0 { answer.json()["nodes"].as_array().cloned().unwrap_or_default() } else { Vec::new() }
    }

    /// Runs a command against the coordinator at this address.
    pub fn cli(&self, address: &str, arguments: &[&str]) -> Ended {
        self.spawn(address, arguments).wait()
    }

    /// Starts a command against the coordinator at this address.
    pub fn spawn(&self, address: &str, arguments: &[&str]) -> Running {
        Running::start_in(&self.place, &[arguments, &["--coordinator", address, "--output", "json"]].concat())
    }

    /// A folder for the files of this grid.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file and returns its path.
    pub fn write(&mut self, name: &str, content: &str) -> String {
        self.files += 1;
        let path = self.folder.join(format!("{}-{name}", self.files));
        std::fs::write(&path, content).expect("tests can write here");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// Submits a process and returns its id.
    pub fn submit(&self, address: &str, file: &str, parameters: &[&str]) -> String {
        let parameters = parameters.iter().flat_map(|parameter| ["-p", parameter]);
        let arguments: Vec<&str> = ["submit", file].into_iter().chain(parameters).collect();
        self.cli(address, &arguments).ok().json()["process"].as_str().expect("a process has an id").to_owned()
    }

    /// The line of `list` about a process, or about the subtree with that path.
    pub fn status(&self, address: &str, path: &str) -> Json {
        let list = self.cli(address, &["list"]).ok().json();
        let found = list["processes"].as_array().into_iter().flatten().find(|it| it["path"] == path);
        found.cloned().unwrap_or(Json::Null)
    }

    /// Waits for the end of a process. Returns the output of `results`: state, counts and results.
    pub fn end(&self, address: &str, process: &str) -> Json {
        self.cli(address, &["wait", process]);
        self.cli(address, &["results", process]).json()
    }

    fn node(&self, name: &str) -> &GridNode {
        self.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("there is no node {name}"))
    }

    fn node_mut(&mut self, name: &str) -> &mut GridNode {
        let found = self.nodes.iter_mut().find(|node| node.name == name);
        found.unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// Kills a node and all programs that it started.
    pub fn kill(&mut self, name: &str) {
        self.node_mut(name).kill();
    }

    /// Kills a node but not the programs that it started.
    pub fn kill_alone(&mut self, name: &str) {
        if let Some(mut child) = self.node_mut(name).child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The process id of a node.
    pub fn pid(&self, name: &str) -> u32 {
        self.node(name).pid()
    }

    /// Freezes a node. The programs that it started continue.
    pub fn freeze(&self, name: &str) {
        self.signal(name, "STOP");
    }

    /// Lets a frozen node continue.
    pub fn thaw(&self, name: &str) {
        self.signal(name, "CONT");
    }

    /// Asks a node to stop.
    pub fn terminate(&self, name: &str) {
        self.signal(name, "TERM");
    }

    /// Sends a signal to a node.
    pub fn signal(&self, name: &str, signal: &str) {
        program::signal(signal, [self.node(name).pid().to_string()]);
    }

    /// The exit code of a node, if it has ended.
    pub fn ended(&mut self, name: &str) -> Option<i32> {
        let child = self.node_mut(name).child.as_mut().expect("the node was started");
        child.try_wait().expect("it is a child process").and_then(|status| status.code())
    }

    /// The data directory of a node.
    pub fn data(&self, name: &str) -> &Path {
        &self.node(name).data
    }

    /// The log of a node, including earlier runs.
    pub fn log(&self, name: &str) -> String {
        self.node(name).log()
    }

    /// The peak memory of a node since its last start.
    pub fn peak_mib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.node(name).pid())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes: Option<u64> = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok());
        kibibytes.expect("the node runs") / 1024
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let log = node.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(PRINTED_LOG_LINES)..];
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
        let failed = std::thread::panicking();
        if failed {
            eprintln!("{}", self.logs());
        }
        if failed && self.keep {
            eprintln!("all files are in {}", self.folder.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
