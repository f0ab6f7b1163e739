//! Groups lend workers to each other, even if they are connected only indirectly.

use serde_json::json;
use xavantes_tests::{Grid, until};

use crate::delegation::{Gate, PATIENCE, WAIT};
use crate::kit::{assert_counts, document, group, keep_busy, tree, workers};

/// Activities that wait at a gate, as many at once as there are slots.
pub const WAITS: &str = r#"
  <PROCESS_TYPE NAME="Waits">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="all" TO="4" COLLECT="counter" DELEGATE="never">
        <ITERATE><ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in all.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

#[test]
fn activities_run_in_the_nearest_group_with_free_slots() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[2], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a]);
    let c = grid.group("c", &[2], &["--adjacent", &b]);
    for (from, other, hops) in [(&a, "b", 1), (&a, "c", 2), (&c, "a", 2)] {
        until("the groups know each other", PATIENCE, || group(&grid, from, other).filter(|it| it["hops"] == hops));
    }
    keep_busy(&mut grid, &a, 2);
    runs_in(&mut grid, &a, "b/");
    // Groups exchange news about every second: first that b is free again, then that it is not.
    until("a knows that b is free", PATIENCE, || group(&grid, &a, "b").filter(|it| it["free_slots"] == 2));
    keep_busy(&mut grid, &b, 2);
    until("a knows that b is busy", PATIENCE, || group(&grid, &a, "b").filter(|it| it["free_slots"] == 0));
    runs_in(&mut grid, &a, "c/");
}

/// Asserts that activities submitted here run on workers whose names have this prefix.
fn runs_in(grid: &mut Grid, address: &str, prefix: &str) {
    let file = grid.write("waits.xml", &document(&[WAITS, WAIT].concat()));
    let gate = Gate::new(grid);
    let process = grid.submit(address, &file, &[&gate.parameter()]);
    // A coordinator may offer an activity to a worker that is no longer lent, and be refused.
    until(&format!("the work is on {prefix}"), PATIENCE, || {
        let workers = workers(&tree(grid, address, &process)?);
        (!workers.is_empty() && workers.iter().all(|worker| worker.starts_with(prefix))).then_some(())
    });
    gate.open();
    let ended = grid.end(address, &process);
    assert_eq!((ended["state"].as_str(), ended["results"]["sum"].as_i64()), (Some("completed"), Some(10)), "{ended}");
    assert_counts(&ended, 4);
}

#[test]
fn a_group_without_workers_borrows_them() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[], &[]);
    grid.group("b", &[2], &["--adjacent", &a]);
    runs_in(&mut grid, &a, "b/");
}

#[test]
fn an_administrator_decides_whose_activities_a_group_accepts() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[], &[]);
    let b = grid.group("b", &[2], &["--adjacent", &a, "--foreign-groups", "c"]);
    let seen = until("a knows b", PATIENCE, || group(&grid, &a, "b").filter(|it| it["slots"] == 2));
    assert_eq!((&seen["free_slots"], &seen["coordinators"]), (&json!(0), &json!(0)), "{seen}");
    assert_eq!(grid.cli(&b, &["nodes"]).ok().json()["group"], "b");
}
