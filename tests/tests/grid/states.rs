//! What people see of processes and elements: one set of states, and counts that add up.

use std::time::Duration;

use serde_json::Value as Json;
use xavantes_tests::{Grid, until};

use crate::kit::{at, document, elements, keep_busy, naps, tree};

const LONG: u64 = 60;

/// Two branches, one of which a user pauses; and an element that waits for both.
const BRANCHES: &str = r#"
  <PROCESS_TYPE NAME="Branches">
    <BODY>
      <PAR NAME="both">
        <ACTIVITY TYPE="Nap" NAME="left" time="300"/>
        <BLOCK NAME="right">
          <ACTIVITY TYPE="Nap" NAME="first" time="5"/>
          <ACTIVITY TYPE="Nap" NAME="second" time="300"/>
        </BLOCK>
        <ACTIVITY TYPE="Nap" NAME="last" time="0.1" AFTER="left right"/>
      </PAR>
    </BODY>
  </PROCESS_TYPE>"#;

/// An activity that no worker can run.
const PICKY: &str = r#"
  <PROCESS_TYPE NAME="Picky"><BODY><ACTIVITY TYPE="Choosy" NAME="a"/></BODY></PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Choosy"><REQUIRES TAGS="gold"/><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>"#;

/// An activity that fails, and is held until a user decides.
const HOLDING: &str = r#"
  <PROCESS_TYPE NAME="Holding"><BODY><ACTIVITY TYPE="Bad" NAME="a" ON_FAILURE="hold"/></BODY></PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Bad"><CODE LANGUAGE="lua">error("no")</CODE></ACTIVITY_TYPE>"#;

/// Counts of the activities of a process or in an element that have begun and not ended: running, queued, waiting, held.
fn live(counts: &Json) -> [u64; 4] {
    ["running", "queued", "waiting", "held"].map(|state| counts[state].as_u64().unwrap_or(0))
}

#[test]
fn no_more_activities_run_than_there_are_slots_and_the_counts_add_up() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = naps(&mut grid);
    let process = grid.submit(&address, &file, &["count=12", "time=1"]);
    let mut full = 0;
    until("both slots were seen in use, a few times", LONG, || {
        let status = grid.status(&address, &process);
        let [running, ..] = live(&status["activities"]);
        assert!(running <= 2, "{status}");
        let tree = tree(&grid, &address, &process)?;
        let [running, ..] = live(&tree["live"]);
        assert!(running <= 2, "{tree}");
        let activities = || elements(&tree).into_iter().filter(|element| element["element"] == "ACTIVITY");
        let in_state = |state: &str| activities().filter(|activity| activity["state"] == state).count() as u64;
        let sums = ["running", "queued", "waiting", "held"].map(in_state);
        assert_eq!(live(&tree["live"]), sums, "{tree}");
        assert_eq!(live(&at(&tree, &format!("{process}/all"))?["live"]), sums, "{tree}");
        full += u32::from(running == 2 && tree["state"] == "running" && status["state"] == "running");
        (full >= 3).then_some(())
    });
    let runs = until("an activity runs", LONG, || {
        let tree = tree(&grid, &address, &process)?;
        elements(&tree).into_iter().find(|it| it["element"] == "ACTIVITY" && it["state"] == "running").cloned()
    });
    assert!(runs["worker"] == "w1" && runs["running_since_ms"].as_u64() >= runs["began_ms"].as_u64(), "{runs}");
    grid.cli(&address, &["cancel", &process]).ok();
}

#[test]
fn a_process_is_in_the_state_of_its_elements_and_waiting_elements_say_what_for() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = grid.write("branches.xml", &document(BRANCHES));
    let process = grid.submit(&address, &file, &[]);
    let right = format!("{process}/both/right");
    until("the branch is paused", LONG, || (grid.cli(&address, &["pause", &right]).code == 0).then_some(()));
    let shown = until("the paused branch has nothing that runs", LONG, || {
        let tree = tree(&grid, &address, &process)?;
        let [running, ..] = live(&at(&tree, &right)?["live"]);
        (running == 0 && at(&tree, &format!("{process}/both/left"))?["state"] == "running").then_some(tree)
    });
    assert_eq!(at(&shown, &right).map(|it| &it["state"]), Some(&"paused".into()), "{shown}");
    assert_eq!(shown["state"], "running", "one branch is paused, not the process: {shown}");
    assert_eq!(grid.status(&address, &process)["state"], "running");
    let last = at(&shown, &format!("{process}/both/last")).expect("an element that waits is drawn");
    assert_eq!(last["wait_reason"]["names"], serde_json::json!(["left", "right"]), "{last}");
    let alone = grid.cli(&address, &["show", &format!("{process}/both/last")]).ok().json();
    assert_eq!((&alone["state"], &alone["waits"]), (&"waiting".into(), &"left, right must end first".into()));
    grid.cli(&address, &["cancel", &process]).ok();

    let file = grid.write("picky.xml", &document(PICKY));
    let picky = grid.submit(&address, &file, &[]);
    let status = until("the process says what it waits for", LONG, || {
        let status = grid.status(&address, &picky);
        (status["wait_reason"]["kind"] == "unmet").then_some(status)
    });
    assert_eq!((&status["state"], &status["wait_reason"]["tag"]), (&"waiting".into(), &"gold".into()), "{status}");
    assert_eq!(live(&status["activities"]), [0, 0, 1, 0], "{status}");
    assert_eq!(grid.cli(&address, &["show", &picky]).ok().json()["state"], "waiting");

    let file = grid.write("holding.xml", &document(HOLDING));
    let held = grid.submit(&address, &file, &[]);
    let status = until("the process is held", LONG, || {
        let status = grid.status(&address, &held);
        (status["state"] == "held").then_some(status)
    });
    assert_eq!(live(&status["activities"]), [0, 0, 0, 1], "{status}");
    assert_eq!(grid.cli(&address, &["show", &held]).ok().json()["state"], "held");
}

#[test]
fn nothing_runs_on_a_worker_that_is_gone() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let process = keep_busy(&mut grid, &address, 1);
    grid.kill("a/w1");
    let status = until("the process waits for its worker", LONG, || {
        let status = grid.status(&address, &process);
        (status["wait_reason"]["kind"] == "worker-silent").then_some(status)
    });
    assert_eq!((&status["state"], &status["wait_reason"]["node"]), (&"waiting".into(), &"w1".into()), "{status}");
    let status = until("then it waits for any worker", LONG, || {
        let status = grid.status(&address, &process);
        (status["wait_reason"]["kind"] == "no-worker").then_some(status)
    });
    assert_eq!(live(&status["activities"]), [0, 0, 1, 0], "{status}");
    let tree = tree(&grid, &address, &process).expect("it has not ended");
    assert!(elements(&tree).iter().all(|element| element["state"] == "waiting"), "{tree}");
}

#[test]
fn the_counts_of_a_process_include_those_of_its_subtrees() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a]);
    until("both groups know each other", LONG, || crate::kit::group(&grid, &a, "b"));
    let parts = r#"
      <PROCESS_TYPE NAME="Parts">
        <BODY><PROCESS TYPE="Part" NAME="far" DELEGATE="always"/></BODY>
      </PROCESS_TYPE>
      <PROCESS_TYPE NAME="Part">
        <BODY><PARFOR NAME="all" TO="3"><ITERATE>
          <ACTIVITY TYPE="Nap" NAME="nap" time="${counter == 1 and '0.1' or '300'}"/>
        </ITERATE></PARFOR></BODY>
      </PROCESS_TYPE>"#;
    let file = grid.write("parts.xml", &document(parts));
    let process = grid.submit(&a, &file, &[]);
    let status = until("the parent counts what runs elsewhere", LONG, || {
        let status = grid.status(&a, &process);
        (live(&status["activities"]) == [2, 0, 0, 0]).then_some(status)
    });
    assert_eq!((&status["state"], &status["activities"]["completed"]), (&"running".into(), &1.into()), "{status}");
    let tree =
        until("the tree shows it, too", LONG, || tree(&grid, &a, &process).filter(|it| live(&it["live"])[0] == 2));
    let far = at(&tree, &format!("{process}/far")).expect("it is drawn");
    assert_eq!((&far["state"], live(&far["live"])), (&"running".into(), [2, 0, 0, 0]), "{tree}");
    grid.cli(&a, &["cancel", &process]).ok();
    drop(b);
}

#[test]
fn an_element_shows_what_it_was_given_its_bounds_and_who_changed_them_but_no_secret() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let types = r#"
      <PROCESS_TYPE NAME="Discreet">
        <IN_PARAMETER TYPE="string" NAME="token" SECRET="true"/>
        <IN_PARAMETER TYPE="int" NAME="count"/>
        <OUT_PARAMETER TYPE="int" NAME="sum"/>
        <OUT_PARAMETER TYPE="string" NAME="copy" SECRET="true"/>
        <BODY>
          <PRE_CODE>copy = token</PRE_CODE>
          <PARFOR NAME="all" TO="${count}" MAX_PARALLEL="1" DELEGATE="never">
            <ITERATE><ACTIVITY TYPE="Nap" NAME="nap" time="${counter == 1 and '5' or '0'}"/></ITERATE>
          </PARFOR>
          <POST_CODE>sum = count</POST_CODE>
        </BODY>
      </PROCESS_TYPE>"#;
    let file = grid.write("discreet.xml", &document(types));
    let process = grid.submit(&address, &file, &["token=open-sesame", "count=3"]);
    let all = format!("{process}/all");
    until("the loop has begun", LONG, || (grid.cli(&address, &["show", &all]).code == 0).then_some(()));
    grid.cli(&address, &["set", &all, "MAX_PARALLEL=7"]).ok();
    let shown = grid.cli(&address, &["show", &process]).ok().json();
    let inputs = serde_json::json!([{"name": "token", "hidden": true}, {"name": "count", "value": "3"}]);
    assert_eq!(shown["inputs"], inputs, "{shown}");
    assert!(shown["began_ms"].as_u64() > Some(1_000_000_000_000), "{shown}");
    let event = &shown["events"][0];
    assert_eq!((&event["path"], &event["steered"]), (&all.clone().into(), &"set MAX_PARALLEL=7".into()), "{shown}");
    assert!(event["by"].as_str().is_some_and(|by| by.contains('@')), "{shown}");
    let shown = grid.cli(&address, &["show", &all]).ok().json();
    let bounds = serde_json::json!({"from": 1, "to": 3, "step": 1, "max_parallel": 7});
    assert_eq!((&shown["bounds"], shown["events"].as_array().map(Vec::len)), (&bounds, Some(1)), "{shown}");
    let ended = grid.end(&address, &process);
    assert_eq!(ended["results"]["copy"], "open-sesame", "who asks for results gets them: {ended}");
    let shown = grid.cli(&address, &["show", &process]).ok().json();
    assert_eq!(shown["inputs"], inputs, "{shown}");
    let outputs = serde_json::json!([{"name": "copy", "hidden": true}, {"name": "sum", "value": "3"}]);
    assert_eq!(shown["outputs"], outputs, "{shown}");
    for command in ["show", "tree"] {
        assert!(!grid.cli(&address, &[command, &process]).ok().stdout.contains("sesame"), "{command} tells the secret");
    }
    assert!(!grid.log("a/main").contains("sesame"), "the log of the coordinator tells the secret");
    let nap = format!("{all}/[1]/nap");
    let shown = grid.cli(&address, &["show", &nap]).ok().json();
    assert_eq!((&shown["state"], &shown["worker"]), (&"completed".into(), &"w1".into()), "{shown}");
    grid.kill("a/w1");
    let shown = until("nobody knows where it ran", LONG, || {
        let shown = grid.cli(&address, &["show", &nap]).ok().json();
        (shown["attempts_unknown"] == true).then_some(shown)
    });
    assert_eq!((&shown["state"], shown.get("worker")), (&"completed".into(), None), "{shown}");
}

#[test]
fn a_running_activity_keeps_its_beginning_when_its_coordinator_restarts() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let file = naps(&mut grid);
    let process = grid.submit(&address, &file, &["count=1", "time=300"]);
    let nap = format!("{process}/all/[1]/nap");
    let running_since = || {
        let shown = grid_show(&grid, &address, &nap);
        let no_cache = !shown["waits"].as_str().is_some_and(|waits| waits.contains("cache"));
        assert!(no_cache, "the activity has no cached result: {shown}");
        shown["running_since_ms"].as_u64().filter(|_| shown["state"] == "running")
    };
    let before = until("the activity runs", LONG, running_since);
    // Long enough that a beginning at the restart would be another one.
    std::thread::sleep(Duration::from_secs(4));
    grid.kill("a/main");
    grid.restart("a/main");
    let running_since = || grid_show(&grid, &address, &nap)["running_since_ms"].as_u64();
    let after = until("the activity runs", LONG, running_since);
    assert!(after.abs_diff(before) < 3000, "it began at {before}, not at {after}");
}

fn grid_show(grid: &Grid, address: &str, path: &str) -> Json {
    let shown = grid.cli(address, &["show", path]);
    if shown.code == 0 { shown.json() } else { Json::Null }
}
