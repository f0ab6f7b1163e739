//! Signals to processes. Processes that have already ended do not matter, so errors are ignored.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tracing::info;

use super::procfs::{self, MARKER_VARIABLE};

/// Interval between two kills of the same processes.
pub(super) const KILL_INTERVAL: Duration = Duration::from_millis(5);
/// Longest time that a killed process gets to disappear.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn signal_process(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

pub(super) fn signal_group(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process_group(pid, signal);
    }
}

/// Kills the processes of attempts whose directories are in `root`, as far as `include` accepts them. Such processes are
/// left from a former process of this node.
pub(super) fn kill_leftover_processes(root: &Path, include: &dyn Fn(u32) -> bool) {
    let mut prefix = OsString::from(root);
    prefix.push("/");
    let marked =
        |pid: u32| procfs::variable(pid, MARKER_VARIABLE).is_some_and(|marker| marker.starts_with(prefix.as_bytes()));
    let leftovers = || {
        let pids = procfs::pids().filter(|pid| *pid != std::process::id() && marked(*pid) && include(*pid));
        pids.collect::<Vec<u32>>()
    };
    let began = Instant::now();
    let mut found = leftovers();
    if !found.is_empty() {
        info!(processes = found.len(), "killing processes that a former run of this node left");
    }
    while !found.is_empty() && began.elapsed() < KILL_TIMEOUT {
        found.iter().for_each(|pid| signal_process(*pid, Signal::KILL));
        std::thread::sleep(KILL_INTERVAL);
        found = leftovers();
    }
}
