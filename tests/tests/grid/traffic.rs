//! What crosses between groups for a subtree does not grow with what the subtree does.

use serde_json::json;
use xavantes_tests::{Grid, Link, free_address, until};

use crate::kit::{assert_counts, busy, document, group};
use crate::lines::{LONG, Lines, wait_for_delegation};

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

/// Groups a and b; only what a's coordinator and b's say to each other goes through the link, because b's manager has a
/// node of its own. Gives the addresses of a, and of b's coordinator and manager.
fn groups(grid: &mut Grid, flags: &[&str]) -> (Link, String, String, String) {
    let a = grid.group("a", &[], &[]);
    let (manager, coordinator) = (free_address(), free_address());
    let link = Link::to(&coordinator);
    grid.start("b/manager", &manager, &["--roles", "group-manager", "--adjacent", &a]);
    let roles = ["--roles", "process-coordinator", "--join", &manager, "--advertise", link.address()];
    grid.start("b/main", &coordinator, &[&roles[..], flags].concat());
    grid.worker("b/w1", &manager, &["--slots", "4", "--queue", "0"]);
    grid.wait_for_nodes(&manager, 3);
    until("a knows b", 60, || group(grid, &a, "b").filter(|it| it["coordinators"] == 1 && it["free_slots"] != 0));
    (link, a, coordinator, manager)
}

#[test]
fn what_crosses_between_groups_does_not_grow_with_the_activities_of_a_subtree() {
    let mut grid = Grid::new();
    let (link, a, ..) = groups(&mut grid, &[]);
    let file = grid.write("total.xml", &document(TOTAL));
    let run = |count: u64| {
        let before = link.traffic();
        let process = grid.submit(&a, &file, &[&format!("count={count}")]);
        let ended = grid.end(&a, &process);
        assert_eq!(ended["results"]["sum"], json!(count * (count + 1)), "{ended}");
        assert_counts(&ended, count);
        // The last word of the conversation may still be on its way.
        let mut last = link.traffic();
        until("the wire is silent", 60, || {
            let silent = link.traffic() == last;
            last = link.traffic();
            silent.then_some(())
        });
        (last.0 - before.0, last.1 - before.1)
    };
    // The first ones carry the program, or run at home because the roster does not name the other group yet.
    until("it is delegated", 60, || (run(10) != (0, 0)).then_some(()));
    let (few, many) = (run(10), run(1000));
    assert!(few.0 > 0 && few.1 > 0, "{few:?}");
    assert!(2 * many.0 < 3 * few.0, "to the other group: {few:?} bytes for 10, {many:?} for 1000");
    assert!(2 * many.1 < 3 * few.1, "and back: {few:?} bytes for 10, {many:?} for 1000");
}

#[test]
fn a_subtree_goes_on_while_its_coordinator_is_cut_off_and_hears_afterwards_what_it_missed() {
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

    // It ends while nobody can be told.
    let (process, inside) = start(&ends);
    link.cut();
    ends.open_gate();
    until("it ends", LONG, || (there(&inside)["state"] == "completed").then_some(()));
    assert_eq!(grid.status(&a, &process)["state"], "running");
    link.mend();
    ends.assert_end(&grid, &a, &process, 0);

    // It is paused, and then cancelled, while it cannot hear of it.
    let (process, inside) = start(&waits);
    link.cut();
    grid.cli(&a, &["pause", &process]).ok();
    assert_eq!(there(&inside)["state"], "running");
    link.mend();
    until("it is paused", LONG, || (there(&inside)["state"] == "paused").then_some(()));
    link.cut();
    grid.cli(&a, &["cancel", &process]).ok();
    assert_ne!(grid.status(&a, &process)["state"], "cancelled", "it ends when everything in it has");
    link.mend();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    until("nothing is left over", LONG, || (busy(&grid, &manager) == 0).then_some(()));
}

#[test]
fn a_subtree_whose_coordinator_kept_nothing_begins_again_when_it_is_back() {
    let mut grid = Grid::new();
    let (_link, a, _, manager) = groups(&mut grid, &["--in-memory"]);
    wait_for_delegation(&mut grid, &a, &manager);
    let lines = Lines::elsewhere(&mut grid, 16, 4);
    let process = lines.submit(&grid, &a);
    lines.wait_for(8);
    grid.kill("b/main");
    // What the worker still runs has ids that soon come again, for other iterations.
    grid.restart("b/main");
    lines.wait_for(16);
    lines.open_gate();
    let ended = lines.result(&grid, &a, &process);
    assert_counts(&ended, 16);
}
