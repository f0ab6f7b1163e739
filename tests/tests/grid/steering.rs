//! Commands that steer processes, and their exit codes.

use xavantes_tests::{Ended, Grid, free_address, until, xavantes};

use crate::kit::{document, naps, tree, workers};

const STEPS: &str = r#"
  <PROCESS_TYPE NAME="Steps">
    <IN_PARAMETER TYPE="string" NAME="file"/>
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <BODY>
      <ACTIVITY TYPE="Exists" NAME="first" file="${file}" ON_FAILURE="hold"/>
      <ACTIVITY TYPE="Double" NAME="second" n="1"/>
      <POST_CODE>result = second.result</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Exists">
    <IN_PARAMETER TYPE="string" NAME="file"/>
    <CODE LANGUAGE="command"><ARG>test</ARG><ARG>-e</ARG><ARG>${file}</ARG></CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Double">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <CODE LANGUAGE="lua">result = 2 * n</CODE>
  </ACTIVITY_TYPE>"#;

const FAILS: &str = r#"
  <PROCESS_TYPE NAME="Fails">
    <BODY><ACTIVITY TYPE="Fail" NAME="fail"/></BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Fail">
    <CODE LANGUAGE="command"><ARG>ls</ARG><ARG>/there/is/nothing</ARG></CODE>
  </ACTIVITY_TYPE>"#;

#[track_caller]
fn refused(ended: &Ended, code: i32, words: &str) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(words), "{words:?} is not in {ended:?}");
}

#[test]
fn running_processes_are_paused_resumed_changed_retried_and_cancelled() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[4], &[]);
    let file = naps(&mut grid);
    let process = grid.submit(&address, &file, &["count=1000", "time=0.3"]);
    let all = format!("{process}/all");
    let steer = |arguments: &[&str]| grid.cli(&address, arguments);
    let running = || tree(&grid, &address, &process).map_or(0, |tree| workers(&tree).len());
    until("the activities run", 60, || (running() == 4).then_some(()));

    refused(&steer(&["results", &process]), 2, "has not ended");
    steer(&["set", &all, "MAX_PARALLEL=1"]).ok();
    until("one activity runs at a time", 60, || (running() == 1).then_some(()));
    refused(&steer(&["set", &all, "MAX_PARALLEL=0"]), 2, "MAX_PARALLEL must be at least 1, got 0");
    refused(&steer(&["set", &all, "SPEED=9"]), 2, "\"SPEED\" cannot");

    steer(&["pause", &process]).ok();
    assert_eq!(grid.status(&address, &process)["state"], "paused");
    refused(&steer(&["pause", &process]), 2, "is paused");
    until("the running activities have ended", 60, || (running() == 0).then_some(()));
    steer(&["resume", &process]).ok();
    refused(&steer(&["resume", &process]), 2, "is not paused");
    until("the process continues", 60, || (running() == 1).then_some(()));

    refused(&steer(&["show", &format!("{process}/al")]), 2, "has no element \"al\"; did you mean \"all\"?");
    refused(&steer(&["pause", &format!("{all}/[9999999]")]), 2, "has no iteration [9999999]");
    refused(&steer(&["cancel", "Naps-none"]), 2, "there is no process \"Naps-none\" here");
    refused(&steer(&["retry", "Nap5"]), 2, "there is no process");
    refused(&steer(&["retry", &process]), 2, "is running: `retry` is for an element of it");
    let restarted = steer(&["retry", &all]).ok().json();
    assert_eq!((&restarted["path"], &restarted["effect"]), (&all.as_str().into(), &"restarts".into()));

    steer(&["cancel", &process]).ok();
    let ended = steer(&["wait", &process]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert_eq!(ended.json()["processes"][0]["state"], "cancelled");
    refused(&steer(&["cancel", &process]), 2, "has ended");
    let shown = steer(&["show", &process]).ok().json();
    let events: Vec<_> =
        shown["events"].as_array().into_iter().flatten().filter_map(|it| it["steered"].as_str()).collect();
    assert_eq!(
        (&shown["state"], events),
        (&"cancelled".into(), vec!["set MAX_PARALLEL=1", "pause", "resume", "retry", "cancel"])
    );
    assert_eq!(steer(&["results", &process]).code, 4);
}

#[test]
fn a_held_activity_is_retried_and_later_activities_can_be_changed() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = grid.write("steps.xml", &document(STEPS));
    let missing = format!("{file}.missing");
    let process = grid.submit(&address, &file, &[&format!("file={missing}")]);
    let first = format!("{process}/first");
    let held = until("the activity is held", 60, || {
        let shown = grid.cli(&address, &["show", &first]);
        (shown.code == 0).then(|| shown.json()).filter(|it| it["state"] == "held")
    });
    assert!(held["error"].as_str().is_some_and(|error| error.contains("exit status 1")), "{held}");
    let second = format!("{process}/second");
    refused(&grid.cli(&address, &["set", &second, "m=21"]), 2, "has no IN parameter \"m\"");
    refused(&grid.cli(&address, &["set", &second, "n=many"]), 2, "n: ");
    grid.cli(&address, &["set", &second, "n=21"]).ok();
    refused(&grid.cli(&address, &["set", &first, "file=x"]), 2, "has begun");
    std::fs::write(&missing, "").expect("tests can write here");
    grid.cli(&address, &["retry", &first]).ok();
    let ended = grid.end(&address, &process);
    assert_eq!(
        (ended["state"].as_str(), ended["results"]["result"].as_i64()),
        (Some("completed"), Some(42)),
        "{ended}"
    );
    assert_eq!(ended["activities"]["attempts"], 3, "{ended}");
}

#[test]
fn exit_codes_distinguish_ends_of_processes_and_errors() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let nobody = free_address();
    refused(&grid.cli(&nobody, &["list"]), 3, &format!("no node answers at {nobody}"));
    refused(&grid.cli("not an address", &["list"]), 2, "is not an address");

    let fine = naps(&mut grid);
    let fine = grid.submit(&address, &fine, &["count=2", "time=0.1"]);
    let fails = grid.write("fails.xml", &document(FAILS));
    let fails = grid.submit(&address, &fails, &[]);
    assert_eq!(grid.cli(&address, &["wait", &fine]).code, 0);
    let ended = grid.cli(&address, &["wait", &fine, &fails]);
    assert_eq!(ended.code, 1, "{ended:?}");
    for words in ["Fails-", "-fails.xml:", "on w1", "exit status 2", "/there/is/nothing"] {
        assert!(ended.stderr.contains(words), "{words:?} is not in {ended:?}");
    }
    refused(&grid.cli(&address, &["wait", "Nothing-0000"]), 2, "there is no process");

    // A worker is no coordinator.
    let worker = grid.nodes(&address).iter().find_map(|node| {
        (node["node"] == "w1").then(|| node["address"].as_str().expect("it has an address").to_owned())
    });
    let worker = worker.expect("the manager knows the worker");
    let advice =
        format!("needs a node with the role process-coordinator; node \"w1\" at {worker} has only activity-manager");
    refused(&grid.cli(&worker, &["list"]), 3, &advice);
    refused(&grid.cli(&worker, &["list"]), 3, &format!("{address} has it: say so with --coordinator"));
    refused(&grid.cli(&worker, &["nodes"]), 3, &format!("{address} has it: say so with --coordinator"));
    refused(
        &grid.cli("no-such-host.invalid:7433", &["list"]),
        3,
        "the host name \"no-such-host.invalid\" has no address",
    );

    let second = xavantes(&["node", "--listen", &address, "--name", "second"]);
    refused(&second, 2, &format!("cannot listen on {address}"));
    refused(&xavantes(&["node", "--listen", &free_address(), "--roles", "activity-manager"]), 2, "--join HOST:PORT");
}
