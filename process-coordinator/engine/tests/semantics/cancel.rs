//! `cancel`, at every kind of element and in every phase.

use crate::harness::{body, run, setup};
use xavantes_engine::{Action, FailureKind};

#[test]
fn cancelling_a_process_stops_everything_in_it_at_once() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/>
        <FOR NAME="f" TO="2"><ITERATE><SWITCH NAME="s"><CASE CONDITION="true"><ACTIVITY TYPE="Do" NAME="b"/></CASE>
        </SWITCH></ITERATE></FOR>
        <WHILE NAME="w" CONDITION="true"><ITERATE><ACTIVITY TYPE="Do" NAME="c"/></ITERATE></WHILE>
        <PARWHILE NAME="x" CONDITION="counter &lt; 3"><ITERATE><ACTIVITY TYPE="Do" NAME="d"/></ITERATE></PARWHILE>
        </PAR>"#);
    let all = run.running();
    assert_eq!(all.len(), 5);
    run.cancel("");
    assert_eq!(run.stopping(), all);
    for path in all {
        assert!(!run.has_ended());
        run.stopped(&path);
    }
    run.cancelled();
}

#[test]
fn a_cancelled_attempt_ends_cancelled_whatever_it_answers() {
    use xavantes_engine::{Answer, Failure};
    for answer in [
        Answer::Cancelled,
        Answer::Lost,
        Answer::Refused,
        Answer::Completed(vec![1.into()]),
        Answer::Failed(Box::new(Failure::new(FailureKind::Exit, "killed"))),
    ] {
        let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Give" NAME="a" RETRIES="3"/></PAR>
            <POST_CODE>result = {p.cancelled}</POST_CODE>"#);
        run.cancel("p/a");
        run.answer("p/a", answer);
        assert_eq!(run.result(), "[1]");
    }
}

#[test]
fn a_cancelled_element_fails_its_sequence_unless_on_failure_is_continue() {
    let text = |policy: &str| format!(r#"<ACTIVITY TYPE="Do" NAME="a" {policy}/><ACTIVITY TYPE="Do" NAME="b"/>"#);
    let mut first = run(&text(""));
    first.cancel("a");
    first.stopped("a");
    assert_eq!((first.failure().kind, &*first.failure().path), (FailureKind::Cancelled, "P/a"));
    let mut second = run(&text(r#"ON_FAILURE="continue""#));
    second.cancel("a");
    second.stopped("a");
    assert_eq!(second.running(), ["b"]);
    let mut third = run(&text(r#"RETRIES="5""#));
    third.cancel("a");
    third.stopped("a");
    assert_eq!(third.failure().kind, FailureKind::Cancelled, "a cancelled element is not retried");
}

#[test]
fn a_cancelled_element_of_a_parallel_controller_leaves_the_others_running() {
    for (text, paths) in [
        (r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/></PAR>"#, ["p/a", "p/b"]),
        (
            r#"<PARFOR NAME="p" TO="2"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>
            </PARFOR>"#,
            ["p/[1]/a", "p/[2]/a"],
        ),
        (
            r#"<PARSWITCH NAME="p"><CASE CONDITION="1"><ACTIVITY TYPE="Do" NAME="a"/></CASE><CASE CONDITION="1">
            <ACTIVITY TYPE="Do" NAME="a"/></CASE></PARSWITCH>"#,
            ["p/case1/a", "p/case2/a"],
        ),
    ] {
        let mut run = run(&format!("{text}<POST_CODE>result = {{p.completed, p.cancelled}}</POST_CODE>"));
        let direct = paths[0].splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        run.cancel(&direct);
        run.stopped(paths[0]);
        assert_eq!(run.running(), [paths[1]]);
        run.done(paths[1]);
        assert_eq!(run.result(), "[1,1]");
    }
}

#[test]
fn elements_that_wait_for_a_cancelled_one_are_cancelled_too() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b" AFTER="a"/>
        <ACTIVITY TYPE="Do" NAME="c" AFTER="b d"/><ACTIVITY TYPE="Do" NAME="d"/>
        <ACTIVITY TYPE="Do" NAME="e" AFTER="d"/></PAR>
        <POST_CODE>result = {p.completed, p.cancelled}</POST_CODE>"#);
    run.cancel("p/a");
    run.stopped("p/a");
    assert_eq!(run.running(), ["p/d"]);
    run.done("p/d");
    run.done("p/e");
    assert_eq!(run.result(), "[2,3]");
}

#[test]
fn a_waiting_held_or_ready_element_is_cancelled_at_once() {
    let mut waiting = run(r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1" RETRY_DELAY="1h"/>"#);
    waiting.fail("a");
    waiting.cancel("a");
    assert_eq!(waiting.failure().kind, FailureKind::Cancelled);
    assert_eq!(waiting.engine.next_deadline(), None);

    let mut held = run(r#"<BLOCK NAME="b" ON_FAILURE="hold"><ACTIVITY TYPE="Do" NAME="a"/><FINALLY/></BLOCK>"#);
    held.fail("b/a");
    held.cancel("");
    held.cancelled();

    let mut ready = setup(&body(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#)).capacity(0).run();
    ready.cancel("");
    ready.cancelled();
}

#[test]
fn a_controller_that_waits_for_capacity_can_be_cancelled() {
    let mut run = setup(&body(
        r#"<PARFOR NAME="f" TO="9"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>
        </PARFOR>"#,
    ))
    .capacity(1)
    .run();
    run.cancel("f");
    run.stopped("f/[1]/a");
    assert_eq!(run.failure().path, "P/f");
}

#[test]
fn a_cancel_during_catch_cancels_it_and_finally_runs() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><CATCH><ACTIVITY TYPE="Do" NAME="c"/></CATCH>
        <FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK>"#);
    run.fail("b/a");
    run.cancel("");
    run.stopped("b/catch/c");
    assert_eq!(run.running(), ["b/finally/f"]);
    run.done("b/finally/f");
    run.cancelled();
}

const FINALLY: &str = r#"<PAR NAME="p"><BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/>
    <FINALLY><ACTIVITY TYPE="Do" NAME="f"/><ACTIVITY TYPE="Do" NAME="g"/></FINALLY></BLOCK></PAR>
    <POST_CODE>result = {p.completed, p.cancelled}</POST_CODE>"#;

#[test]
fn a_cancel_during_finally_lets_it_run_to_its_end() {
    let mut run = run(FINALLY);
    run.done("p/b/a");
    run.cancel("p/b");
    assert_eq!((run.running(), run.stopping().len()), (vec!["p/b/finally/f".into()], 0));
    run.done("p/b/finally/f");
    run.done("p/b/finally/g");
    assert_eq!(run.result(), "[0,1]");
}

#[test]
fn a_second_cancel_cancels_finally() {
    let mut run = run(FINALLY);
    run.cancel("p/b");
    assert_eq!(run.refused("p/b", Action::Cancel), "P/p/b is being cancelled already");
    run.stopped("p/b/a");
    assert_eq!(run.running(), ["p/b/finally/f"]);
    run.cancel("p/b");
    assert_eq!(run.stopping(), ["p/b/finally/f"]);
    assert_eq!(run.refused("p/b", Action::Cancel), "P/p/b is being cancelled already");
    run.stopped("p/b/finally/f");
    assert_eq!(run.result(), "[0,1]");
}

#[test]
fn a_second_cancel_of_a_process_cancels_every_finally_in_it() {
    let mut run = run(FINALLY);
    run.cancel("");
    run.stopped("p/b/a");
    assert_eq!(run.running(), ["p/b/finally/f"]);
    run.cancel("");
    run.stopped("p/b/finally/f");
    run.cancelled();
}

#[test]
fn an_activity_is_asked_to_stop_once() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a" TIMEOUT="1s"/>"#);
    run.cancel("a");
    assert_eq!(run.commands.len(), 1);
    assert_eq!(run.refused("a", Action::Cancel), "P/a is being cancelled already");
    run.advance(5000);
    run.cancel("");
    assert_eq!(run.commands.len(), 0);
    run.stopped("a");
    run.cancelled();
}

#[test]
fn a_cancel_after_a_time_out_or_a_retry_wins() {
    let mut late = run(r#"<PAR NAME="p"><BLOCK NAME="b" TIMEOUT="1s"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK></PAR>"#);
    late.advance(1000);
    late.cancel("p/b");
    late.stopped("p/b/a");
    late.completed();
    let mut again = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/></PAR>"#);
    again.retry("p/a");
    again.cancel("p/a");
    again.stopped("p/a");
    again.completed();
}

#[test]
fn an_element_that_has_ended_or_not_begun_cannot_be_cancelled() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        <ACTIVITY TYPE="Do" NAME="last"/>"#);
    run.done("a");
    assert_eq!(run.refused("a", Action::Cancel), "P/a has ended or not begun");
    assert_eq!(run.refused("last", Action::Cancel), "P/last has ended or not begun");
    assert_eq!(run.refused("lost", Action::Cancel), r#"P has no element "lost"; did you mean "last"?"#);
    assert_eq!(run.refused("a/b", Action::Cancel), "P/a has ended or not begun");
    run.cancel("");
    run.stopped("b");
    assert_eq!(run.refused("", Action::Cancel), "the process has ended");
}
