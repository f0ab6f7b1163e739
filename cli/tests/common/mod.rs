//! Runs the real program, in folders that are removed with the test.

#![allow(dead_code)] // Each file of tests uses a part of it.

pub mod schema;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A command that takes longer than this hangs, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How the program ended and what it wrote.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `xavantes` with these arguments and this standard input.
pub fn xavantes(arguments: &[&str], stdin: &str) -> Ended {
    run(&mut command(arguments), stdin)
}

/// `xavantes` with these arguments, without the variables that the user set for a grid.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xavantes"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("XAVANTES_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.args(arguments);
    command
}

/// Runs a command with this standard input to its end.
pub fn run(command: &mut Command, stdin: &str) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for these tests");
    let mut input = child.stdin.take().expect("it is a pipe");
    let stdin = stdin.to_owned();
    // A program that does not want its input may be gone before it is written.
    std::thread::spawn(move || drop(input.write_all(stdin.as_bytes())));
    let stdout = read(child.stdout.take().expect("it is a pipe"));
    let stderr = read(child.stderr.take().expect("it is a pipe"));
    let (Ok(stdout), Ok(stderr)) = (stdout.recv_timeout(PATIENCE), stderr.recv_timeout(PATIENCE)) else {
        let _ = child.kill();
        panic!("{command:?} does not end");
    };
    let code = child.wait().expect("it has ended").code().expect("nobody sends it signals");
    Ended { code, stdout, stderr }
}

fn read(mut pipe: impl Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).expect("the program writes UTF-8");
        let _ = sender.send(text);
    });
    receiver
}

/// A folder for one test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("tests can write here");
        Self(path)
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("tests can write here");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// A path in the folder; the file need not exist.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the path is UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Repeats a question until there is an answer.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program that runs until this is dropped.
pub struct Running {
    pub child: Child,
    pub address: String,
}

impl Running {
    /// A node with all roles, when it serves.
    pub fn node(arguments: &[&str]) -> Self {
        let mut child = command(&["node", "--name", "test", "--listen", "127.0.0.1:0", "--drain-seconds", "1"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built for these tests");
        let log = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let (sender, receiver) = channel();
        // Reads to the end, so that the pipe never fills up.
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("address=") {
                    let address = rest.split_whitespace().next().unwrap_or_default().to_owned();
                    let _ = sender.send(address);
                }
            }
        });
        let mut running = Self { child, address: String::new() };
        running.address = receiver.recv_timeout(PATIENCE).expect("the node starts");
        running
    }

    pub fn ask(&self, arguments: &[&str]) -> Ended {
        xavantes(&[arguments, &["--coordinator", &self.address]].concat(), "")
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
