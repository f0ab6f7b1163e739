//! The watchdog: a process that ends the programs of a node that was killed. It waits at a pipe from the node, which breaks
//! when the node dies.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tracing::warn;

use super::procfs::OsProcess;
use super::program_table::ProgramTable;
use super::signals::kill_leftover_processes;

/// The command of this executable that runs the watchdog.
const COMMAND: &str = "guard";
/// What the node writes into the pipe when it ends in order.
const ORDERLY_END: &[u8] = b"ok";
/// Upper bound on the ancestors of a process that are visited, in case pids are reused in a loop.
const MAX_ANCESTORS: u32 = 1000;

/// The watchdog of this node.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Starts this executable as a watchdog, if that is possible.
    pub fn start(processes: &ProgramTable, root: &Path, temporary: Option<&Path>) -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        // In a process group of its own: signals from a terminal end the node, but not the watchdog.
        command.arg(COMMAND).arg(root).args(temporary).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        match command.spawn() {
            Ok(child) => {
                processes.exempt(child.id());
                Some(Self(child))
            }
            Err(error) => {
                warn!(%error, "could not start the watchdog; programs go on if this node is killed");
                None
            }
        }
    }

    /// Ends the watchdog, because the node ends and no program runs.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(ORDERLY_END);
        }
        let _ = self.0.wait();
    }
}

/// Runs the watchdog: waits for the end of the node that started this process, then kills the programs with directories in
/// `root` and removes the folder `temporary`.
pub fn run_watchdog(root: &Path, temporary: Option<&Path>) {
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    if said == ORDERLY_END {
        return;
    }
    kill_leftover_processes(root, &|pid| !descends_from_node(pid));
    if let Some(temporary) = temporary {
        let _ = std::fs::remove_dir_all(temporary);
    }
}

/// True if a process descends from a running node, which may be the next one with the same directory.
fn descends_from_node(pid: u32) -> bool {
    let executable = |pid: u32| -> Option<PathBuf> {
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        // The kernel marks an executable that was replaced meanwhile.
        let name = path.as_os_str().to_str()?.trim_end_matches(" (deleted)");
        Some(OsStr::new(name).into())
    };
    let own = executable(std::process::id());
    let (mut pid, mut visited) = (pid, 0);
    while let Some(process) = OsProcess::find(pid).filter(|_| pid > 1 && visited < MAX_ANCESTORS) {
        if own.is_some() && executable(pid) == own {
            return true;
        }
        (pid, visited) = (process.parent, visited + 1);
    }
    false
}
