//! Subtrees that run in other groups are seen and steered as if they were here.

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, stays, until};

use crate::kit::{assert_counts, at, busy, document, elements, group, keep_busy, tree, workers};

/// A process that has all its work done by another one, through the objects that it shares with it.
const OUTER: &str = r#"
  <PROCESS_TYPE NAME="Outer">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <OUT_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <OUT_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <BODY>
      <PRE_CODE>seen, marks = RemoteSet.new(), RemoteCounter.new()</PRE_CODE>
      <PROCESS TYPE="TYPE" NAME="part" DELEGATE="always" count="${count}" time="${time}" seen="${seen}" marks="${marks}"/>
    </BODY>
  </PROCESS_TYPE>"#;

/// Hands it on.
const MIDDLE: &str = r#"
  <PROCESS_TYPE NAME="Middle">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <IN_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <IN_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <BODY>
      <PAR NAME="both">
        <ACTIVITY TYPE="Mark" NAME="mark" number="1000" seen="${seen}" marks="${marks}"/>
        <PARFOR NAME="each" DELEGATE="always" TO="${count}">
          <ITERATE>
            <ACTIVITY TYPE="Mark" NAME="mark" number="${counter}" seen="${seen}" marks="${marks}"/>
            <ACTIVITY TYPE="Nap" NAME="nap" time="${time}"/>
          </ITERATE>
        </PARFOR>
      </PAR>
    </BODY>
  </PROCESS_TYPE>"#;

const INNER: &str = r#"
  <PROCESS_TYPE NAME="Inner">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <IN_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <IN_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <BODY>
      <PARFOR NAME="each" DELEGATE="never" TO="${count}">
        <ITERATE>
          <ACTIVITY TYPE="Mark" NAME="mark" number="${counter}" seen="${seen}" marks="${marks}"/>
          <ACTIVITY TYPE="Nap" NAME="nap" time="${time}"/>
        </ITERATE>
      </PARFOR>
    </BODY>
  </PROCESS_TYPE>"#;

const MARK: &str = r#"
  <ACTIVITY_TYPE NAME="Mark">
    <IN_PARAMETER TYPE="int" NAME="number"/>
    <IN_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <IN_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <CODE LANGUAGE="lua">
      if not seen:add(number) then error("twice") end
      marks:add(2)
    </CODE>
  </ACTIVITY_TYPE>"#;

/// A loop that goes elsewhere if there is more room there.
const CROWD: &str = r#"
  <PROCESS_TYPE NAME="Crowd">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <OUT_PARAMETER TYPE="list" NAME="numbers"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="counter * count">
        <ITERATE><ACTIVITY TYPE="Nap" NAME="nap" time="${time}"/></ITERATE>
      </PARFOR>
      <POST_CODE>numbers = each.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

/// Another coordinator is shown as `name@address`.
fn is_elsewhere(element: &Json) -> bool {
    element["worker"].as_str().is_some_and(|worker| worker.contains('@'))
}

/// Submits a process until the element of it is delegated: coordinators hear of other groups about every second.
pub fn delegated(grid: &Grid, address: &str, file: &str, parameters: &[&str], element: &str) -> String {
    until(&format!("{element} is delegated"), 20, || {
        let process = grid.submit(address, file, parameters);
        let path = format!("{process}/{element}");
        let begun = until("it begins", 15, || {
            let Some(tree) = tree(grid, address, &process) else { return Some(false) };
            let activity = !workers(&tree).is_empty();
            let there = at(&tree, &path).is_some_and(is_elsewhere);
            (activity || there).then_some(there)
        });
        if !begun {
            grid.cli(address, &["cancel", &process]);
        }
        begun.then_some(process)
    })
}

/// How many of the loop at this path have completed and how many run, as seen from here.
fn progress(grid: &Grid, address: &str, path: &str) -> Option<(u64, usize)> {
    let tree = tree(grid, address, path)?;
    Some((tree["completed"].as_u64()?, workers(&tree).len()))
}

/// Pauses the process, and looks whether nothing new starts in the loop at this path; then lets it go on.
fn pause_and_resume(grid: &Grid, address: &str, process: &str, path: &str) {
    grid.cli(address, &["pause", process]).ok();
    assert_eq!(grid.status(address, process)["state"], "paused");
    let still = until("what ran has ended", 10, || progress(grid, address, path).filter(|(_, running)| *running == 0));
    stays("nothing starts in a paused process", 1500, || progress(grid, address, path) == Some(still));
    grid.cli(address, &["resume", process]).ok();
    until("it goes on", 10, || progress(grid, address, path).filter(|(_, running)| *running > 0));
}

fn nothing_runs(grid: &Grid, address: &str) {
    until("nothing is left over", 10, || (busy(grid, address) == 0).then_some(()));
    let processes = grid.cli(address, &["list"]).ok().json();
    let running = processes["processes"].as_array().into_iter().flatten().find(|it| it["state"] == "running");
    assert_eq!(running, None, "{processes}");
}

#[test]
fn a_delegated_process_is_seen_steered_and_ended_from_where_it_was_submitted() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a]);
    until("the groups know each other", 10, || group(&grid, &a, "b").filter(|it| it["free_slots"] == 2));
    let types = [&OUTER.replace("\"TYPE\"", "\"Inner\""), INNER, MARK].concat();
    let file = grid.write("outer.xml", &document(&types));

    let process = delegated(&grid, &a, &file, &["count=12", "time=0.4"], "part");
    let inside = format!("{process}/part/each");
    let whole = until("activities are shown from afar", 10, || {
        tree(&grid, &a, &process).filter(|tree| elements(tree).iter().any(|it| it["element"] == "ITERATE"))
    });
    assert_eq!(at(&whole, &inside).map(|it| it["total"].clone()), Some(json!(12)), "{whole}");
    let iteration = elements(&whole).into_iter().find(|it| it["element"] == "ITERATE").expect("there is one");
    let path = iteration["path"].as_str().expect("it has a path");
    let shown = grid.cli(&a, &["show", path]);
    assert!(shown.code == 0 || shown.stderr.contains("has no iteration"), "{shown:?}");
    assert_eq!(grid.cli(&a, &["show", &inside]).ok().json()["element"], "PARFOR");
    let unknown = grid.cli(&a, &["show", &format!("{inside}er")]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("has no element \"eacher\""), "{unknown:?}");

    pause_and_resume(&grid, &a, &process, &inside);
    // A part of it, too.
    grid.cli(&a, &["pause", &inside]).ok();
    assert_eq!(grid.cli(&a, &["show", &inside]).ok().json()["paused"], true);
    grid.cli(&a, &["resume", &inside]).ok();
    grid.cli(&a, &["set", &inside, "TO=10"]).ok();

    let ended = grid.end(&a, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"]["seen"], json!((1..=10).collect::<Vec<_>>()));
    assert_eq!(ended["results"]["marks"], 20);
    assert_counts(&ended, 20);
    nothing_runs(&grid, &b);

    let process = delegated(&grid, &a, &file, &["count=100", "time=100"], "part");
    until("it naps", 10, || progress(&grid, &a, &format!("{process}/part/each")).filter(|(_, running)| *running >= 2));
    grid.cli(&a, &["cancel", &process]).ok();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    nothing_runs(&grid, &b);
}

#[test]
fn a_loop_goes_where_there_is_room_when_its_own_group_is_crowded() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a]);
    until("the groups know each other", 10, || group(&grid, &a, "b").filter(|it| it["free_slots"] == 2));
    keep_busy(&mut grid, &a, 1);
    let file = grid.write("crowd.xml", &document(CROWD));
    let process = delegated(&grid, &a, &file, &["count=10", "time=0.4"], "each");
    pause_and_resume(&grid, &a, &process, &format!("{process}/each"));
    let ended = grid.end(&a, &process);
    assert_eq!(ended["results"]["numbers"], json!((1..=10).map(|number| number * 10).collect::<Vec<_>>()), "{ended}");
    assert_counts(&ended, 10);

    let process = delegated(&grid, &a, &file, &["count=10", "time=100"], "each");
    grid.cli(&a, &["cancel", &process]).ok();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    nothing_runs(&grid, &b);
}

#[test]
fn a_subtree_of_a_subtree_goes_on_to_a_third_group_and_reaches_the_objects_of_the_first() {
    let mut grid = Grid::new();
    // Without workers in the first, the third is the only one that the second can hand anything on to.
    let a = grid.group("a", &[], &[]);
    let b = grid.group("b", &[1], &["--adjacent", &a]);
    let c = grid.group("c", &[2], &["--adjacent", &b]);
    for (from, other) in [(&a, "b"), (&b, "c"), (&a, "c")] {
        until("the groups know each other", 10, || group(&grid, from, other).filter(|it| it["free_slots"] != 0));
    }
    let types = [&OUTER.replace("\"TYPE\"", "\"Middle\""), MIDDLE, MARK].concat();
    let file = grid.write("outer.xml", &document(&types));
    let process = delegated(&grid, &a, &file, &["count=8", "time=0.5"], "part/both/each");
    let inside = format!("{process}/part/both/each");
    let there = grid.cli(&c, &["list"]).ok().json();
    assert!(there["processes"].as_array().is_some_and(|all| all.iter().any(|it| it["process"] == inside)), "{there}");
    pause_and_resume(&grid, &a, &process, &inside);
    let ended = grid.end(&a, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"]["seen"], json!([1, 2, 3, 4, 5, 6, 7, 8, 1000]));
    assert_eq!(ended["results"]["marks"], 18);
    assert_counts(&ended, 17);

    let process = delegated(&grid, &a, &file, &["count=8", "time=100"], "part/both/each");
    grid.cli(&a, &["cancel", &process]).ok();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    nothing_runs(&grid, &b);
    nothing_runs(&grid, &c);
}
