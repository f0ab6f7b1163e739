//! The history: counts for each node, the first failures, times.

use std::collections::BTreeMap;

use crate::harness::{Run, run};
use xavantes_engine::{Answer, MAX_RECORDED_FAILURES, Tally, Time};
use xavantes_model::definition::DefinitionNodeId;

/// The counts of the elements of each name.
fn tallies(run: &Run) -> BTreeMap<String, Tally> {
    let program = run.engine.program();
    let history = run.engine.state().history();
    let name = |(process, node): (u32, u32)| program.node(process as usize, DefinitionNodeId(node)).name.to_string();
    history.tallies().map(|(place, tally)| (name(place), *tally)).collect()
}

#[test]
fn every_node_counts_its_elements_by_outcome_with_times() {
    let mut run = run(r#"<PARFOR NAME="f" TO="3"><ITERATE>
            <ACTIVITY TYPE="Do" NAME="a" RETRIES="1" ON_FAILURE="continue"/></ITERATE></PARFOR>
        <SWITCH NAME="s"><CASE CONDITION="false"><ACTIVITY TYPE="Do" NAME="never"/></CASE></SWITCH>"#);
    run.advance(1500);
    run.done("f/[1]/a");
    run.advance(3000);
    run.fail("f/[2]/a");
    run.fail("f/[2]/a");
    run.answer("f/[3]/a", Answer::Lost);
    run.crash();
    run.done("f/[3]/a");
    run.completed();
    let tallies = tallies(&run);
    let times = |tally: &Tally| (tally.first, tally.last);
    let activity = tallies["a"];
    assert_eq!((activity.began, activity.completed, activity.failed, activity.cancelled), (3, 2, 1, 0));
    assert_eq!((activity.retried, activity.lost, times(&activity)), (1, 1, (Time(0), Time(4500))));
    assert_eq!((tallies["f"].began, tallies["f"].completed, times(&tallies["f"])), (1, 1, (Time(0), Time(4500))));
    assert_eq!((tallies["s"].began, times(&tallies["s"])), (1, (Time(4500), Time(4500))));
    assert!(!tallies.contains_key("never"));
}

#[test]
fn the_first_failures_are_recorded_where_they_happened() {
    let mut run = run(r#"<PARFOR NAME="f" TO="50"><ITERATE ON_FAILURE="continue">
        <ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>"#);
    for iteration in 1..=50 {
        run.fail(&format!("f/[{iteration}]/a"));
    }
    run.completed();
    let failures = run.engine.state().history().failures();
    let paths: Vec<&str> = failures.iter().map(|(_, failure)| &*failure.path).collect();
    let expected: Vec<String> = (1..=MAX_RECORDED_FAILURES).map(|iteration| format!("P/f/[{iteration}]/a")).collect();
    assert_eq!(paths, expected);
    assert_eq!(tallies(&run)["a"].failed, 50);
}

#[test]
fn elements_cancelled_with_their_controller_are_counted() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/></PAR>"#);
    run.done("p/a");
    run.cancel("");
    run.stopped("p/b");
    run.cancelled();
    let tallies = tallies(&run);
    assert_eq!((tallies["a"].completed, tallies["b"].cancelled, tallies["p"].cancelled), (1, 1, 1));
}
