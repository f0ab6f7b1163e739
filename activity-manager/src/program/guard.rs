//! Ends what a node leaves running when it is killed. The guard is a program of its own: it waits at a pipe from the node, which
//! breaks when the node is no more.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tracing::warn;

use super::register::{Register, end_all_in};
use super::system::Process;

/// What the node says when it ends in order.
const ALL_IS_WELL: &[u8] = b"ok";

/// The guard of a node that runs.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts this program as a guard; nothing if that is not possible.
    pub fn start(register: &Register, root: &Path, temporary: Option<&Path>) -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        // What ends the node from a terminal does not end it.
        command.arg("guard").arg(root).args(temporary).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        match command.spawn() {
            Ok(child) => {
                register.exempt(child.id());
                Some(Self(child))
            }
            Err(error) => {
                warn!(%error, "nobody ends programs if this node is killed");
                None
            }
        }
    }

    /// The node ends, and has left nothing.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(ALL_IS_WELL);
        }
        let _ = self.0.wait();
    }
}

/// Waits for the end of the node that started this, and ends what that has left running in this directory; removes another.
pub fn guard(root: &Path, temporary: Option<&Path>) {
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    if said == ALL_IS_WELL {
        return;
    }
    end_all_in(root, &|pid| !is_of_a_node(pid));
    if let Some(temporary) = temporary {
        let _ = std::fs::remove_dir_all(temporary);
    }
}

/// Does a process descend from a node that runs? That may be the next one with the same directory.
fn is_of_a_node(pid: u32) -> bool {
    let program = |pid: u32| -> Option<PathBuf> {
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        // One that was replaced meanwhile is still called so.
        let name = path.as_os_str().to_str()?.trim_end_matches(" (deleted)");
        Some(OsStr::new(name).into())
    };
    let own = program(std::process::id());
    let (mut pid, mut climbed) = (pid, 0);
    while let Some(process) = Process::find(pid).filter(|_| pid > 1 && climbed < 1000) {
        if own.is_some() && program(pid) == own {
            return true;
        }
        (pid, climbed) = (process.parent, climbed + 1);
    }
    false
}
