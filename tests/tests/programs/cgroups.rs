//! Limits by control groups. The tests need a machine on which they may create groups of version 2 with their controllers.

use std::path::{Path, PathBuf};

use serde_json::json;
use xavantes_tests::until;

use crate::kit::{TestWorker, assert_tells, runs, sh};

/// A control group for one worker.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a control group. Returns nothing if this machine does not allow it.
    fn make() -> Option<Self> {
        let skipped = |why: &str| {
            eprintln!("SKIPPED: limits by control groups are not tested here: {why}");
            None
        };
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else {
            return skipped("there is no hierarchy of version 2");
        };
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let Some(at) = mounts.find(|mount| mount.get(2) == Some(&"cgroup2")).map(|mount| mount[1].to_owned()) else {
            return skipped("no hierarchy of version 2 is mounted");
        };
        let around = Path::new(&at).join(own);
        for controller in ["cpu", "memory", "pids"] {
            // An error shows below: the controller is missing in the new group.
            let _ = std::fs::write(around.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        let path = around.join(format!("xavantes-tests-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&path) {
            return skipped(&format!("{} cannot be made: {error}", path.display()));
        }
        let made = Self(path);
        let there = std::fs::read_to_string(made.0.join("cgroup.controllers")).unwrap_or_default();
        match ["cpu", "memory", "pids"].iter().all(|wanted| there.split_ascii_whitespace().any(|it| it == *wanted)) {
            true => Some(made),
            false => skipped(&format!("of cpu, memory and pids there is only {there:?} in {}", made.0.display())),
        }
    }

    /// The control groups of attempts.
    fn attempts(&self) -> Vec<PathBuf> {
        let inner = std::fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        inner
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("attempt-")))
            .collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Ends the programs that a failed test has left.
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        for _ in 0..100 {
            let inner = std::fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
            inner.filter(|path| path.is_dir()).for_each(|path| drop(std::fs::remove_dir(path)));
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[test]
fn the_kernel_keeps_programs_within_their_limits() {
    let Some(cgroup) = Cgroup::make() else { return };
    let mut place = TestWorker::within(Some(&cgroup.0), &["--cgroups", "required"]);
    let nodes = place.grid.nodes(&place.address);
    let worker = nodes.iter().find(|node| node["node"] == "w").expect("it is there");
    assert_eq!(worker["cgroups"], json!(["cpu", "memory", "pids"]));
    // Memory: of any use, and of all helpers together.
    let grow = "head -c 210000000 /dev/zero | tail -c 200000000 > /dev/null";
    let error = place.failing(&format!("<REQUIRES MEMORY=\"64MiB\"/>{}", sh(&format!("{grow} & {grow}; wait"))));
    assert_tells(&error, &["the sh code used more memory than its limit of 64 MiB"]);
    // Processes.
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 300 & done; wait";
    let error = place.failing(&format!("<REQUIRES PROCESSES=\"8\"/>{}", sh(script)));
    assert_tells(&error, &["could not start another process or thread, its limit is 8"]);
    // Programs within their limits run as usual, but in the control group.
    let types = format!(
        "<OUT_PARAMETER TYPE=\"string\" NAME=\"group\" FROM=\"stdout-trimmed\"/>\
         <REQUIRES MEMORY=\"64MiB\" OPEN_FILES=\"50\" CPUS=\"2\"/>{}",
        sh(
            "grep ^0:: /proc/self/cgroup; cat $(dirname $(find /sys/fs/cgroup -name cgroup.procs -exec grep -lx $$ {} + \
            | head -1))/cpu.max; ulimit -n"
        )
    );
    let ended = place.run(&types);
    let group = ended["results"]["group"].as_str().unwrap_or_else(|| panic!("{ended}")).to_owned();
    assert_tells(&group, &["/attempt-", "\n200000 100000\n50"]);
    // A program without limits has no control group.
    let plain = "<OUT_PARAMETER TYPE=\"string\" NAME=\"group\" FROM=\"stdout-trimmed\"/>";
    let ended = place.run(&format!("{plain}{}", sh("grep ^0:: /proc/self/cgroup")));
    assert!(ended["results"]["group"].as_str().is_some_and(|group| group.ends_with("/node")), "{ended}");
    until("no control group is left", 30, || cgroup.attempts().is_empty().then_some(()));
}

#[test]
fn all_programs_of_a_control_group_end_together_and_are_counted() {
    let Some(cgroup) = Cgroup::make() else { return };
    let mut place = TestWorker::within(Some(&cgroup.0), &[]);
    let before = place.descriptors();
    // A helper that only the control group identifies: it has no parent, no marker and another process group.
    let sign = place.sign("helper");
    let helper = format!(
        "(setsid env -i /bin/sh -c 'echo $$ > {0}.new; mv {0}.new {0}; n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; \
         touch {0}.done; exec sleep 300' < /dev/null > /dev/null 2>&1 &); while [ ! -e {0}.done ]; do sleep 0.02; done",
        sign.display()
    );
    let process = place.submit(&format!("<REQUIRES MEMORY=\"64MiB\"/>{}", sh(&helper)));
    let ended = place.grid.end(&place.address, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
    let pid = place.wait_for(&sign).trim().parse().expect("a pid");
    assert!(!runs(pid), "the helper has ended before the end is reported");
    place.assert_clean(before);
    let shown = place.grid.cli(&place.address, &["show", &format!("{process}/work")]).ok().json();
    let usage = &shown["records"][0]["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{name} in {shown}"));
    assert!(number("user_ms") + number("system_ms") >= 10, "what nobody waited for is counted, too: {shown}");
    assert!((1..=64 << 20).contains(&number("peak_memory")), "{shown}");
    // A program that is cancelled.
    let ready = place.sign("ready");
    let script = format!("trap '' TERM; setsid sleep 300 & echo $! > {}; wait; sleep 300", ready.display());
    let process = place.submit(&format!("<REQUIRES PROCESSES=\"20\"/>{}", sh(&script)));
    let helper = place.wait_for(&ready).trim().parse().expect("a pid");
    assert!(runs(helper));
    place.grid.cli(&place.address, &["cancel", &process]).ok();
    assert_eq!(place.grid.end(&place.address, &process)["state"], "cancelled");
    assert!(!runs(helper), "the helper has ended before the end is reported");
    until("no control group is left", 30, || cgroup.attempts().is_empty().then_some(()));
}

#[test]
fn a_node_that_requires_control_groups_does_not_start_without_them() {
    // The test program is in the same control group, so the node cannot divide it.
    let arguments = "node --name a --cgroups required --in-memory --listen 127.0.0.1:0";
    let ended = xavantes_tests::xavantes(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, 2, "{ended:?}");
    assert_tells(&ended.stderr, &["control groups are required, but cannot be used: "]);
}
