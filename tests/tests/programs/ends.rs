//! When an attempt ends, for any reason, all programs that it started end.

use std::path::Path;

use serde_json::json;
use xavantes_tests::until;

use crate::kit::{TestWorker, assert_tells, runs, sh, signal, words};

/// A script that starts a helper outside of its parent, process group and session, and writes the pid of the helper.
fn daemon(sign: &Path, environment: &str) -> String {
    let inner = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300", sign.display());
    format!(
        "(setsid {environment} sh -c '{inner}' < /dev/null > /dev/null 2>&1 &); while [ ! -e {0} ]; do sleep 0.02; done",
        sign.display()
    )
}

fn pid(text: &str) -> u32 {
    text.trim().parse().expect("a pid")
}

#[test]
fn helpers_end_with_their_program() {
    let mut place = TestWorker::new(&[]);
    let before = place.descriptors();
    for (name, environment) in [("marked", ""), ("bare", "env -i /usr/bin/env")] {
        let sign = place.sign(name);
        let ended = place.sh(&daemon(&sign, environment));
        assert_eq!(ended["state"], "completed", "{ended}");
        let pid = pid(&place.wait_for(&sign));
        until(&format!("the {name} helper has ended"), 30, || (!runs(pid)).then_some(()));
        place.assert_clean(before);
    }
}

#[test]
fn a_cancelled_program_is_asked_to_end_and_then_killed() {
    let mut place = TestWorker::new(&["--grace-seconds", "2"]);
    let before = place.descriptors();
    // A program that ends when asked.
    let (ready, told) = (place.sign("ready"), place.sign("told"));
    let process = place.submit(&sh(&format!(
        "trap 'echo told > {}; exit 0' TERM; echo ready > {}; while true; do sleep 0.05; done",
        told.display(),
        ready.display()
    )));
    place.wait_for(&ready);
    place.grid.cli(&place.address, &["cancel", &process]).ok();
    assert_eq!(place.grid.end(&place.address, &process)["state"], "cancelled");
    assert_eq!(place.wait_for(&told), "told\n");
    place.assert_clean(before);
    // A program and a helper that ignore the request.
    let (ready, helper) = (place.sign("stubborn"), place.sign("helper"));
    let process = place.submit(&sh(&format!(
        "trap '' TERM; {}; echo $$ > {}; while true; do sleep 0.05; done",
        daemon(&helper, ""),
        ready.display()
    )));
    let (main, helper) = (pid(&place.wait_for(&ready)), pid(&place.wait_for(&helper)));
    assert!(runs(main) && runs(helper));
    place.grid.cli(&place.address, &["cancel", &process]).ok();
    assert_eq!(place.grid.end(&place.address, &process)["state"], "cancelled");
    assert!(!runs(main), "the program has ended before its end is reported");
    until("the helper has ended", 30, || (!runs(helper)).then_some(()));
    place.assert_clean(before);
}

#[test]
fn a_program_that_takes_too_long_ends_with_everything_that_it_started() {
    let mut place = TestWorker::new(&[]);
    let before = place.descriptors();
    let helper = place.sign("helper");
    let script = sh(&format!("{}; sleep 300", daemon(&helper, "")));
    let process = place.submit_with("TIMEOUT=\"2s\"", &script);
    let ended = place.grid.end(&place.address, &process);
    assert_eq!(ended["state"], "failed", "{ended}");
    assert_tells(ended["error"].as_str().expect("an error is reported"), &["2s"]);
    let pid = pid(&place.wait_for(&helper));
    until("the helper has ended", 30, || (!runs(pid)).then_some(()));
    place.assert_clean(before);
}

#[test]
fn a_worker_that_stops_leaves_nothing_running() {
    let mut place = TestWorker::new(&["--drain-seconds", "0"]);
    let (ready, helper) = (place.sign("ready"), place.sign("helper"));
    place.submit(&sh(&format!("{}; echo $$ > {}; sleep 300", daemon(&helper, ""), ready.display())));
    let (main, helper) = (pid(&place.wait_for(&ready)), pid(&place.wait_for(&helper)));
    place.grid.terminate("a/w");
    until("the worker has stopped", 60, || place.grid.ended("a/w"));
    assert!(!runs(main) && !runs(helper), "both ended before the worker");
    assert!(place.folders().is_empty(), "{:?}", place.folders());
}

#[test]
fn a_worker_that_is_asked_twice_to_stop_ends_all_programs_at_once() {
    let mut place = TestWorker::new(&["--drain-seconds", "300"]);
    let (ready, helper) = (place.sign("ready"), place.sign("helper"));
    place.submit(&sh(&format!(
        "trap '' TERM; {}; echo $$ > {}; while true; do sleep 1; done",
        daemon(&helper, ""),
        ready.display()
    )));
    let (main, helper) = (pid(&place.wait_for(&ready)), pid(&place.wait_for(&helper)));
    place.grid.terminate("a/w");
    until("the worker drains", 60, || place.grid.log("a/w").contains("stopping on SIGTERM").then_some(()));
    assert!(runs(main) && runs(helper));
    place.grid.terminate("a/w");
    until("the worker has stopped", 60, || place.grid.ended("a/w"));
    until("both have ended", 30, || (!runs(main) && !runs(helper)).then_some(()));
}

#[test]
fn a_killed_worker_ends_left_programs_when_it_restarts() {
    let mut place = TestWorker::new(&[]);
    let (ready, helper) = (place.sign("ready"), place.sign("helper"));
    let process = place.submit(&sh(&format!("{}; echo $$ > {}; sleep 300", daemon(&helper, ""), ready.display())));
    let (main, helper) = (pid(&place.wait_for(&ready)), pid(&place.wait_for(&helper)));
    // The watchdog is killed, too, so that it does not end the programs.
    let guard = place.children().into_iter().find(|pid| words(*pid).get(1).is_some_and(|word| word == "guard"));
    signal(guard.expect("it has one"), "KILL");
    place.grid.kill_alone("a/w");
    assert!(runs(helper), "nothing has ended the helper");
    // The activity does not run again.
    place.grid.cli(&place.address, &["cancel", &process]).ok();
    assert_eq!(place.folders().len(), 1, "{:?}", place.folders());
    place.grid.restart("a/w");
    until("the left programs have ended", 30, || (!runs(main) && !runs(helper)).then_some(()));
    until("no directory is left", 30, || place.folders().is_empty().then_some(()));
    assert_tells(&place.grid.log("a/w"), &["killing processes that a former run of this node left"]);
}

#[test]
fn left_programs_of_a_killed_worker_end_even_if_it_does_not_restart() {
    let mut place = TestWorker::new(&[]);
    let (ready, helper) = (place.sign("ready"), place.sign("helper"));
    place.submit(&sh(&format!("{}; echo $$ > {}; sleep 300", daemon(&helper, ""), ready.display())));
    let (main, helper) = (pid(&place.wait_for(&ready)), pid(&place.wait_for(&helper)));
    place.grid.kill_alone("a/w");
    until("the left programs have ended", 30, || (!runs(main) && !runs(helper)).then_some(()));
}

#[test]
fn a_timeout_begins_with_the_program_and_fails_the_activity() {
    let mut place = TestWorker::new(&["--slots", "1", "--keep-failed", "1"]);
    let document = format!(
        "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"P\"><BODY><PARFOR NAME=\"all\" TO=\"4\"><ITERATE>
        <ACTIVITY TYPE=\"Work\" NAME=\"work\"/></ITERATE></PARFOR></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME=\"Work\" TIMEOUT=\"3s\">{}</ACTIVITY_TYPE></XAVANTES>",
        sh("sleep 1")
    );
    let file = place.grid.write("waits.xml", &document);
    let process = place.grid.submit(&place.address, &file, &[]);
    let ended = place.grid.end(&place.address, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
    let process = place.submit_with("TIMEOUT=\"1s\"", &sh("trap '' TERM; echo slow >&2; while true; do sleep 1; done"));
    let ended = place.grid.end(&place.address, &process);
    assert_eq!((&ended["state"], &ended["activities"]["failed"]), (&json!("failed"), &json!(1)), "{ended}");
    let error = ended["error"].as_str().expect("an error is reported");
    assert_tells(error, &["took longer than its TIMEOUT of 1s", "its directory is kept as ", ", on w", "\nslow"]);
    // The same for code that the worker itself runs.
    let process = place.submit_with("TIMEOUT=\"1s\"", "<CODE LANGUAGE=\"lua\">while true do end</CODE>");
    let ended = place.grid.end(&place.address, &process);
    assert_tells(ended["error"].as_str().expect("an error is reported"), &["took longer than its TIMEOUT of 1s, on w"]);
}

#[test]
fn directories_of_failed_attempts_are_kept_on_request() {
    let mut place = TestWorker::new(&["--keep-failed", "2"]);
    let mut kept = Vec::new();
    for number in 1..=3 {
        let ended = place.sh(&format!("echo {number} > here; exit 1"));
        let error = ended["error"].as_str().expect("it failed").to_owned();
        let path = error.split("its directory is kept as ").nth(1).expect("an error is reported").split(", on").next();
        kept.push(std::path::PathBuf::from(path.expect("an error is reported")));
    }
    let there: Vec<bool> = kept.iter().map(|path| path.join("work/here").exists()).collect();
    assert_eq!(there, [false, true, true], "{kept:?}");
    assert_eq!(place.sh("true")["state"], json!("completed"));
    until("no other directory is left", 30, || place.folders().is_empty().then_some(()));
}
