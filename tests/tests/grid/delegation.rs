//! Subtrees that run in other groups can be shown and steered like local ones.

use std::time::Duration;

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, is_live, stays, until};

use crate::kit::{assert_counts, at, busy, document, elements, group, keep_busy, tree, workers};

/// Upper bound on any wait, in seconds, even on a busy machine.
pub const PATIENCE: u64 = 120;

/// Activities that end when their gate is open, so that nothing ends before the test has seen it.
pub const WAIT: &str = r#"
  <ACTIVITY_TYPE NAME="Wait">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <CODE LANGUAGE="command">
      <ARG>sh</ARG><ARG>-c</ARG><ARG>until test -e "$0"; do sleep 0.1; done</ARG><ARG>${gate}</ARG>
    </CODE>
  </ACTIVITY_TYPE>"#;

/// A file that activities wait for.
pub struct Gate {
    file: String,
}

impl Gate {
    /// A closed gate.
    pub fn new(grid: &mut Grid) -> Self {
        let gate = Self { file: grid.write("gate", "") };
        gate.close();
        gate
    }

    /// Lets activities end.
    pub fn open(&self) {
        std::fs::write(&self.file, "").expect("tests can write here");
    }

    /// Lets no further activities end.
    pub fn close(&self) {
        std::fs::remove_file(&self.file).expect("it was open");
    }

    /// The gate as a parameter of a process.
    pub fn parameter(&self) -> String {
        format!("gate={}", self.file)
    }
}

/// A process that delegates all its work to a subprocess, which uses the shared objects of this process.
const OUTER: &str = r#"
  <PROCESS_TYPE NAME="Outer">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <OUT_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <BODY>
      <PRE_CODE>seen, marks = RemoteSet.new(), RemoteCounter.new()</PRE_CODE>
      <PROCESS TYPE="TYPE" NAME="part" DELEGATE="always" count="${count}" gate="${gate}" seen="${seen}" marks="${marks}"/>
    </BODY>
  </PROCESS_TYPE>"#;

/// A subprocess that delegates its loop to a third group.
const MIDDLE: &str = r#"
  <PROCESS_TYPE NAME="Middle">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <IN_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <IN_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <BODY>
      <PAR NAME="both">
        <ACTIVITY TYPE="Mark" NAME="mark" number="1000" seen="${seen}" marks="${marks}"/>
        <PARFOR NAME="each" DELEGATE="always" TO="${count}">
          <ITERATE>
            <ACTIVITY TYPE="Mark" NAME="mark" number="${counter}" seen="${seen}" marks="${marks}"/>
            <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
          </ITERATE>
        </PARFOR>
      </PAR>
    </BODY>
  </PROCESS_TYPE>"#;

const INNER: &str = r#"
  <PROCESS_TYPE NAME="Inner">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <IN_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <IN_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <BODY>
      <PARFOR NAME="each" DELEGATE="never" TO="${count}">
        <ITERATE>
          <ACTIVITY TYPE="Mark" NAME="mark" number="${counter}" seen="${seen}" marks="${marks}"/>
          <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
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

/// A loop that runs in another group if that one has more free slots.
const CROWD: &str = r#"
  <PROCESS_TYPE NAME="Crowd">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="list" NAME="numbers"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="counter * count">
        <ITERATE><ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/></ITERATE>
      </PARFOR>
      <POST_CODE>numbers = each.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

/// Whether another coordinator runs an element. It is shown as `name@address`.
fn is_elsewhere(element: &Json) -> bool {
    element["worker"].as_str().is_some_and(|worker| worker.contains('@'))
}

/// Submits a process again and again until this element, and the outermost element around it, are delegated: coordinators learn
/// of other groups about every second. The element must not end by itself.
pub fn delegated(grid: &Grid, address: &str, file: &str, parameters: &[&str], element: &str) -> String {
    let outer = element.split('/').next().unwrap_or(element);
    let mut pause = Duration::ZERO;
    until(&format!("{element} is delegated"), PATIENCE, || {
        // The pause grows, so that submissions do not always fall into the same moment between two rosters.
        std::thread::sleep(pause);
        pause += Duration::from_millis(300);
        let process = grid.submit(address, file, parameters);
        let at_path = |tree: &Json, element: &str| at(tree, &format!("{process}/{element}")).cloned();
        let there = until("the element begins", PATIENCE, || {
            let Some(tree) = tree(grid, address, &process) else { return Some(false) };
            let there = [outer, element].iter().all(|it| at_path(&tree, it).is_some_and(|it| is_elsewhere(&it)));
            let here = at_path(&tree, element).is_some_and(|it| !workers(&it).is_empty());
            (there || here).then_some(there)
        });
        if !there {
            grid.cli(address, &["cancel", &process]);
            grid.cli(address, &["wait", &process]);
        }
        there.then_some(process)
    })
}

/// The numbers of completed and of running iterations of the loop at this path.
fn progress(grid: &Grid, address: &str, path: &str) -> Option<(u64, usize)> {
    let tree = tree(grid, address, path)?;
    Some((tree["completed"].as_u64()?, workers(&tree).len()))
}

/// Pauses the process, asserts that no activity starts in the loop at this path, and resumes the process up to the gate.
fn pause_and_resume(grid: &Grid, address: &str, process: &str, path: &str, gate: &Gate) {
    grid.cli(address, &["pause", process]).ok();
    assert_eq!(grid.status(address, process)["state"], "paused");
    gate.open();
    let running = || progress(grid, address, path);
    let still = until("the running activities have ended", PATIENCE, || running().filter(|(_, running)| *running == 0));
    stays("nothing starts in a paused process", 1500, || running() == Some(still));
    gate.close();
    grid.cli(address, &["resume", process]).ok();
    until("the process continues", PATIENCE, || running().filter(|(_, running)| *running > 0));
}

fn assert_idle(grid: &Grid, address: &str) {
    until("all slots are free", PATIENCE, || (busy(grid, address) == 0).then_some(()));
    until("no process runs", PATIENCE, || {
        let processes = grid.cli(address, &["list"]).ok().json();
        let mut all = processes["processes"].as_array().into_iter().flatten();
        (!all.any(is_live)).then_some(())
    });
}

#[test]
fn a_delegated_process_is_shown_and_steered_where_it_was_submitted() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a]);
    until("the groups know each other", PATIENCE, || group(&grid, &a, "b").filter(|it| it["free_slots"] == 2));
    let types = [&OUTER.replace("\"TYPE\"", "\"Inner\""), INNER, MARK, WAIT].concat();
    let file = grid.write("outer.xml", &document(&types));
    let gate = Gate::new(&mut grid);

    let process = delegated(&grid, &a, &file, &["count=12", &gate.parameter()], "part");
    let inside = format!("{process}/part/each");
    let whole = until("remote activities are shown", PATIENCE, || {
        tree(&grid, &a, &process).filter(|tree| elements(tree).iter().any(|it| it["element"] == "ITERATE"))
    });
    assert_eq!(at(&whole, &inside).map(|it| it["total"].clone()), Some(json!(12)), "{whole}");
    let iteration = elements(&whole).into_iter().find(|it| it["element"] == "ITERATE").expect("there is one");
    let path = iteration["path"].as_str().expect("it has a path");
    assert_eq!(grid.cli(&a, &["show", path]).ok().json()["element"], "ITERATE");
    assert_eq!(grid.cli(&a, &["show", &inside]).ok().json()["element"], "PARFOR");
    let unknown = grid.cli(&a, &["show", &format!("{inside}er")]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("has no element \"eacher\""), "{unknown:?}");

    pause_and_resume(&grid, &a, &process, &inside, &gate);
    // The same for one element.
    grid.cli(&a, &["pause", &inside]).ok();
    assert_eq!(grid.cli(&a, &["show", &inside]).ok().json()["paused"], true);
    grid.cli(&a, &["resume", &inside]).ok();
    grid.cli(&a, &["set", &inside, "TO=10"]).ok();

    gate.open();
    let ended = grid.end(&a, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"]["seen"], json!((1..=10).collect::<Vec<_>>()));
    assert_eq!(ended["results"]["marks"], 20);
    assert_counts(&ended, 20);
    assert_idle(&grid, &b);

    gate.close();
    let process = delegated(&grid, &a, &file, &["count=100", &gate.parameter()], "part");
    until("the process is at the gate", PATIENCE, || {
        progress(&grid, &a, &format!("{process}/part/each")).filter(|(_, running)| *running >= 2)
    });
    grid.cli(&a, &["cancel", &process]).ok();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    assert_idle(&grid, &b);
}

#[test]
fn a_loop_is_delegated_when_its_group_has_no_free_slots() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a]);
    until("the groups know each other", PATIENCE, || group(&grid, &a, "b").filter(|it| it["free_slots"] == 2));
    keep_busy(&mut grid, &a, 1);
    let file = grid.write("crowd.xml", &document(&[CROWD, WAIT].concat()));
    let gate = Gate::new(&mut grid);
    let process = delegated(&grid, &a, &file, &["count=10", &gate.parameter()], "each");
    pause_and_resume(&grid, &a, &process, &format!("{process}/each"), &gate);
    gate.open();
    let ended = grid.end(&a, &process);
    assert_eq!(ended["results"]["numbers"], json!((1..=10).map(|number| number * 10).collect::<Vec<_>>()), "{ended}");
    assert_counts(&ended, 10);

    gate.close();
    let process = delegated(&grid, &a, &file, &["count=10", &gate.parameter()], "each");
    grid.cli(&a, &["cancel", &process]).ok();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    assert_idle(&grid, &b);
}

#[test]
fn a_subtree_delegates_to_a_third_group_that_uses_objects_of_the_first() {
    let mut grid = Grid::new();
    // The first group has no workers, so the second group can delegate only to the third.
    let a = grid.group("a", &[], &[]);
    let b = grid.group("b", &[1], &["--adjacent", &a]);
    let c = grid.group("c", &[2], &["--adjacent", &b]);
    for (from, other) in [(&a, "b"), (&b, "c"), (&a, "c")] {
        until("the groups know each other", PATIENCE, || group(&grid, from, other).filter(|it| it["free_slots"] != 0));
    }
    let types = [&OUTER.replace("\"TYPE\"", "\"Middle\""), MIDDLE, MARK, WAIT].concat();
    let file = grid.write("outer.xml", &document(&types));
    let gate = Gate::new(&mut grid);
    let process = delegated(&grid, &a, &file, &["count=8", &gate.parameter()], "part/both/each");
    let inside = format!("{process}/part/both/each");
    until("the third group has the loop", PATIENCE, || (!grid.status(&c, &inside).is_null()).then_some(()));
    pause_and_resume(&grid, &a, &process, &inside, &gate);
    gate.open();
    let ended = grid.end(&a, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"]["seen"], json!([1, 2, 3, 4, 5, 6, 7, 8, 1000]));
    assert_eq!(ended["results"]["marks"], 18);
    assert_counts(&ended, 17);

    gate.close();
    let process = delegated(&grid, &a, &file, &["count=8", &gate.parameter()], "part/both/each");
    grid.cli(&a, &["cancel", &process]).ok();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    assert_idle(&grid, &b);
    assert_idle(&grid, &c);
}
