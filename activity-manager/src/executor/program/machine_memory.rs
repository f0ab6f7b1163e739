//! The memory that this program may use: that of the machine, or less if a control group limits it, as in a container.

use std::path::Path;

/// Where the system shows control groups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory that this program and its children may use.
pub fn available_memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = machine_memory(&read("/proc/meminfo"));
    machine.min(cgroup_limit(Path::new(CGROUPS), &read("/proc/self/cgroup")))
}

/// Bytes of memory of the machine.
fn machine_memory(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|total| total.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes.saturating_mul(1024))
}

/// The lowest limit of the control groups of a process, in either version of control groups, and of the groups around them. In a
/// container the paths may be those of the host: then the root that the container sees has the limit.
fn cgroup_limit(root: &Path, cgroups: &str) -> u64 {
    let limits = cgroups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let counts = controllers.is_empty() || controllers.split(',').any(|controller| controller == "memory");
        let groups = Path::new(path.trim_start_matches('/')).ancestors().filter(move |_| counts);
        groups.filter_map(move |group| limit_in(&root.join(group).join(file)))
    });
    limits.min().unwrap_or(u64::MAX)
}

/// The limit in a file; `None` if there is none.
fn limit_in(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system of control groups with these limits.
    fn cgroups(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, limit) in files {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{limit}\n")).unwrap();
        }
        root
    }

    #[test]
    fn the_lowest_limit_of_all_control_groups_counts() {
        let (max, all) = ("memory.max", "9223372036854771712");
        for (files, process, expected) in [
            // In a container: the root that it sees is its own group.
            (&[(max, "1000")][..], "0::/\n", 1000),
            (&[("a/b/memory.max", "max"), ("a/memory.max", "700"), (max, "900")], "0::/a/b\n", 700),
            (&[("a/memory.max", "700")], "0::/\n", u64::MAX),
            (&[], "0::/\n", u64::MAX),
            (&[], "", u64::MAX),
            // The first version has a tree for each controller, and may show the path of the host.
            (&[("memory/memory.limit_in_bytes", "800")], "5:cpu,cpuacct:/x\n4:memory:/docker/1\n", 800),
            (
                &[("memory/memory.limit_in_bytes", all), ("memory/x/memory.limit_in_bytes", "600")],
                "4:memory,hugetlb:/x\n1:name=systemd:/y\n",
                600,
            ),
            (&[("memory/x/memory.limit_in_bytes", "600")], "4:cpu:/x\n", u64::MAX),
        ] {
            assert_eq!(cgroup_limit(cgroups(files).path(), process), expected, "{files:?} {process:?}");
        }
    }

    #[test]
    fn the_machine_has_memory() {
        assert_eq!(machine_memory("MemTotal:       16 kB\nMemFree: 1 kB\n"), 16 << 10);
        assert_eq!(machine_memory(""), u64::MAX);
        assert!((1 << 20..u64::MAX).contains(&available_memory()));
    }
}
