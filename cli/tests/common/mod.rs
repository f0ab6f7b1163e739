//! Runs the real program, in folders that go away.

#![allow(dead_code)] // Each file of tests uses a part of it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longer than anything here takes on a busy machine: whatever takes longer hangs.
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

/// `xavantes` with these arguments, and nothing in the environment that was set for the user's own grid.
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

    /// The path of something in it, which need not be there.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the path is UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
