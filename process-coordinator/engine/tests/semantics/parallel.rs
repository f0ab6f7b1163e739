//! `PARFOR`, `PARWHILE`, capacity, `MAX_PARALLEL`, `JOIN`, `EXIT_CONDITION`.

use crate::harness::{body, run, setup};
use xavantes_engine::{Event, FailureKind};

const FIVE: &str = r#"<PARFOR NAME="f" TO="5"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>"#;

#[test]
fn a_parfor_runs_its_iterations_at_once() {
    let mut run = run(FIVE);
    assert_eq!(run.running(), ["f/[1]/a", "f/[2]/a", "f/[3]/a", "f/[4]/a", "f/[5]/a"]);
    for counter in [3, 1, 5, 2, 4] {
        run.done(&format!("f/[{counter}]/a"));
    }
    run.completed();
}

#[test]
fn iterations_are_created_only_when_there_is_capacity() {
    let mut run = setup(&body(&FIVE.replace(r#"TO="5""#, r#"TO="1000000""#))).capacity(2).run();
    assert_eq!(run.running(), ["f/[1]/a", "f/[2]/a"]);
    assert_eq!(run.engine.state().live(), 6, "the body, the loop, two iterations with an activity each");
    run.done("f/[2]/a");
    assert_eq!(run.running(), ["f/[1]/a", "f/[3]/a"]);
    assert_eq!(run.engine.state().live(), 6);
    run.capacity(3);
    assert_eq!(run.running(), ["f/[1]/a", "f/[3]/a", "f/[4]/a"]);
    run.capacity(0);
    run.done("f/[1]/a");
    assert_eq!(run.running(), ["f/[3]/a", "f/[4]/a"]);
}

#[test]
fn without_capacity_a_par_creates_nothing_and_a_sequence_one_element() {
    let run = setup(&body(
        r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        </PAR>"#,
    ))
    .capacity(0)
    .run();
    assert_eq!((run.running().len(), run.engine.state().live()), (0, 2));
    let mut run = setup(&body(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#)).capacity(0).run();
    assert_eq!((run.running().len(), run.engine.state().live()), (0, 2));
    run.capacity(1);
    assert_eq!(run.running(), ["a"]);
}

#[test]
fn iterations_that_have_begun_end_before_more_begin() {
    let text = r#"<PARFOR NAME="f" TO="3"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        </ITERATE></PARFOR>"#;
    let mut run = setup(&body(text)).capacity(1).run();
    for path in ["f/[1]/a", "f/[1]/b", "f/[2]/a", "f/[2]/b", "f/[3]/a", "f/[3]/b"] {
        assert_eq!(run.running(), [path]);
        run.done(path);
    }
    run.completed();
}

#[test]
fn max_parallel_bounds_the_running_elements() {
    for text in [
        FIVE.replace(r#"TO="5""#, r#"TO="5" MAX_PARALLEL="2""#),
        FIVE.replace(r#"TO="5""#, r#"TO="5" MAX_PARALLEL="${1 + 1}""#),
        r#"<PARWHILE NAME="f" CONDITION="counter &lt; 6" MAX_PARALLEL="2"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/>
            </ITERATE></PARWHILE>"#
            .into(),
    ] {
        let mut run = run(&text);
        assert_eq!(run.running(), ["f/[1]/a", "f/[2]/a"]);
        run.done("f/[1]/a");
        assert_eq!(run.running(), ["f/[2]/a", "f/[3]/a"]);
    }
    let mut run = run(r#"<PAR NAME="p" MAX_PARALLEL="1"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        </PAR>"#);
    assert_eq!(run.running(), ["p/a"]);
    run.done("p/a");
    assert_eq!(run.running(), ["p/b"]);
}

#[test]
fn join_and_max_parallel_below_one_are_failures() {
    for attribute in ["JOIN", "MAX_PARALLEL"] {
        let failure = run(&FIVE.replace(r#"TO="5""#, &format!(r#"TO="5" {attribute}="${{0}}""#))).failure();
        assert_eq!((failure.kind, &*failure.path), (FailureKind::Parameter, "P/f"));
        assert_eq!(failure.message, format!("{attribute} must be at least 1, got 0"));
    }
}

#[test]
fn a_parwhile_evaluates_its_condition_each_time_there_is_capacity() {
    let text = body(
        r#"<PARWHILE NAME="w" CONDITION="completed &lt; 2"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARWHILE>
        <POST_CODE>result = {w.completed}</POST_CODE>"#,
    );
    let mut run = setup(&text).capacity(2).run();
    assert_eq!(run.running(), ["w/[1]/a", "w/[2]/a"]);
    run.done("w/[1]/a");
    assert_eq!(run.running(), ["w/[2]/a", "w/[3]/a"]);
    run.done("w/[3]/a");
    assert_eq!(run.running(), ["w/[2]/a"], "the condition was false once, and is not evaluated again");
    run.done("w/[2]/a");
    assert_eq!(run.result(), "[3]");
}

#[test]
fn join_ends_a_controller_when_that_many_elements_completed() {
    let mut run = run(&(FIVE.replace(r#"TO="5""#, r#"TO="5" JOIN="2" MAX_PARALLEL="3""#)
        + "<POST_CODE>result = {f.completed, f.failed, f.cancelled}</POST_CODE>"));
    run.done("f/[1]/a");
    assert_eq!(run.stopping().len(), 0);
    run.done("f/[3]/a");
    assert_eq!(run.stopping(), ["f/[2]/a", "f/[4]/a"], "running iterations are cancelled");
    assert!(!run.has_ended(), "the loop waits for the cancelled iterations");
    run.stopped("f/[4]/a");
    assert!(!run.has_ended());
    run.done("f/[2]/a");
    assert_eq!(run.result(), "[2,0,2]", "no more iterations begin, and cancelled ones do not count as completed");
    assert_eq!(run.count(|event| matches!(event, Event::Sent { .. })), 4);
}

#[test]
fn a_join_above_the_number_of_elements_ends_with_the_last() {
    let mut run = run(r#"<PAR NAME="p" JOIN="9"><ACTIVITY TYPE="Do" NAME="a"/></PAR>"#);
    run.done("p/a");
    run.completed();
}

#[test]
fn failures_do_not_count_for_join() {
    let mut run = run(r#"<PARFOR NAME="f" TO="3" JOIN="1"><ITERATE ON_FAILURE="continue">
        <ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>"#);
    run.fail("f/[1]/a");
    assert_eq!(run.stopping().len(), 0);
    run.done("f/[2]/a");
    assert_eq!(run.stopping(), ["f/[3]/a"]);
}

#[test]
fn the_exit_condition_is_evaluated_each_time_an_element_ends() {
    for (condition, ends) in [
        ("completed == 2", 3),
        ("failed == 1", 2),
        ("running == 1", 4),
        ("#results == 2", 3),
        ("results[2] == 30", 3),
        ("completed + failed == 5", 5),
        ("false", 5),
    ] {
        let text = format!(
            r#"<PARFOR NAME="f" TO="5" COLLECT="a.value" EXIT_CONDITION="{condition}"><ITERATE ON_FAILURE="continue">
            <ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR><POST_CODE>result = f.results</POST_CODE>"#
        );
        let mut run = run(&text);
        let mut count = 0;
        for counter in [1, 2, 3, 4, 5] {
            count += 1;
            match counter {
                2 => run.fail("f/[2]/a"),
                _ => run.give(&format!("f/[{counter}]/a"), counter * 10),
            }
            if !run.stopping().is_empty() {
                break;
            }
        }
        assert_eq!(count, ends, "{condition}");
        for path in run.stopping() {
            run.stopped(&path);
        }
        run.completed();
    }
}

#[test]
fn the_exit_condition_sees_variables_in_scope_and_shared_objects() {
    let mut run = run(r#"<PAR NAME="p" limit="1"><IN_PARAMETER TYPE="int" NAME="limit"/>
        <OUT_PARAMETER TYPE="RemoteSet" NAME="set"/>
        <PRE_CODE>set = RemoteSet.new() set:add("x")</PRE_CODE>
        <EXIT_CONDITION>set:size() >= limit and cancelled == 0</EXIT_CONDITION>
        <ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/></PAR>"#);
    assert_eq!(run.stopping().len(), 0, "the condition is evaluated only when an element ends");
    run.done("p/b");
    run.stopped("p/a");
    run.completed();
}

#[test]
fn an_exit_condition_that_fails_fails_the_controller() {
    let mut run = run(r#"<PAR NAME="p" EXIT_CONDITION="error('no')"><ACTIVITY TYPE="Do" NAME="a"/>
        <ACTIVITY TYPE="Do" NAME="b"/></PAR>"#);
    run.done("p/a");
    run.stopped("p/b");
    assert_eq!((run.failure().kind, &*run.failure().path), (FailureKind::Code, "P/p"));
}

#[test]
fn after_an_exit_finally_of_cancelled_elements_runs_before_post_code() {
    let mut run = run(r#"<PAR NAME="p" JOIN="1"><OUT_PARAMETER TYPE="int" NAME="n"/>
        <ACTIVITY TYPE="Do" NAME="a"/>
        <BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="c"/><FINALLY><ACTIVITY TYPE="Do" NAME="d"/></FINALLY></BLOCK>
        <POST_CODE>n = completed * 10 + cancelled</POST_CODE></PAR><POST_CODE>result = {p.n}</POST_CODE>"#);
    run.done("p/a");
    run.stopped("p/b/c");
    assert_eq!(run.running(), ["p/b/finally/d"]);
    run.done("p/b/finally/d");
    assert_eq!(run.result(), "[11]");
}

#[test]
fn the_exit_condition_is_evaluated_between_the_creation_of_iterations() {
    let run = run(r#"<PARFOR NAME="f" TO="1000" EXIT_CONDITION="completed == 3"><ITERATE/></PARFOR>
        <POST_CODE>result = {f.completed, f.cancelled}</POST_CODE>"#);
    assert_eq!(run.result(), "[3,0]");
}

#[test]
fn results_are_in_order_of_completion_until_the_end_and_of_iterations_after_it() {
    let mut run = run(r#"<PARFOR NAME="f" TO="3" COLLECT="a.value"><OUT_PARAMETER TYPE="list" NAME="ended"/>
        <ITERATE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE><POST_CODE>ended = results</POST_CODE></PARFOR>
        <POST_CODE>result = {f.results, f.ended}</POST_CODE>"#);
    run.give("f/[2]/a", 20);
    run.give("f/[3]/a", 30);
    run.give("f/[1]/a", 10);
    assert_eq!(run.result(), "[[10,20,30],[20,30,10]]");
}

#[test]
fn a_failure_fails_a_parallel_controller_and_cancels_the_rest() {
    let mut run = run(FIVE);
    run.fail("f/[2]/a");
    assert_eq!(run.stopping(), ["f/[1]/a", "f/[3]/a", "f/[4]/a", "f/[5]/a"]);
    for counter in [1, 3, 4, 5] {
        run.stopped(&format!("f/[{counter}]/a"));
    }
    assert_eq!((run.failure().kind, &*run.failure().path), (FailureKind::Exit, "P/f/[2]/a"));
}
