//! Control groups (version 2), where a node may make some: the system itself keeps programs within what they may use, and
//! ends everything that belongs to them at once.
//!
//! A node that is alone in its control group, and may make others there, moves into `node` below it. Beside that each
//! attempt that asks for limits gets one. A program enters its own before it begins, so nothing of it is ever outside.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};
use xavantes_model::definition::Requires;

use super::limits::size;

/// The controllers that are of use.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// What the groups of attempts are called, with a number behind it.
const ATTEMPT: &str = "attempt-";
/// Shares of processors are given in periods of so many microseconds.
const PERIOD: u64 = 100_000;
/// Groups that could not be removed yet are at most so many; more are left for the next start.
const MOST_LEFT: usize = 1000;

/// The control groups of a worker.
#[derive(Debug)]
pub struct Cgroups {
    /// In which those of attempts are.
    root: PathBuf,
    /// Those of the controllers that work there.
    controllers: Vec<&'static str>,
    next: AtomicU64,
    /// What the system would not remove yet.
    left: Mutex<Vec<PathBuf>>,
}

impl Cgroups {
    /// Takes possession of the control group of this process; why that cannot be, otherwise.
    pub fn take() -> Result<Arc<Self>, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let root = place(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
            .ok_or("there is no hierarchy of version 2")?;
        Self::take_at(root.clone()).map_err(|why| format!("{}: {why}", root.display()))
    }

    fn take_at(root: PathBuf) -> Result<Arc<Self>, String> {
        let read = |name: &str| fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
        let own = std::process::id().to_string();
        if read("cgroup.procs")?.split_ascii_whitespace().any(|pid| pid != own) {
            return Err("other processes are in it, so it is not this node's own".into());
        }
        let available = read("cgroup.controllers")?;
        let available: Vec<&str> = available.split_ascii_whitespace().collect();
        if !CONTROLLERS.iter().any(|controller| available.contains(controller)) {
            return Err(format!("none of the controllers {} is there", CONTROLLERS.join(", ")));
        }
        let node = root.join("node");
        match fs::create_dir(&node) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(format!("nothing can be made in it: {error}"));
            }
            _ => {}
        }
        // Who has groups with limits in it may not have processes.
        fs::write(node.join("cgroup.procs"), "0")
            .map_err(|error| format!("this node cannot move within it: {error}"))?;
        let works = |controller: &&str| {
            available.contains(controller)
                && fs::write(root.join("cgroup.subtree_control"), format!("+{controller}")).is_ok()
        };
        let controllers: Vec<&'static str> = CONTROLLERS.into_iter().filter(works).collect();
        if controllers.is_empty() {
            return Err("no controller can be used in it".into());
        }
        let groups = Self { root, controllers, next: AtomicU64::new(0), left: Mutex::default() };
        groups.remove_leftovers();
        info!(cgroup = %groups.root.display(), controllers = groups.controllers.join(","), "programs are limited by control groups");
        Ok(Arc::new(groups))
    }

    /// What a former life has left.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(ATTEMPT) {
                let group = Cgroup { path: entry.path(), groups: None };
                group.kill();
                self.remove(group.path.clone());
            }
        }
    }

    /// The controllers that work.
    pub fn controllers(&self) -> &[&'static str] {
        &self.controllers
    }

    /// Whether the system itself sees to that.
    pub(crate) fn limits(&self, controller: &str) -> bool {
        self.controllers.contains(&controller)
    }

    /// A group for an attempt that asks for limits; nothing for one that asks for none.
    pub(crate) fn make(self: &Arc<Self>, requires: &Requires) -> io::Result<Option<Cgroup>> {
        let settings = settings(&self.controllers, requires);
        if settings.is_empty() {
            return Ok(None);
        }
        let path = loop {
            let path = self.root.join(format!("{ATTEMPT}{}", self.next.fetch_add(1, Ordering::Relaxed)));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => break made.map(|()| path)?,
            }
        };
        let group = Cgroup { path, groups: Some(self.clone()) };
        for (name, value, needed) in settings {
            match fs::write(group.path.join(name), value) {
                Err(error) if needed => return Err(error),
                _ => {}
            }
        }
        Ok(Some(group))
    }

    /// Removes a group, and those that could not be removed before.
    fn remove(&self, path: PathBuf) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(path);
        left.retain(|path| fs::remove_dir(path).is_err_and(|error| error.kind() != ErrorKind::NotFound));
        if left.len() > MOST_LEFT {
            let path = left.remove(0);
            warn!(cgroup = %path.display(), "a control group cannot be removed");
        }
    }
}

/// The control group of one attempt, which goes with this; or one of a container, which does not.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    groups: Option<Arc<Cgroups>>,
}

/// What a control group has to tell of its attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub user_ms: u64,
    pub system_ms: u64,
    /// The most memory, files that the system keeps in it included; 0 if that is not known.
    pub peak: u64,
    /// Processes that were ended because there was no more memory for them.
    pub out_of_memory: u64,
    /// Processes that could not be started because there were too many.
    pub not_started: u64,
}

impl Told {
    /// Which limit a program that failed has met, in words.
    pub fn exceeded(&self, requires: &Requires) -> Option<String> {
        if self.out_of_memory > 0 {
            Some(format!("used more memory than its limit of {}", size(requires.memory)))
        } else if self.not_started > 0 {
            Some(format!("could not start another process or thread, its limit is {}", requires.processes))
        } else {
            None
        }
    }
}

impl Cgroup {
    /// The control group that a process is in, which is somebody else's.
    pub fn of(pid: u32) -> Option<Self> {
        let read = |path: &str| fs::read_to_string(path).ok();
        let path = place(&read(&format!("/proc/{pid}/cgroup"))?, &read("/proc/self/mountinfo")?)?;
        Some(Self { path, groups: None })
    }

    /// Whether it was made for somebody of that name.
    pub fn is_of(&self, name: &str) -> bool {
        !name.is_empty() && self.path.components().any(|part| part.as_os_str().to_string_lossy().contains(name))
    }

    /// Where a process writes `0` to enter it.
    pub fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Ends everything in it, and in those that were made in it.
    pub fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// The processes in it that have not ended.
    pub fn processes(&self) -> Vec<u32> {
        let pids = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        pids.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Whether something runs in it, or in those that were made in it.
    pub fn is_populated(&self) -> bool {
        number(&self.read("cgroup.events"), "populated") > 0
    }

    pub fn told(&self) -> Told {
        let processors = self.read("cpu.stat");
        Told {
            user_ms: number(&processors, "user_usec") / 1000,
            system_ms: number(&processors, "system_usec") / 1000,
            peak: self.read("memory.peak").trim().parse().unwrap_or(0),
            out_of_memory: number(&self.read("memory.events"), "oom_kill"),
            not_started: number(&self.read("pids.events"), "max"),
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(groups) = &self.groups {
            groups.remove(self.path.clone());
        }
    }
}

/// Files of a group with what is written to them, and whether it must be possible.
fn settings(controllers: &[&str], requires: &Requires) -> Vec<(&'static str, String, bool)> {
    let mut settings = Vec::new();
    if requires.memory > 0 && controllers.contains(&"memory") {
        settings.push(("memory.max", requires.memory.to_string(), true));
        // A machine without swap has no such limit.
        settings.push(("memory.swap.max", "0".into(), false));
        settings.push(("memory.oom.group", "1".into(), true));
    }
    if requires.processes > 0 && controllers.contains(&"pids") {
        settings.push(("pids.max", requires.processes.to_string(), true));
    }
    if (requires.cpus > 1 || !settings.is_empty()) && controllers.contains(&"cpu") {
        settings.push(("cpu.max", format!("{} {PERIOD}", u64::from(requires.cpus) * PERIOD), true));
    }
    settings
}

/// Where the control group of version 2 of a process is, from what the system tells of its groups and of what is mounted.
fn place(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        // Before the dash: number, parent, device, what of the file system is mounted, and where.
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let inside = own.strip_prefix(root).ok()?;
        // Odd characters are escaped.
        (system.split(' ').next() == Some("cgroup2") && !at.contains('\\')).then(|| Path::new(at).join(inside))
    })
}

/// The number behind a name, in lines of names with numbers.
fn number(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == name).and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_control_group_is_found() {
        let unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let hybrid = "30 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 29 0:28 / /sys/fs/cgroup/unified rw shared:5 master:2 - cgroup2 none rw";
        let within = "40 39 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for (groups, mounts, expected) in [
            ("0::/system.slice/x.service\n", unified, Some("/sys/fs/cgroup/system.slice/x.service")),
            ("0::/\n", unified, Some("/sys/fs/cgroup/")),
            ("4:memory:/a\n0::/b\n", hybrid, Some("/sys/fs/cgroup/unified/b")),
            ("0::/docker/abc/d\n", within, Some("/sys/fs/cgroup/d")),
            // It is not below what is mounted, or there is none.
            ("0::/other\n", within, None),
            ("4:memory:/a\n", unified, None),
            ("0::/\n", "30 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", None),
            ("0::/\n", "29 23 0:26 / /a\\040b rw - cgroup2 cgroup2 rw", None),
            ("", "", None),
            ("0::/\n", "nonsense - cgroup2\n - \n", None),
        ] {
            assert_eq!(place(groups, mounts).as_deref(), expected.map(Path::new), "{groups}{mounts}");
        }
    }

    #[test]
    fn limits_become_settings() {
        let asked = |memory, processes, cpus| Requires { memory, processes, cpus, ..Requires::default() };
        let all = ["cpu", "memory", "pids"];
        let told = |controllers: &[&str], requires: &Requires| {
            let settings = settings(controllers, requires);
            settings.iter().map(|(name, value, _)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(&all, &asked(0, 0, 1)), "");
        assert_eq!(told(&all, &asked(0, 0, 2)), "cpu.max=200000 100000");
        let memory = "memory.max=4096 memory.swap.max=0 memory.oom.group=1";
        assert_eq!(told(&all, &asked(4096, 0, 1)), format!("{memory} cpu.max=100000 100000"));
        assert_eq!(told(&["memory"], &asked(4096, 7, 1)), memory);
        assert_eq!(told(&["pids"], &asked(4096, 7, 1)), "pids.max=7");
        assert_eq!(told(&["cpu"], &asked(4096, 7, 1)), "");
    }

    #[test]
    fn what_the_system_tells_is_understood() {
        let events = "low 0\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!((number(events, "oom_kill"), number(events, "oom"), number(events, "kill")), (2, 3, 0));
        let requires = Requires { memory: 96 << 20, processes: 7, ..Requires::default() };
        let told = |out_of_memory, not_started| {
            Told { out_of_memory, not_started, ..Told::default() }.exceeded(&requires).unwrap_or_default()
        };
        assert_eq!(told(1, 1), "used more memory than its limit of 96 MiB");
        assert_eq!(told(0, 1), "could not start another process or thread, its limit is 7");
        assert_eq!(told(0, 0), "");
        assert_eq!((number("max x\n", "max"), number("", "max"), number("max", "max")), (0, 0, 0));
    }
}
