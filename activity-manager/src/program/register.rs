//! The programs that run: who descends from which, what they use, and the end of what they leave behind.
//!
//! A process whose parent ends is adopted by the node. If it carries the marker of an attempt in its environment, it
//! belongs to that. If it does not, it belongs to one of those that ran when it was first seen, and ends with the last
//! of them.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpid};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::cgroups::Cgroup;
use super::limits::{Limits, Used};
use super::system::{self, Census, Children, Process};

/// The variable in the environment that tells which attempt a process belongs to.
pub(crate) const MARKER: &str = "XAVANTES_DIRECTORY";
/// How often it is looked what programs use; not before they have run for so long.
const LOOK: Duration = Duration::from_millis(100);
/// Looking takes at most one part in so many of the time.
const SPARING: u32 = 20;
/// How often disks are looked at, and for orphans.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// Files and folders that are looked at in one folder at most.
const MOST_FILES: usize = 200_000;
/// How long it is looked again whether what was killed has ended.
const KILL_AGAIN: Duration = Duration::from_millis(5);
const KILL_FOR: Duration = Duration::from_secs(5);

/// What is to be known of a program before it starts.
#[derive(Debug)]
pub(crate) struct Program {
    /// The directory of its attempt, which its environment names.
    pub directory: PathBuf,
    /// What is looked after from outside.
    pub limits: Limits,
    /// The control group that it enters.
    pub group: Option<Cgroup>,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Tracked {
    number: u64,
    pid: u32,
    program: Program,
    began: Instant,
    peak: AtomicU64,
    exceeded: OnceLock<String>,
    stopped: Notify,
}

impl Tracked {
    /// The most memory that it was seen to use.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Its control group, if it has one.
    pub fn group(&self) -> Option<&Cgroup> {
        self.program.group.as_ref()
    }

    /// What it leaves on the disk is limited.
    pub fn is_scratch_limited(&self) -> bool {
        self.program.limits.scratch > 0
    }

    /// The register does not look at it yet.
    pub fn is_young(&self) -> bool {
        self.began.elapsed() < LOOK
    }

    /// Returns when it has used more than it may, with what.
    pub async fn exceeded(&self) -> String {
        loop {
            let notified = self.stopped.notified();
            if let Some(why) = self.exceeded.get() {
                return why.clone();
            }
            notified.await;
        }
    }

    /// It was seen to use that.
    pub fn saw(&self, used: Used) {
        self.peak.fetch_max(used.memory, Ordering::Relaxed);
        if let Some(why) = self.program.limits.exceeded(used)
            && self.exceeded.set(why).is_ok()
        {
            self.stopped.notify_waiters();
        }
    }
}

#[derive(Debug)]
enum Belongs {
    To(u64),
    ToOneOf(Vec<u64>),
    ToNobody,
}

#[derive(Debug, Default)]
struct Table {
    /// Children that were started here; programs among them are tracked.
    own: HashMap<u32, Option<Arc<Tracked>>>,
    /// Those of them that nobody waits for.
    left: Vec<u32>,
    /// Processes that were adopted, by pid, with their start.
    adopted: HashMap<u32, (u64, Belongs)>,
    next: u64,
}

impl Table {
    fn tracked(&self) -> impl Iterator<Item = &Arc<Tracked>> {
        self.own.values().flatten()
    }

    fn adopted_of(&self, number: u64) -> Vec<u32> {
        let of = |belongs: &Belongs| matches!(belongs, Belongs::To(attempt) if *attempt == number);
        self.adopted.iter().filter(|(_, (_, belongs))| of(belongs)).map(|(pid, _)| *pid).collect()
    }
}

/// The register of a worker.
#[derive(Debug)]
pub(crate) struct Register {
    /// Children of this program that were not started here are adopted ones.
    adopts: bool,
    /// Read by those who start something, so that nobody takes what has just been started for an orphan.
    starting: RwLock<()>,
    children: Children,
    table: Mutex<Table>,
    /// Rings when there is something to look after.
    busy: Notify,
    /// A child of this program that is none of its business.
    exempt: OnceLock<u32>,
}

impl Register {
    /// A register; with `adopts` this program is the parent of all orphans of its programs from now on, and must start
    /// children by no other way.
    pub fn new(adopts: bool) -> Arc<Self> {
        let adopts = adopts && set_child_subreaper(Some(rustix::process::getpid())).is_ok();
        Arc::new(Self {
            adopts,
            starting: RwLock::default(),
            children: Children::open(),
            table: Mutex::default(),
            busy: Notify::new(),
            exempt: OnceLock::new(),
        })
    }

    /// This child of the program is left alone.
    pub fn exempt(&self, pid: u32) {
        let _ = self.exempt.set(pid);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts something, and notes it.
    pub fn start(
        &self,
        command: &mut std::process::Command,
        program: Option<Program>,
    ) -> std::io::Result<(std::process::Child, Option<Arc<Tracked>>)> {
        let _starting = self.starting.read().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let mut table = self.table();
        table.next += 1;
        let tracked = program.map(|program| {
            Arc::new(Tracked {
                number: table.next,
                pid: child.id(),
                program,
                began: Instant::now(),
                peak: AtomicU64::new(0),
                exceeded: OnceLock::new(),
                stopped: Notify::new(),
            })
        });
        if table.own.insert(child.id(), tracked.clone()).is_none() && table.own.len() == 1 {
            self.busy.notify_one();
        }
        Ok((child, tracked))
    }

    /// Something that was started has ended, and its status was taken.
    pub fn forget(&self, pid: u32) {
        self.table().own.remove(&pid);
    }

    /// Nobody waits any more for something that was started: its status is taken when it has ended.
    pub fn leave(&self, pid: u32) {
        let mut table = self.table();
        table.own.insert(pid, None);
        table.left.push(pid);
        self.busy.notify_one();
    }

    /// Takes the status of those that nobody waits for.
    fn reap_left(&self) {
        let mut table = self.table();
        let runs = |pid: &u32| {
            let pid = Pid::from_raw(*pid as i32);
            pid.is_some_and(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
        };
        let (left, ended): (Vec<u32>, Vec<u32>) = std::mem::take(&mut table.left).into_iter().partition(runs);
        table.left = left;
        ended.iter().for_each(|pid| drop(table.own.remove(pid)));
    }

    /// Everything that belongs to a program, as far as is known.
    fn family(&self, tracked: &Tracked, census: &Census) -> Vec<Process> {
        let mut roots = self.table().adopted_of(tracked.number);
        roots.push(tracked.pid);
        census.family(&roots, tracked.pid)
    }

    /// Sends a signal to everything that belongs to a program; tells how many there are.
    pub fn signal(&self, tracked: &Tracked, signal: Signal) -> usize {
        if self.adopts {
            self.adopt();
        }
        // At once, so that nobody in it escapes by starting others.
        group(tracked.pid, signal);
        match tracked.group() {
            Some(group) if signal == Signal::KILL => group.kill(),
            Some(group) => group.processes().into_iter().for_each(|pid| one(pid, signal)),
            None => {}
        }
        let family = self.family(tracked, &Census::take());
        family.iter().filter(|process| process.group != tracked.pid).for_each(|process| one(process.pid, signal));
        family.len()
    }

    /// Ends all programs with everything that belongs to them.
    pub fn kill_all(&self) {
        let all: Vec<Arc<Tracked>> = self.table().tracked().cloned().collect();
        for tracked in all {
            self.signal(&tracked, Signal::KILL);
        }
    }

    /// How many processes belong to a program that have not ended.
    pub fn count(&self, tracked: &Tracked) -> usize {
        if self.adopts {
            self.adopt();
        }
        let grouped = tracked.group().map_or(0, |group| group.processes().len());
        self.family(tracked, &Census::take()).len().max(grouped)
    }

    /// Ends everything that a program has left behind, now that it has ended itself; false if something does not end.
    pub async fn clear(&self, tracked: &Tracked) -> bool {
        group(tracked.pid, Signal::KILL);
        let began = Instant::now();
        loop {
            if self.adopts {
                self.adopt();
            }
            let left = self.table().adopted_of(tracked.number);
            let group = tracked.group().filter(|group| group.is_populated());
            if left.is_empty() && group.is_none() {
                return true;
            }
            left.into_iter().for_each(|pid| one(pid, Signal::KILL));
            group.into_iter().for_each(Cgroup::kill);
            if began.elapsed() > KILL_FOR {
                warn!(directory = %tracked.program.directory.display(), "a process does not end");
                return false;
            }
            tokio::time::sleep(KILL_AGAIN).await;
        }
    }

    fn list(&self) -> Vec<u32> {
        let mut children = self.children.list();
        children.retain(|pid| self.exempt.get() != Some(pid));
        children
    }

    /// Notes new orphans and takes the status of those that have ended.
    fn adopt(&self) {
        // Mostly there are none. Those that are being started now are not among the children of the first thread, unless
        // that starts them; then it is looked again.
        let children = self.list();
        let table = self.table();
        if table.adopted.is_empty() && children.iter().all(|pid| table.own.contains_key(pid)) {
            return;
        }
        drop(table);
        // Nothing is started meanwhile.
        let _none = self.starting.write().unwrap_or_else(PoisonError::into_inner);
        let children = self.list();
        let mut table = self.table();
        let there: HashSet<u32> = children.iter().copied().collect();
        table.adopted.retain(|pid, _| there.contains(pid));
        for pid in children {
            if table.own.contains_key(&pid) {
                continue;
            }
            let Some(process) = Process::find(pid) else { continue };
            if process.ended {
                let _ = Pid::from_raw(pid as i32).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
                table.adopted.remove(&pid);
            } else if table.adopted.get(&pid).is_none_or(|(start, _)| *start != process.start) {
                let belongs = match system::variable(pid, MARKER) {
                    Some(marker) => {
                        let mut all = table.tracked();
                        let found = all.find(|tracked| tracked.program.directory.as_os_str().as_bytes() == marker);
                        found.map_or(Belongs::ToNobody, |tracked| Belongs::To(tracked.number))
                    }
                    None => Belongs::ToOneOf(table.tracked().map(|tracked| tracked.number).collect()),
                };
                table.adopted.insert(pid, (process.start, belongs));
            }
        }
    }

    /// Ends orphans whose programs have ended.
    fn end_orphans(&self) {
        self.adopt();
        let mut table = self.table();
        let running: HashSet<u64> = table.tracked().map(|tracked| tracked.number).collect();
        for (pid, (_, belongs)) in &mut table.adopted {
            let over = match belongs {
                Belongs::To(number) => !running.contains(number),
                Belongs::ToOneOf(numbers) => {
                    numbers.retain(|number| running.contains(number));
                    numbers.is_empty()
                }
                Belongs::ToNobody => true,
            };
            if over {
                one(*pid, Signal::KILL);
            }
        }
    }

    /// What a program has left on the disk, if that is too much.
    pub fn too_much_left(&self, tracked: &Tracked) -> Option<String> {
        let Program { directory, limits, .. } = &tracked.program;
        let scratch = if limits.scratch > 0 { disk(directory) } else { 0 };
        limits.exceeded(Used { memory: 0, scratch, processes: 0 })
    }

    /// Looks what programs use.
    fn look(&self, around: bool) {
        let tracked: Vec<Arc<Tracked>> =
            self.table().tracked().filter(|tracked| !tracked.is_young()).cloned().collect();
        self.reap_left();
        if around && self.adopts {
            self.end_orphans();
        }
        if tracked.is_empty() {
            return;
        }
        let census = Census::take();
        for program in tracked {
            let family = self.family(&program, &census);
            let Program { directory, limits, .. } = &program.program;
            let scratch = if around && limits.scratch > 0 { disk(directory) } else { 0 };
            let memory = family.iter().map(|process| process.memory).sum();
            program.saw(Used { memory, scratch, processes: family.len() as u64 });
        }
    }

    fn is_idle(&self) -> bool {
        let table = self.table();
        table.own.is_empty() && table.adopted.is_empty()
    }
}

/// Looks again and again what programs use, for as long as there is a register.
pub(crate) async fn watch(register: Weak<Register>) {
    let (mut pause, mut around) = (LOOK, Instant::now());
    loop {
        let Some(there) = register.upgrade() else { return };
        if there.is_idle() {
            // Now and then whether there still is a register.
            let _ = tokio::time::timeout(Duration::from_secs(10), there.busy.notified()).await;
        }
        drop(there);
        tokio::time::sleep(pause).await;
        let Some(there) = register.upgrade() else { return };
        let all = around.elapsed() >= LOOK_AROUND;
        if all {
            around = Instant::now();
        }
        let looked = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            there.look(all);
            began.elapsed()
        });
        pause = looked.await.map_or(LOOK, |took| LOOK.max(took * SPARING));
    }
}

/// Ends all processes that belong to attempts with directories in this one, of a former life, if they are meant.
pub(crate) fn end_all_in(root: &Path, meant: &dyn Fn(u32) -> bool) {
    let mut prefix = OsString::from(root);
    prefix.push("/");
    let marked = |pid: u32| system::variable(pid, MARKER).is_some_and(|marker| marker.starts_with(prefix.as_bytes()));
    let pids = || {
        let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| *pid != std::process::id() && marked(*pid) && meant(*pid)).collect::<Vec<u32>>()
    };
    let began = Instant::now();
    let mut found = pids();
    if !found.is_empty() {
        info!(processes = found.len(), "ending what a former life of this node has left running");
    }
    while !found.is_empty() && began.elapsed() < KILL_FOR {
        found.iter().for_each(|pid| one(*pid, Signal::KILL));
        std::thread::sleep(KILL_AGAIN);
        found = pids();
    }
}

/// Those that have ended already are no matter.
fn one(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

fn group(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process_group(pid, signal);
    }
}

/// Bytes that a folder takes on its disk.
fn disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut seen, mut open) = (0, 0, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            let Ok(about) = entry.metadata() else { continue };
            bytes += about.blocks() * 512;
            if about.is_dir() && seen < MOST_FILES {
                open.push(entry.path());
            }
        }
    }
    bytes
}
