//! The process table: which processes belong to which program, what programs use, and the end of what they leave behind.
//!
//! This process adopts the orphans of its programs. An orphan with the marker of an attempt in its environment belongs to that
//! program. Any other orphan belongs to one of the programs that ran when it was first seen, and ends with the last of
//! them.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::process::{Pid, Signal, WaitOptions, set_child_subreaper, waitpid};
use tokio::sync::Notify;
use tracing::warn;

use super::cgroups::Cgroup;
use super::disk::disk_usage;
use super::procfs::{self, ChildList, MARKER_VARIABLE, OsProcess, ProcessSnapshot};
use super::resource_limits::ObservedUsage;
use super::signals::{KILL_INTERVAL, KILL_TIMEOUT, signal_group, signal_process};
use super::tracked_program::{OBSERVE_INTERVAL, ProgramSpec, TrackedProgram};

/// Observation pauses this many times as long as it took, so that it uses at most 5 % of a CPU.
const PAUSE_FACTOR: u32 = 20;
/// Interval between two looks at disks and for orphans, which are expensive.
const FULL_OBSERVE_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which an idle observer checks whether the process table still exists.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The programs that an orphan may belong to.
#[derive(Debug)]
enum OrphanOwner {
    Program(u64),
    OneOf(Vec<u64>),
    Nobody,
}

/// A process whose parent ended, so that this process became its parent.
#[derive(Debug)]
struct Orphan {
    /// Start time, which tells two processes with the same pid apart.
    start: u64,
    owner: OrphanOwner,
}

#[derive(Debug, Default)]
struct TableState {
    /// Children that this process started, by pid. Tools have no tracked program.
    children: HashMap<u32, Option<Arc<TrackedProgram>>>,
    /// Children whose exit status no task waits for.
    abandoned: Vec<u32>,
    /// Adopted orphans by pid.
    orphans: HashMap<u32, Orphan>,
    last_number: u64,
}

impl TableState {
    fn programs(&self) -> impl Iterator<Item = &Arc<TrackedProgram>> {
        self.children.values().flatten()
    }

    fn orphans_of(&self, number: u64) -> Vec<u32> {
        let belongs = |orphan: &Orphan| matches!(orphan.owner, OrphanOwner::Program(program) if program == number);
        self.orphans.iter().filter(|(_, orphan)| belongs(orphan)).map(|(pid, _)| *pid).collect()
    }
}

/// The process table of a worker.
#[derive(Debug)]
pub(crate) struct ProgramTable {
    /// True if this process adopts orphans: then each child that it did not start is one.
    adopts: bool,
    /// Held for reading while a child starts, so that the adopter does not take the new child for an orphan.
    starting: RwLock<()>,
    child_list: ChildList,
    state: Mutex<TableState>,
    /// Notified when there is something to observe.
    busy: Notify,
    /// The pid of the watchdog, a child that is not a program.
    exempt: OnceLock<u32>,
}

impl ProgramTable {
    /// A process table. With `adopts` this process becomes the parent of all orphans of its programs, and must start
    /// children through this table only.
    pub fn new(adopts: bool) -> Arc<Self> {
        let adopts = adopts && set_child_subreaper(Some(rustix::process::getpid())).is_ok();
        Arc::new(Self {
            adopts,
            starting: RwLock::default(),
            child_list: ChildList::open(),
            state: Mutex::default(),
            busy: Notify::new(),
            exempt: OnceLock::new(),
        })
    }

    /// Leaves this child alone.
    pub fn exempt(&self, pid: u32) {
        let _ = self.exempt.set(pid);
    }

    /// Starts a child and records it: a program of an attempt, or a tool.
    pub fn start(
        &self,
        command: &mut std::process::Command,
        spec: Option<ProgramSpec>,
    ) -> std::io::Result<(std::process::Child, Option<Arc<TrackedProgram>>)> {
        let _starting = self.starting.read();
        let child = command.spawn()?;
        let mut state = self.state.lock();
        state.last_number += 1;
        let tracked = spec.map(|spec| Arc::new(TrackedProgram::new(state.last_number, child.id(), spec)));
        if state.children.insert(child.id(), tracked.clone()).is_none() && state.children.len() == 1 {
            self.busy.notify_one();
        }
        Ok((child, tracked))
    }

    /// A child ended, and its exit status was read.
    pub fn forget(&self, pid: u32) {
        self.state.lock().children.remove(&pid);
    }

    /// No task waits for this child any more: the table reads its exit status.
    pub fn abandon(&self, pid: u32) {
        let mut state = self.state.lock();
        state.children.insert(pid, None);
        state.abandoned.push(pid);
        self.busy.notify_one();
    }

    fn reap_abandoned(&self) {
        let mut state = self.state.lock();
        let runs = |pid: &u32| {
            let pid = Pid::from_raw(*pid as i32);
            pid.is_some_and(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
        };
        let (running, ended): (Vec<u32>, Vec<u32>) = std::mem::take(&mut state.abandoned).into_iter().partition(runs);
        state.abandoned = running;
        ended.iter().for_each(|pid| drop(state.children.remove(pid)));
    }

    /// The known processes of a program.
    fn family(&self, tracked: &TrackedProgram, snapshot: &ProcessSnapshot) -> Vec<OsProcess> {
        let mut roots = self.state.lock().orphans_of(tracked.number);
        roots.push(tracked.pid);
        snapshot.family(&roots, tracked.pid)
    }

    /// Sends a signal to all processes of a program. Returns their number.
    pub fn signal(&self, tracked: &TrackedProgram, signal: Signal) -> usize {
        if self.adopts {
            self.adopt();
        }
        // The whole group at once, so that no process in it escapes by starting another.
        signal_group(tracked.pid, signal);
        match tracked.cgroup() {
            Some(cgroup) if signal == Signal::KILL => cgroup.kill(),
            Some(cgroup) => cgroup.processes().into_iter().for_each(|pid| signal_process(pid, signal)),
            None => {}
        }
        let family = self.family(tracked, &ProcessSnapshot::take());
        let others = family.iter().filter(|process| process.group != tracked.pid);
        others.for_each(|process| signal_process(process.pid, signal));
        family.len()
    }

    /// Kills all programs with all their processes.
    pub fn kill_all(&self) {
        let all: Vec<Arc<TrackedProgram>> = self.state.lock().programs().cloned().collect();
        for tracked in all {
            self.signal(&tracked, Signal::KILL);
        }
    }

    /// The number of running processes of a program.
    pub fn count(&self, tracked: &TrackedProgram) -> usize {
        if self.adopts {
            self.adopt();
        }
        let grouped = tracked.cgroup().map_or(0, |cgroup| cgroup.processes().len());
        self.family(tracked, &ProcessSnapshot::take()).len().max(grouped)
    }

    /// Kills the processes that an ended program left behind. Returns false if one of them does not end.
    pub async fn clear(&self, tracked: &TrackedProgram) -> bool {
        signal_group(tracked.pid, Signal::KILL);
        let began = Instant::now();
        loop {
            if self.adopts {
                self.adopt();
            }
            let orphans = self.state.lock().orphans_of(tracked.number);
            let cgroup = tracked.cgroup().filter(|cgroup| cgroup.is_populated());
            if orphans.is_empty() && cgroup.is_none() {
                return true;
            }
            orphans.into_iter().for_each(|pid| signal_process(pid, Signal::KILL));
            cgroup.into_iter().for_each(Cgroup::kill);
            if began.elapsed() > KILL_TIMEOUT {
                warn!(path = %tracked.spec.directory.display(), "a killed process does not end");
                return false;
            }
            tokio::time::sleep(KILL_INTERVAL).await;
        }
    }

    fn list_children(&self) -> Vec<u32> {
        let mut children = self.child_list.read();
        children.retain(|pid| self.exempt.get() != Some(pid));
        children
    }

    /// Records new orphans, and reads the exit status of ended ones.
    fn adopt(&self) {
        // Usually there are no orphans. Children that start now are not in the list, because it shows those of the first
        // thread only; if that thread starts one, the check below with the lock held sorts it out.
        let children = self.list_children();
        let state = self.state.lock();
        if state.orphans.is_empty() && children.iter().all(|pid| state.children.contains_key(pid)) {
            return;
        }
        drop(state);
        // No child starts while this lock is held.
        let _none_starting = self.starting.write();
        let children = self.list_children();
        let mut state = self.state.lock();
        let present: HashSet<u32> = children.iter().copied().collect();
        state.orphans.retain(|pid, _| present.contains(pid));
        for pid in children {
            if state.children.contains_key(&pid) {
                continue;
            }
            let Some(process) = OsProcess::find(pid) else { continue };
            if process.ended {
                let _ = Pid::from_raw(pid as i32).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
                state.orphans.remove(&pid);
            } else if state.orphans.get(&pid).is_none_or(|orphan| orphan.start != process.start) {
                let owner = match procfs::variable(pid, MARKER_VARIABLE) {
                    Some(marker) => {
                        let mut all = state.programs();
                        let found = all.find(|tracked| tracked.spec.directory.as_os_str().as_bytes() == marker);
                        found.map_or(OrphanOwner::Nobody, |tracked| OrphanOwner::Program(tracked.number))
                    }
                    None => OrphanOwner::OneOf(state.programs().map(|tracked| tracked.number).collect()),
                };
                state.orphans.insert(pid, Orphan { start: process.start, owner });
            }
        }
    }

    /// Kills orphans whose programs have ended.
    fn kill_orphans(&self) {
        self.adopt();
        let mut state = self.state.lock();
        let running: HashSet<u64> = state.programs().map(|tracked| tracked.number).collect();
        for (pid, orphan) in &mut state.orphans {
            let ownerless = match &mut orphan.owner {
                OrphanOwner::Program(number) => !running.contains(number),
                OrphanOwner::OneOf(numbers) => {
                    numbers.retain(|number| running.contains(number));
                    numbers.is_empty()
                }
                OrphanOwner::Nobody => true,
            };
            if ownerless {
                signal_process(*pid, Signal::KILL);
            }
        }
    }

    /// Checks the disk usage of an ended program. Returns a description if it exceeds the limit.
    pub fn scratch_exceeded(&self, tracked: &TrackedProgram) -> Option<String> {
        let ProgramSpec { directory, limits, .. } = &tracked.spec;
        let scratch = if limits.scratch > 0 { disk_usage(directory) } else { 0 };
        limits.exceeded(ObservedUsage { memory: 0, scratch, processes: 0 })
    }

    /// Observes all programs once. A full observation includes disks and orphans.
    fn observe(&self, full: bool) {
        let programs: Vec<Arc<TrackedProgram>> =
            self.state.lock().programs().filter(|tracked| !tracked.is_young()).cloned().collect();
        self.reap_abandoned();
        if full && self.adopts {
            self.kill_orphans();
        }
        if programs.is_empty() {
            return;
        }
        let snapshot = ProcessSnapshot::take();
        for tracked in programs {
            let family = self.family(&tracked, &snapshot);
            let ProgramSpec { directory, limits, .. } = &tracked.spec;
            let scratch = if full && limits.scratch > 0 { disk_usage(directory) } else { 0 };
            let memory = family.iter().map(|process| process.memory).sum();
            tracked.on_observed(ObservedUsage { memory, scratch, processes: family.len() as u64 });
        }
    }

    fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.children.is_empty() && state.orphans.is_empty()
    }
}

/// Observes programs at intervals, as long as the process table exists.
pub(crate) async fn observe(processes: Weak<ProgramTable>) {
    let (mut pause, mut last_full) = (OBSERVE_INTERVAL, Instant::now());
    loop {
        let Some(table) = processes.upgrade() else { return };
        if table.is_idle() {
            let _ = tokio::time::timeout(IDLE_CHECK_INTERVAL, table.busy.notified()).await;
        }
        drop(table);
        tokio::time::sleep(pause).await;
        let Some(table) = processes.upgrade() else { return };
        let full = last_full.elapsed() >= FULL_OBSERVE_INTERVAL;
        if full {
            last_full = Instant::now();
        }
        let observed = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            table.observe(full);
            began.elapsed()
        });
        pause = observed.await.map_or(OBSERVE_INTERVAL, |time| OBSERVE_INTERVAL.max(time * PAUSE_FACTOR));
    }
}
