//! The traffic between groups for a subtree does not grow with the number of its activities, except for what later reruns take
//! over, which is bounded.

use std::time::Instant;

use serde_json::json;
use xavantes_tests::{Grid, TestLink, free_address, is_live, until};

use crate::kit::{assert_counts, busy, document, group};
use crate::lines::{LONG, Lines, wait_for_delegation};

/// Upper bound on what an answer tells of completed activities for later reruns.
const MAX_MEMO_BYTES: u64 = 512 << 10;
/// Upper bound on a report of the state and the counts of one subtree.
const STATUS_BYTES: u64 = 200;

const TOTAL: &str = r#"
  <PROCESS_TYPE NAME="Total">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PROCESS TYPE="Part" NAME="part" DELEGATE="always" count="${count}"/>
      <POST_CODE>sum = part.sum</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Part">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="one.result" DELEGATE="never">
        <ITERATE><ACTIVITY TYPE="One" NAME="one" n="${counter}"/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in each.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="One">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <CODE LANGUAGE="lua">result = 2 * n</CODE>
  </ACTIVITY_TYPE>"#;

/// Starts groups a and b. Only messages between the coordinators of a and b use the link, because the manager of b is a separate
/// node. Returns the addresses of a, and of the coordinator and the manager of b.
fn groups(grid: &mut Grid, flags: &[&str]) -> (TestLink, String, String, String) {
    let a = grid.group("a", &[], &[]);
    let (manager, coordinator) = (free_address(), free_address());
    let link = TestLink::to(&coordinator);
    grid.start("b/manager", &manager, &["--roles", "group-manager", "--adjacent", &a]);
    let roles = ["--roles", "process-coordinator", "--join", &manager, "--advertise", link.address()];
    grid.start("b/main", &coordinator, &[&roles[..], flags].concat());
    grid.worker("b/w1", &manager, &["--slots", "4", "--queue", "0"]);
    grid.wait_for_nodes(&manager, 3);
    until("a knows b", 60, || group(grid, &a, "b").filter(|it| it["coordinators"] == 1 && it["free_slots"] != 0));
    (link, a, coordinator, manager)
}

#[test]
fn traffic_between_groups_does_not_grow_with_the_activities_of_a_subtree() {
    let mut grid = Grid::new();
    let (link, a, ..) = groups(&mut grid, &[]);
    let file = grid.write("total.xml", &document(TOTAL));
    let run = |count: u64| {
        let before = link.traffic();
        let process = grid.submit(&a, &file, &[&format!("count={count}")]);
        let ended = grid.end(&a, &process);
        assert_eq!(ended["results"]["sum"], json!(count * (count + 1)), "{ended}");
        assert_counts(&ended, count);
        // The last messages may still be on their way.
        let mut last = link.traffic();
        until("the link is silent", 60, || {
            let silent = link.traffic() == last;
            last = link.traffic();
            silent.then_some(())
        });
        (last.0 - before.0, last.1 - before.1)
    };
    // The first processes transfer the program, or run locally because the roster does not list the other group yet.
    until("a process is delegated", 60, || (run(10) != (0, 0)).then_some(()));
    let few = run(10);
    let began = Instant::now();
    let many = run(1000);
    // The other coordinator reports twice a second what the subtree does.
    let reports = STATUS_BYTES * (2 * began.elapsed().as_secs() + 2);
    assert!(few.0 > 0 && few.1 > 0, "{few:?}");
    assert!(2 * many.0 < 3 * few.0, "to the other group: {few:?} bytes for 10, {many:?} for 1000");
    assert!(
        2 * many.1 < 3 * few.1 + 2 * reports + 2 * MAX_MEMO_BYTES,
        "and back: {few:?} bytes for 10, {many:?} for 1000"
    );
}

#[test]
fn a_subtree_continues_while_its_link_is_cut_and_receives_missed_commands_later() {
    let mut grid = Grid::new();
    let (link, a, coordinator, manager) = groups(&mut grid, &[]);
    wait_for_delegation(&mut grid, &a, &manager);
    let (ends, waits) = (Lines::elsewhere(&mut grid, 8, 0), Lines::elsewhere(&mut grid, 8, 0));
    let start = |lines: &Lines| {
        let process = lines.submit(&grid, &a);
        lines.wait_for(4);
        let inside = format!("{process}/each");
        (process, inside)
    };
    let there = |inside: &str| grid.status(&coordinator, inside);

    // The subtree ends while the link is cut.
    let (process, inside) = start(&ends);
    link.cut();
    ends.open_gate();
    until("the subtree ends", LONG, || (there(&inside)["state"] == "completed").then_some(()));
    assert!(is_live(&grid.status(&a, &process)));
    link.mend();
    ends.assert_end(&grid, &a, &process, 0);

    // The process is paused, and later cancelled, while the link is cut.
    let (process, inside) = start(&waits);
    link.cut();
    grid.cli(&a, &["pause", &process]).ok();
    let status = there(&inside);
    assert!(is_live(&status) && status["state"] != "paused", "{status}");
    link.mend();
    until("the subtree is paused", LONG, || (there(&inside)["state"] == "paused").then_some(()));
    link.cut();
    grid.cli(&a, &["cancel", &process]).ok();
    assert_ne!(grid.status(&a, &process)["state"], "cancelled", "a process ends after all its elements have ended");
    link.mend();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    until("all slots are free", LONG, || (busy(&grid, &manager) == 0).then_some(()));
}

#[test]
fn a_subtree_starts_over_if_its_coordinator_restarts_without_data() {
    let mut grid = Grid::new();
    let (_link, a, _, manager) = groups(&mut grid, &["--in-memory"]);
    wait_for_delegation(&mut grid, &a, &manager);
    let lines = Lines::elsewhere(&mut grid, 16, 4);
    let process = lines.submit(&grid, &a);
    lines.wait_for(8);
    grid.kill("b/main");
    // The restarted coordinator soon uses the ids of activities that the worker still runs, for other iterations.
    grid.restart("b/main");
    lines.wait_for(16);
    lines.open_gate();
    let ended = lines.result(&grid, &a, &process);
    assert_counts(&ended, 16);
}
