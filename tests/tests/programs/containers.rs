//! Programs in containers, with a real engine if one is installed.

use std::process::{Command, Stdio};

use serde_json::json;
use xavantes_tests::until;

use crate::kit::{TestWorker, assert_tells, sh};

/// An image for these tests with a static shell.
const IMAGE: &str = "xavantes-tests:1";

/// The engines that work on this machine, with the image loaded. Prints a note for each engine that is not tested.
fn engines() -> Vec<&'static str> {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    let works = |engine: &&str| {
        let script = format!(
            "set -e; {engine} info; d=$(mktemp -d); mkdir -p $d/bin $d/tmp; cp $(command -v busybox) $d/bin/busybox; \
             for a in sh sleep echo cat env id head tail expr test true seq wc touch; do ln -s busybox $d/bin/$a; done; \
             tar -C $d -c . | {engine} import - {IMAGE}; rm -rf $d; {engine} run --rm --init {IMAGE} /bin/true"
        );
        let works = quiet(Command::new("sh").args(["-c", &script]));
        if !works {
            eprintln!("SKIPPED: containers are not tested with {engine}: it does not run one of busybox-static here");
        }
        works
    };
    ["docker", "podman"].into_iter().filter(works).collect()
}

fn containers(engine: &str) -> String {
    let listed = Command::new(engine).args(["ps", "-aq", "--filter", "label=xavantes.root"]).output();
    listed.map(|listed| String::from_utf8_lossy(&listed.stdout).trim().to_owned()).unwrap_or_default()
}

fn within(image: &str, script: &str) -> String {
    sh(script).replace("<CODE ", &format!("<CODE IMAGE=\"{image}\" "))
}

#[test]
fn programs_run_in_containers() {
    engines().into_iter().for_each(run_programs);
}

fn run_programs(engine: &str) {
    let image = IMAGE;
    let mut place = TestWorker::new(&["--containers", engine, "--pass-environment", "HOME"]);
    let types = format!(
        "<IN_PARAMETER TYPE=\"int\" NAME=\"n\" DEFAULT=\"4\"/><OUT_PARAMETER TYPE=\"int\" NAME=\"next\"/>
        <OUT_PARAMETER TYPE=\"string\" NAME=\"files\" FROM=\"stdout-trimmed\"/>{}",
        within(image, "echo \"{\\\"next\\\": $(expr $n + 1)}\" > $XAVANTES_RESULTS; echo /bin/[be]* ${PWD##*/}")
    );
    let ended = place.run(&types);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"], json!({"next": 5, "files": "/bin/busybox /bin/echo /bin/env /bin/expr work"}));
    let error = place.failing(&within(image, "echo no >&2; exit 7"));
    assert_tells(&error, &["exit status 7\nno"]);
    // A program may end with a status that engines use themselves.
    let ended = place.run(&within(image, "exit 125").replace("<CODE ", "<CODE SUCCESS=\"125\" "));
    assert_eq!(ended["state"], "completed", "{ended}");
    let error = place.failing(&within(image, "exit 127"));
    assert_tells(&error, &["the sh code failed", "exit status 127"]);
    let language = "<OUT_PARAMETER TYPE=\"string\" NAME=\"x\" FROM=\"stdout-trimmed\"/>";
    let ended = place.run(&format!("{language}{}", within(image, "echo ${LANG:+set} $XAVANTES_NODE $(id -u)")));
    assert_eq!(ended["results"]["x"], json!(format!("set w {}", user())), "{ended}");
    let hog = within(image, "head -c 100000000 /dev/zero | tail -c 90000000 | wc -c; exit 1");
    let error = place.failing(&format!("<REQUIRES MEMORY=\"20MB\"/>{hog}"));
    assert_tells(&error, &["the container used more memory than its limit of 19.1 MiB"]);
    // With control groups of version 2, the usage is measured while the container runs.
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; touch busy; while [ ! -e end ]; do sleep 0.1; done";
    let process = place.submit(&within(image, busy));
    let work = until("the program was busy", 60, || {
        place.folders().iter().map(|folder| folder.join("work")).find(|work| work.join("busy").exists())
    });
    // The worker measures five times a second.
    std::thread::sleep(std::time::Duration::from_secs(2));
    std::fs::write(work.join("end"), "").expect("tests can write here");
    assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
    let shown = place.grid.cli(&place.address, &["show", &format!("{process}/work")]).ok().json();
    let usage = &shown["records"][0]["usage"];
    if std::fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains(" cgroup2 ")) {
        let number = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{name} in {shown}"));
        assert!(number("user_ms") + number("system_ms") > 0 && number("peak_memory") > 0, "{shown}");
    }
    let error = place.failing(&within("xavantes-there-is-no-such-image:0", "true"));
    assert_tells(&error, &["a container of \"xavantes-there-is-no-such-image:0\" cannot be started"]);
    // The command-line tools of the engine have ended, too.
    until("no process is left", 30, || place.processes().is_empty().then_some(()));
    assert_eq!(containers(engine), "");
}

/// The id of the user who runs the tests.
fn user() -> String {
    let id = Command::new("id").arg("-u").output().expect("there is such a program");
    String::from_utf8_lossy(&id.stdout).trim().to_owned()
}

#[test]
fn containers_end_when_cancelled_and_when_the_worker_restarts() {
    engines().into_iter().for_each(end_containers);
}

fn end_containers(engine: &str) {
    let mut place = TestWorker::new(&["--containers", engine]);
    let hello = |place: &mut TestWorker| place.submit(&within(IMAGE, "echo ready; while true; do sleep 1; done"));
    let begun = |place: &TestWorker, process: &str| {
        until("the program has begun", 60, || {
            let logs = place.grid.cli(&place.address, &["logs", &format!("{process}/work")]);
            (logs.code == 0 && logs.json()["stdout"] == "ready\n").then_some(())
        });
    };
    let process = hello(&mut place);
    begun(&place, &process);
    assert_ne!(containers(engine), "");
    place.grid.cli(&place.address, &["cancel", &process]).ok();
    assert_eq!(place.grid.end(&place.address, &process)["state"], "cancelled");
    until("no container is left", 60, || containers(engine).is_empty().then_some(()));
    let process = hello(&mut place);
    begun(&place, &process);
    place.grid.kill_alone("a/w");
    place.grid.cli(&place.address, &["cancel", &process]).ok();
    place.grid.restart("a/w");
    until("no container is left", 60, || containers(engine).is_empty().then_some(()));
}

#[test]
fn containers_wait_for_a_worker_that_runs_them() {
    let mut place = TestWorker::new(&["--containers", "none"]);
    let process = place.submit(&within("debian:12", "true"));
    let shown = until("the reason for waiting is shown", 60, || {
        let shown = place.grid.cli(&place.address, &["show", &format!("{process}/work")]).json();
        (shown["wait_reason"]["kind"] == "unmet").then_some(shown)
    });
    assert_eq!(shown["waits"], "no connected worker runs containers", "{shown}");
}
