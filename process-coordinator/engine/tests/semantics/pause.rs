//! `pause` and `resume`, at any level.

use crate::harness::{body, run, setup};
use xavantes_engine::{Action, Event, FailureKind};

#[test]
fn in_a_paused_element_nothing_new_starts_and_results_are_recorded() {
    let mut run = run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n"/><ACTIVITY TYPE="Give" NAME="a"/>
        <ACTIVITY TYPE="Do" NAME="c"/>
        <POST_CODE>n = a.value</POST_CODE></BLOCK><POST_CODE>result = {b.n}</POST_CODE>"#);
    run.pause("b");
    assert!(run.view("b/a").paused);
    run.give("b/a", 4);
    assert_eq!(run.running().len(), 0);
    run.resume("b");
    run.done("b/c");
    assert_eq!(run.result(), "[4]");
}

#[test]
fn a_pause_delays_code_iterations_conditions_and_retries() {
    let mut code = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><POST_CODE>error("ran")</POST_CODE></BLOCK>"#);
    code.pause("");
    code.done("b/a");
    assert_eq!(code.count(|event| matches!(event, Event::Posted { .. })), 0);
    code.resume("");
    assert_eq!(code.failure().kind, FailureKind::Code);

    let mut iterations = setup(&body(
        r#"<PARFOR NAME="f" TO="3"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>
        </PARFOR>"#,
    ))
    .capacity(1)
    .run();
    iterations.pause("f");
    iterations.done("f/[1]/a");
    assert_eq!(iterations.running().len(), 0);
    iterations.resume("f");
    assert_eq!(iterations.running(), ["f/[2]/a"]);

    let mut exits = run(r#"<PAR NAME="p" EXIT_CONDITION="true"><ACTIVITY TYPE="Do" NAME="a"/>
        <ACTIVITY TYPE="Do" NAME="b"/></PAR>"#);
    exits.pause("p");
    exits.done("p/a");
    assert_eq!(exits.stopping().len(), 0);
    exits.resume("p");
    assert_eq!(exits.stopping(), ["p/b"]);

    let mut retries = run(r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1" RETRY_DELAY="1s"/>"#);
    retries.pause("a");
    retries.fail("a");
    retries.advance(5000);
    assert_eq!(retries.running().len(), 0);
    retries.resume("a");
    assert_eq!(retries.running(), ["a"]);

    let mut later = run(r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1" RETRY_DELAY="10s"/>"#);
    later.pause("");
    later.fail("a");
    later.resume("");
    assert_eq!(later.running().len(), 0);
    later.advance(10_000);
    assert_eq!(later.running(), ["a"]);
}

#[test]
fn lost_attempts_are_handed_out_again_after_the_pause() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
    run.pause("");
    run.answer("a", xavantes_engine::Answer::Lost);
    assert_eq!(run.running().len(), 0);
    run.resume("");
    assert_eq!(run.running(), ["a"]);
}

#[test]
fn pauses_at_several_levels_must_all_be_lifted() {
    let mut run = run(r#"<BLOCK NAME="b"><BLOCK NAME="c"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="d"/>
        </BLOCK></BLOCK>"#);
    run.pause("b/c");
    run.pause("");
    run.done("b/c/a");
    run.resume("");
    assert_eq!(run.running().len(), 0);
    assert!(run.view("b/c").paused && !run.view("b").paused);
    run.resume("b/c");
    assert_eq!(run.running(), ["b/c/d"]);
}

#[test]
fn pausing_one_element_does_not_delay_its_neighbours() {
    let mut run = run(r#"<PAR NAME="p"><BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="c"/>
        </BLOCK>
        <BLOCK NAME="d"><ACTIVITY TYPE="Do" NAME="e"/><ACTIVITY TYPE="Do" NAME="f"/></BLOCK></PAR>"#);
    run.pause("p/b");
    run.done("p/b/a");
    run.done("p/d/e");
    assert_eq!(run.running(), ["p/d/f"]);
}

#[test]
fn time_outs_of_controllers_stand_still_and_those_of_activities_do_not() {
    let mut controller = run(r#"<BLOCK NAME="b" TIMEOUT="10s"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#);
    controller.advance(4000);
    controller.pause("");
    controller.advance(60_000);
    controller.resume("");
    controller.advance(5999);
    assert_eq!(controller.stopping().len(), 0);
    controller.advance(1);
    assert_eq!(controller.stopping(), ["b/a"]);

    let mut activity = run(r#"<ACTIVITY TYPE="Do" NAME="a" TIMEOUT="10s"/>"#);
    activity.pause("");
    assert_eq!(activity.engine.next_deadline(), None, "the activity runs on");
    activity.done("a");
}

/// Checks that an inner element with a time-out of 100 s times out at `deadline`, after pauses of it and of an outer
/// element. Each step has a time in seconds, a path and an action.
fn check_deadline(steps: &[(u64, &str, Action)], deadline: u64) {
    let mut run = run(r#"<BLOCK NAME="b"><BLOCK NAME="c" TIMEOUT="100s"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK>
        </BLOCK>"#);
    let mut now = 0;
    for (at, path, action) in steps {
        run.advance(at * 1000 - now);
        now = at * 1000;
        run.steer(path, action.clone());
    }
    run.advance(deadline * 1000 - now - 1);
    assert_eq!(run.stopping().len(), 0, "{steps:?}");
    run.advance(1);
    assert_eq!(run.stopping(), ["b/c/a"], "{steps:?}");
}

#[test]
fn time_under_several_pauses_counts_once() {
    use Action::{Pause, Resume};
    let (outer, inner) = ("b", "b/c");
    check_deadline(&[(10, outer, Pause), (20, inner, Pause), (30, inner, Resume), (40, outer, Resume)], 130);
    check_deadline(&[(10, inner, Pause), (20, outer, Pause), (30, outer, Resume), (40, inner, Resume)], 130);
    check_deadline(&[(10, outer, Pause), (20, inner, Pause), (30, outer, Resume), (40, inner, Resume)], 130);
    check_deadline(&[(10, inner, Pause), (20, outer, Pause), (30, inner, Resume), (40, outer, Resume)], 130);
    check_deadline(&[(10, outer, Pause), (20, outer, Resume), (30, inner, Pause), (40, inner, Resume)], 120);
    check_deadline(
        &[
            (10, "", Pause),
            (20, outer, Pause),
            (30, inner, Pause),
            (40, "", Resume),
            (50, outer, Resume),
            (60, inner, Resume),
        ],
        150,
    );
    check_deadline(
        &[
            (10, inner, Pause),
            (15, outer, Pause),
            (20, "", Pause),
            (30, outer, Resume),
            (40, inner, Resume),
            (60, "", Resume),
        ],
        150,
    );
}

#[test]
fn a_time_out_reached_during_a_pause_still_applies_after_it() {
    let mut run = run(r#"<BLOCK NAME="b" TIMEOUT="1s"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#);
    run.pause("b");
    run.advance(5000);
    run.crash();
    run.resume("b");
    run.advance(999);
    assert_eq!(run.stopping().len(), 0);
    run.advance(1);
    assert_eq!(run.stopping(), ["b/a"]);
}

#[test]
fn a_failure_during_a_pause_is_handled_after_it() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        <CATCH><ACTIVITY TYPE="Do" NAME="c"/></CATCH></PAR>"#);
    run.pause("p");
    run.fail("p/a");
    assert_eq!((run.running(), run.stopping().len()), (vec!["p/b".into()], 0));
    run.done("p/b");
    run.resume("p");
    assert_eq!(run.running(), ["p/catch/c"]);
}

#[test]
fn cancelling_a_paused_element_lifts_the_pause() {
    for paused in ["", "b", "b/a"] {
        let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><FINALLY><ACTIVITY TYPE="Do" NAME="f"/>
            </FINALLY></BLOCK>"#);
        run.pause(paused);
        run.cancel("b");
        run.stopped("b/a");
        assert_eq!(run.running(), ["b/finally/f"], "paused {paused:?}");
        run.done("b/finally/f");
        if paused.is_empty() {
            assert!(!run.has_ended(), "the element around it is still paused");
            run.resume("");
        }
        assert_eq!(run.failure().kind, FailureKind::Cancelled);
    }
}

#[test]
fn a_cancel_during_a_paused_finally_lets_it_go_on() {
    let mut run = run(r#"<BLOCK NAME="b"><FINALLY><ACTIVITY TYPE="Do" NAME="f"/>
        <BLOCK NAME="c" TIMEOUT="1s" ON_FAILURE="continue"><ACTIVITY TYPE="Do" NAME="g"/></BLOCK>
        <ACTIVITY TYPE="Do" NAME="h"/></FINALLY></BLOCK>"#);
    run.done("b/finally/f");
    run.pause("b");
    run.advance(5000);
    assert_eq!(run.stopping().len(), 0);
    run.cancel("b");
    run.advance(1);
    assert_eq!(run.stopping(), ["b/finally/c/g"], "the time-out counts again");
    run.stopped("b/finally/c/g");
    run.done("b/finally/h");
    assert_eq!(run.failure().kind, FailureKind::Cancelled);
}

#[test]
fn a_retry_requested_before_a_pause_begins_after_it() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
    run.retry("a");
    run.pause("");
    run.stopped("a");
    assert_eq!(run.count(|event| matches!(event, Event::Restarted { .. })), 0);
    run.resume("");
    assert_eq!(run.running(), ["a"]);
}

#[test]
fn a_paused_element_cannot_be_paused_nor_a_running_one_resumed() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
    assert_eq!(run.refused("a", Action::Resume), "P/a is not paused");
    run.pause("a");
    assert_eq!(run.refused("a", Action::Pause), "P/a is paused already");
    assert_eq!(run.refused("a", Action::Retry), "P/a is paused: resume it first");
    run.done("a");
    run.completed();
}
