//! Control groups (version 2), if the node may make some: the kernel limits programs, and kills all their processes at once.
//!
//! A node that is alone in its control group moves into a subgroup called `node`. Each attempt that requires limits gets a
//! subgroup beside it. A program enters its group before it begins, so all its processes are in the group.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tracing::{info, warn};
use xavantes_model::definition::Requires;

use super::resource_limits::format_limit;

/// The controllers that this worker uses.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// Prefix of the names of attempts' groups; a number follows.
const ATTEMPT_PREFIX: &str = "attempt-";
/// Period in which the kernel measures the CPU share of a group, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;
/// Upper bound on groups that wait for their removal. The next start of the node removes the others.
const MAX_UNREMOVED: usize = 1000;

/// The control groups of a worker.
#[derive(Debug)]
pub struct Cgroups {
    /// The group that has the groups of attempts.
    root: PathBuf,
    /// The controllers that work in it.
    controllers: Vec<&'static str>,
    next: AtomicU64,
    /// Groups that the kernel did not remove yet.
    unremoved: Mutex<Vec<PathBuf>>,
}

impl Cgroups {
    /// Takes over the control group of this process. The error says why that is not possible.
    pub fn acquire() -> Result<Arc<Self>, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let root = cgroup_path(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
            .ok_or("there is no hierarchy of version 2")?;
        Self::acquire_at(root.clone()).map_err(|why| format!("{}: {why}", root.display()))
    }

    fn acquire_at(root: PathBuf) -> Result<Arc<Self>, String> {
        let read = |name: &str| fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"));
        let own = std::process::id().to_string();
        if read("cgroup.procs")?.split_ascii_whitespace().any(|pid| pid != own) {
            return Err("other processes are in the group, so this node does not own it".into());
        }
        let available = read("cgroup.controllers")?;
        let available: Vec<&str> = available.split_ascii_whitespace().collect();
        if !CONTROLLERS.iter().any(|controller| available.contains(controller)) {
            return Err(format!("none of the controllers {} is available", CONTROLLERS.join(", ")));
        }
        let node = root.join("node");
        match fs::create_dir(&node) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(format!("cannot make a subgroup: {error}"));
            }
            _ => {}
        }
        // The kernel allows no processes in a group whose subgroups have limits.
        fs::write(node.join("cgroup.procs"), "0")
            .map_err(|error| format!("cannot move this process into a subgroup: {error}"))?;
        let works = |controller: &&str| {
            available.contains(controller)
                && fs::write(root.join("cgroup.subtree_control"), format!("+{controller}")).is_ok()
        };
        let controllers: Vec<&'static str> = CONTROLLERS.into_iter().filter(works).collect();
        if controllers.is_empty() {
            return Err("no controller can be enabled".into());
        }
        let groups = Self { root, controllers, next: AtomicU64::new(0), unremoved: Mutex::default() };
        groups.remove_leftover_groups();
        let controllers = groups.controllers.join(",");
        info!(cgroup = %groups.root.display(), controllers, "control groups limit programs");
        Ok(Arc::new(groups))
    }

    /// Removes the groups of a former process.
    fn remove_leftover_groups(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(ATTEMPT_PREFIX) {
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

    /// True if the kernel enforces limits of this controller.
    pub(crate) fn limits(&self, controller: &str) -> bool {
        self.controllers.contains(&controller)
    }

    /// Makes a group for an attempt, if it requires limits.
    pub(crate) fn make(self: &Arc<Self>, requires: &Requires) -> io::Result<Option<Cgroup>> {
        let settings = settings(&self.controllers, requires);
        if settings.is_empty() {
            return Ok(None);
        }
        let path = loop {
            let path = self.root.join(format!("{ATTEMPT_PREFIX}{}", self.next.fetch_add(1, Ordering::Relaxed)));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => break made.map(|()| path)?,
            }
        };
        let group = Cgroup { path, groups: Some(self.clone()) };
        for CgroupSetting { file, value, required } in settings {
            match fs::write(group.path.join(file), value) {
                Err(error) if required => return Err(error),
                _ => {}
            }
        }
        Ok(Some(group))
    }

    /// Removes a group, and those that could not be removed before.
    fn remove(&self, path: PathBuf) {
        let mut unremoved = self.unremoved.lock();
        unremoved.push(path);
        unremoved.retain(|path| fs::remove_dir(path).is_err_and(|error| error.kind() != ErrorKind::NotFound));
        if unremoved.len() > MAX_UNREMOVED {
            let path = unremoved.remove(0);
            warn!(cgroup = %path.display(), "could not remove a control group");
        }
    }
}

/// The control group of an attempt, which is removed when this is dropped; or the group of a container, which is not.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    groups: Option<Arc<Cgroups>>,
}

/// The kernel's counters of a control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CgroupUsage {
    pub user_ms: u64,
    pub system_ms: u64,
    /// Peak memory including cached files; 0 if it is not known.
    pub peak_memory: u64,
    /// Processes that the kernel killed because the group had no memory left.
    pub out_of_memory: u64,
    /// Processes and threads that could not start because of the limit.
    pub not_started: u64,
}

impl CgroupUsage {
    /// Describes the limit that a failed program reached.
    pub fn exceeded(&self, requires: &Requires) -> Option<String> {
        if self.out_of_memory > 0 {
            Some(format!("used more memory than its limit of {}", format_limit(requires.memory)))
        } else if self.not_started > 0 {
            Some(format!("could not start another process or thread, its limit is {}", requires.processes))
        } else {
            None
        }
    }
}

impl Cgroup {
    /// The control group of a process that this worker did not start.
    pub fn of(pid: u32) -> Option<Self> {
        let read = |path: &str| fs::read_to_string(path).ok();
        let path = cgroup_path(&read(&format!("/proc/{pid}/cgroup"))?, &read("/proc/self/mountinfo")?)?;
        Some(Self { path, groups: None })
    }

    /// True if the path of the group has this name in it.
    pub fn is_named(&self, name: &str) -> bool {
        !name.is_empty() && self.path.components().any(|part| part.as_os_str().to_string_lossy().contains(name))
    }

    /// The file to which a process writes `0` to enter the group.
    pub fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Kills all processes in the group and its subgroups.
    pub fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// The running processes in the group.
    pub fn processes(&self) -> Vec<u32> {
        let pids = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        pids.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// True if a process runs in the group or a subgroup.
    pub fn is_populated(&self) -> bool {
        counter(&self.read("cgroup.events"), "populated") > 0
    }

    /// Reads the counters.
    pub fn usage(&self) -> CgroupUsage {
        let processors = self.read("cpu.stat");
        CgroupUsage {
            user_ms: counter(&processors, "user_usec") / 1000,
            system_ms: counter(&processors, "system_usec") / 1000,
            peak_memory: self.read("memory.peak").trim().parse().unwrap_or(0),
            out_of_memory: counter(&self.read("memory.events"), "oom_kill"),
            not_started: counter(&self.read("pids.events"), "max"),
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

/// A value for a file of a control group.
#[derive(Debug, PartialEq, Eq)]
struct CgroupSetting {
    file: &'static str,
    value: String,
    /// The attempt fails if the kernel does not accept the value.
    required: bool,
}

/// The settings of an attempt's group; none if the attempt requires no limits.
fn settings(controllers: &[&str], requires: &Requires) -> Vec<CgroupSetting> {
    let mut settings = Vec::new();
    let mut set = |file, value: String, required| settings.push(CgroupSetting { file, value, required });
    if requires.memory > 0 && controllers.contains(&"memory") {
        set("memory.max", requires.memory.to_string(), true);
        // A machine without swap does not have this file.
        set("memory.swap.max", "0".into(), false);
        set("memory.oom.group", "1".into(), true);
    }
    if requires.processes > 0 && controllers.contains(&"pids") {
        set("pids.max", requires.processes.to_string(), true);
    }
    if (requires.cpus > 1 || !settings.is_empty()) && controllers.contains(&"cpu") {
        let value = format!("{} {CPU_PERIOD_US}", u64::from(requires.cpus) * CPU_PERIOD_US);
        settings.push(CgroupSetting { file: "cpu.max", value, required: true });
    }
    settings
}

/// The path of a process's version 2 group, from the contents of `/proc/PID/cgroup` and `/proc/self/mountinfo`.
fn cgroup_path(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        // Before the dash: number, parent, device, the mounted part of the file system, the mount point.
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let inside = own.strip_prefix(root).ok()?;
        // The kernel escapes special characters; such mount points are not supported.
        (system.split(' ').next() == Some("cgroup2") && !at.contains('\\')).then(|| Path::new(at).join(inside))
    })
}

/// The number behind a name, in lines of a name and a number.
fn counter(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == name).and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_of_a_process_is_found() {
        let unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let hybrid = "30 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 29 0:28 / /sys/fs/cgroup/unified rw shared:5 master:2 - cgroup2 none rw";
        let within = "40 39 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for (groups, mounts, expected) in [
            ("0::/system.slice/x.service\n", unified, Some("/sys/fs/cgroup/system.slice/x.service")),
            ("0::/\n", unified, Some("/sys/fs/cgroup/")),
            ("4:memory:/a\n0::/b\n", hybrid, Some("/sys/fs/cgroup/unified/b")),
            ("0::/docker/abc/d\n", within, Some("/sys/fs/cgroup/d")),
            // The group is not below the mount point, or there is no version 2 hierarchy.
            ("0::/other\n", within, None),
            ("4:memory:/a\n", unified, None),
            ("0::/\n", "30 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", None),
            ("0::/\n", "29 23 0:26 / /a\\040b rw - cgroup2 cgroup2 rw", None),
            ("", "", None),
            ("0::/\n", "nonsense - cgroup2\n - \n", None),
        ] {
            assert_eq!(cgroup_path(groups, mounts).as_deref(), expected.map(Path::new), "{groups}{mounts}");
        }
    }

    #[test]
    fn requirements_become_settings() {
        let requires = |memory, processes, cpus| Requires { memory, processes, cpus, ..Requires::default() };
        let all = ["cpu", "memory", "pids"];
        let written = |controllers: &[&str], requires: &Requires| {
            let settings = settings(controllers, requires);
            settings.iter().map(|it| format!("{}={}", it.file, it.value)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(written(&all, &requires(0, 0, 1)), "");
        assert_eq!(written(&all, &requires(0, 0, 2)), "cpu.max=200000 100000");
        let memory = "memory.max=4096 memory.swap.max=0 memory.oom.group=1";
        assert_eq!(written(&all, &requires(4096, 0, 1)), format!("{memory} cpu.max=100000 100000"));
        assert_eq!(written(&["memory"], &requires(4096, 7, 1)), memory);
        assert_eq!(written(&["pids"], &requires(4096, 7, 1)), "pids.max=7");
        assert_eq!(written(&["cpu"], &requires(4096, 7, 1)), "");
    }

    #[test]
    fn counters_are_read_and_explained() {
        let events = "low 0\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!((counter(events, "oom_kill"), counter(events, "oom"), counter(events, "kill")), (2, 3, 0));
        let requires = Requires { memory: 96 << 20, processes: 7, ..Requires::default() };
        let message = |out_of_memory, not_started| {
            CgroupUsage { out_of_memory, not_started, ..CgroupUsage::default() }.exceeded(&requires).unwrap_or_default()
        };
        assert_eq!(message(1, 1), "used more memory than its limit of 96 MiB");
        assert_eq!(message(0, 1), "could not start another process or thread, its limit is 7");
        assert_eq!(message(0, 0), "");
        assert_eq!((counter("max x\n", "max"), counter("", "max"), counter("max", "max")), (0, 0, 0));
    }
}
