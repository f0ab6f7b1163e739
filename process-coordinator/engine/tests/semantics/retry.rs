//! `retry` by a user.

use crate::harness::{body, document, run, setup};
use xavantes_engine::{Action, Answer, Event};

#[test]
fn an_element_that_waits_for_its_next_try_begins_it_at_once() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1" RETRY_DELAY="1h"/>"#);
    run.fail("a");
    run.retry("a");
    assert_eq!(run.running(), ["a"]);
    assert_eq!(run.engine.next_deadline(), None);
    run.done("a");
    run.completed();
}

#[test]
fn a_running_activity_is_stopped_and_retried_whatever_it_answers() {
    for answer in [Answer::Cancelled, Answer::Completed(Vec::new()), Answer::Lost] {
        let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
        run.retry("a");
        assert_eq!(run.stopping(), ["a"]);
        assert_eq!(run.refused("a", Action::Retry), "P/a is ending already");
        run.answer("a", answer);
        assert_eq!((run.running(), run.attempt("a").1), (vec!["a".into()], 2));
        run.done("a");
        run.completed();
    }
}

#[test]
fn a_running_controller_stops_runs_finally_and_begins_anew() {
    let mut run = run(r#"<BLOCK NAME="b"><INOUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
        <PRE_CODE>n = n + 1</PRE_CODE>
        <ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="c"/><CATCH><PRE_CODE>error("not caught")</PRE_CODE>
        </CATCH>
        <FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK><POST_CODE>result = {b.n}</POST_CODE>"#);
    run.done("b/a");
    run.retry("b");
    run.stopped("b/c");
    assert_eq!(run.running(), ["b/finally/f"]);
    assert_eq!(run.refused("b", Action::Retry), "P/b is ending already");
    run.done("b/finally/f");
    assert_eq!(run.running(), ["b/a"]);
    run.done("b/a");
    run.done("b/c");
    run.done("b/finally/f");
    assert_eq!(run.result(), "[1]");
}

#[test]
fn a_retry_by_a_user_does_not_count_as_a_failure() {
    for (text, path) in [
        (r#"<ACTIVITY TYPE="Do" NAME="a" RETRIES="1"/>"#, "a"),
        (r#"<BLOCK NAME="b" RETRIES="1"><ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#, "b/a"),
        (r#"<BLOCK NAME="b" RETRIES="1"><ACTIVITY TYPE="Do" NAME="a"/><FINALLY/></BLOCK>"#, "b/a"),
    ] {
        let mut run = run(text);
        for _ in 0..3 {
            run.retry(path.split('/').next().unwrap());
            run.stopped(path);
        }
        run.fail(path);
        assert_eq!(run.running(), [path], "the retry of the document is still left");
        run.fail(path);
        run.failure();
    }
}

#[test]
fn conditions_see_only_the_results_of_the_new_try() {
    let mut run = run(r#"<PARFOR NAME="f" TO="3" COLLECT="a.value" EXIT_CONDITION="results[1] == 20">
        <ITERATE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE></PARFOR><POST_CODE>result = f.results</POST_CODE>"#);
    run.give("f/[1]/a", 10);
    run.retry("f");
    run.stopped("f/[2]/a");
    run.stopped("f/[3]/a");
    run.give("f/[2]/a", 20);
    assert_eq!(run.stopping(), ["f/[1]/a", "f/[3]/a"]);
}

#[test]
fn a_process_that_runs_is_not_retried_as_a_whole() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><INOUT_PARAMETER TYPE="int" NAME="n"/><BODY><PRE_CODE>n = n + 1</PRE_CODE>
        <ACTIVITY TYPE="Take" NAME="a" n="${n}"/></BODY></PROCESS_TYPE>"#,
    );
    let mut run = setup(&text).with("n", 5).run();
    let refused = run.refused("", Action::Retry);
    assert!(refused.starts_with("P is running: `retry` is for an element of it"), "{refused}");
    assert_eq!(run.parameters("a"), [6.into()]);
    run.done("a");
    assert_eq!(run.results("n"), "6");
}

#[test]
fn iterations_handlers_and_elements_in_them_can_be_retried() {
    let mut run = run(r#"<PARFOR NAME="f" TO="2" COLLECT="counter"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/>
        <CATCH><ACTIVITY TYPE="Do" NAME="c"/></CATCH></ITERATE></PARFOR><POST_CODE>result = f.results</POST_CODE>"#);
    run.retry("f/[2]");
    run.stopped("f/[2]/a");
    run.done("f/[2]/a");
    run.fail("f/[1]/a");
    run.retry("f/[1]/catch");
    run.stopped("f/[1]/catch/c");
    run.done("f/[1]/catch/c");
    assert_eq!(run.result(), "[1,2]");
}

#[test]
fn a_retry_during_catch_abandons_the_catch() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><CATCH><ACTIVITY TYPE="Do" NAME="c"/></CATCH>
        </BLOCK>"#);
    run.fail("b/a");
    run.retry("b");
    run.stopped("b/catch/c");
    assert_eq!(run.running(), ["b/a"]);
    run.done("b/a");
    run.completed();
}

#[test]
fn an_activity_that_waits_for_capacity_cannot_be_retried() {
    let mut run = setup(&body(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#)).capacity(0).run();
    assert_eq!(run.refused("a", Action::Retry), "P/a waits for a worker: there is no try to repeat");
    assert_eq!(run.count(|event| matches!(event, Event::Restarted { .. })), 0);
}
