//! `CATCH` and `FINALLY`.

use crate::harness::run;
use xavantes_engine::{Answer, Failure, FailureKind};

const CAREFUL: &str = r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
    <ACTIVITY TYPE="Do" NAME="a"/>
    <CATCH><ACTIVITY TYPE="Do" NAME="c"/><POST_CODE>n = n + 1</POST_CODE></CATCH>
    <FINALLY><ACTIVITY TYPE="Do" NAME="f"/><POST_CODE>n = n + 10</POST_CODE></FINALLY></BLOCK>
    <POST_CODE>result = {b.n}</POST_CODE>"#;

#[test]
fn after_completion_finally_runs_and_catch_does_not() {
    let mut run = run(CAREFUL);
    run.done("b/a");
    assert_eq!(run.running(), ["b/finally/f"]);
    run.done("b/finally/f");
    assert_eq!(run.result(), "[10]");
}

#[test]
fn after_a_failure_catch_runs_then_finally_and_the_element_completes() {
    let mut run = run(CAREFUL);
    run.fail("b/a");
    assert_eq!(run.running(), ["b/catch/c"]);
    run.done("b/catch/c");
    assert_eq!(run.running(), ["b/finally/f"]);
    run.done("b/finally/f");
    assert_eq!(run.result(), "[11]");
}

#[test]
fn after_a_cancel_finally_runs_and_catch_does_not() {
    let mut run = run(CAREFUL);
    run.cancel("b");
    run.stopped("b/a");
    assert_eq!(run.running(), ["b/finally/f"]);
    run.done("b/finally/f");
    assert_eq!(run.failure().kind, FailureKind::Cancelled);
}

#[test]
fn a_failing_catch_fails_the_element_and_keeps_the_cause() {
    let mut run = run(CAREFUL);
    run.fail("b/a");
    run.answer("b/catch/c", Answer::Failed(Box::new(Failure::new(FailureKind::Code, "worse"))));
    run.done("b/finally/f");
    let failure = run.failure();
    assert_eq!((&*failure.message, &*failure.path), ("worse", "P/b/catch/c"));
    assert_eq!(failure.cause.as_ref().map(|cause| &*cause.message), Some("no luck"));
    assert_eq!(failure.to_string(), "P/b/catch/c: worse\nwhile handling P/b/a: no luck");
}

#[test]
fn a_failing_finally_fails_the_element_and_keeps_the_cause() {
    let mut run1 = run(CAREFUL);
    run1.done("b/a");
    run1.fail("b/finally/f");
    assert_eq!(run1.failure().to_string(), "P/b/finally/f: no luck");

    let mut run2 = run(CAREFUL);
    run2.fail("b/a");
    run2.fail("b/catch/c");
    run2.fail("b/finally/f");
    let message = "P/b/finally/f: no luck\nwhile handling P/b/catch/c: no luck\nwhile handling P/b/a: no luck";
    assert_eq!(run2.failure().to_string(), message);
}

#[test]
fn a_failing_finally_does_not_make_a_cancelled_element_fail_or_retry() {
    let mut run = run(r#"<PAR NAME="p"><BLOCK NAME="b" RETRIES="3"><ACTIVITY TYPE="Do" NAME="a"/>
        <FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK></PAR><POST_CODE>result = {p.cancelled}</POST_CODE>"#);
    run.cancel("p/b");
    run.stopped("p/b/a");
    run.fail("p/b/finally/f");
    assert_eq!(run.result(), "[1]");
}

#[test]
fn causes_of_causes_are_kept() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/>
        <CATCH><BLOCK NAME="c"><ACTIVITY TYPE="Do" NAME="d"/><CATCH><ACTIVITY TYPE="Do" NAME="e"/></CATCH></BLOCK>
        </CATCH></BLOCK>"#);
    run.fail("b/a");
    run.fail("b/catch/c/d");
    run.fail("b/catch/c/catch/e");
    let message = "P/b/catch/c/catch/e: no luck\nwhile handling P/b/catch/c/d: no luck\nwhile handling P/b/a: no luck";
    assert_eq!(run.failure().to_string(), message);
}

#[test]
fn a_result_missing_after_catch_is_a_failure_that_keeps_the_cause() {
    let mut run = run(
        r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n"/><ACTIVITY TYPE="Do" NAME="a"/><POST_CODE>n = 1</POST_CODE><CATCH/>
        </BLOCK>"#,
    );
    run.fail("b/a");
    let failure = run.failure();
    assert_eq!(
        (failure.kind, failure.cause.map(|cause| cause.message)),
        (FailureKind::Parameter, Some("no luck".into()))
    );
}

#[test]
fn catch_reads_the_failure_in_error() {
    let text = r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="map" NAME="e"/><ACTIVITY TYPE="Do" NAME="a"/>
        <CATCH><PRE_CODE>e = error</PRE_CODE></CATCH></BLOCK><POST_CODE>result = {b.e}</POST_CODE>"#;
    let mut first = run(text);
    let mut failure = Failure::new(FailureKind::Exit, "it broke");
    (failure.worker, failure.exit_status, failure.stderr) = (Some("w1".into()), Some(2), Some("oh".into()));
    failure.line = Some(4);
    first.answer("b/a", Answer::Failed(Box::new(failure)));
    let error =
        r#"[{"exit_status":2,"kind":"exit","line":4,"message":"it broke","path":"P/b/a","stderr":"oh","worker":"w1"}]"#;
    assert_eq!(first.result(), error);
    let mut second = run(text);
    second.cancel("b/a");
    second.stopped("b/a");
    assert_eq!(second.result(), r#"[{"kind":"cancelled","message":"a was cancelled","path":"P/b/a"}]"#);
}

#[test]
fn every_kind_of_failure_is_caught_under_its_name() {
    for (content, kind) in [
        (r#"<PRE_CODE>error("x")</PRE_CODE>"#, "code"),
        (r#"<POST_CODE>error("x")</POST_CODE>"#, "code"),
        (r#"<PRE_CODE>while true do end</PRE_CODE>"#, "limit"),
        (r#"<PRE_CODE>n = "x" .. 1</PRE_CODE>"#, "parameter"),
        (r#"<BLOCK NAME="x"><OUT_PARAMETER TYPE="int" NAME="y"/><PRE_CODE>y = nil</PRE_CODE></BLOCK>"#, "parameter"),
    ] {
        let run = run(&format!(
            r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n" OPTIONAL="true"/>
                <OUT_PARAMETER TYPE="string" NAME="kind"/>
            {content}<CATCH><PRE_CODE>kind = error.kind</PRE_CODE></CATCH></BLOCK>
                <POST_CODE>result = {{b.kind}}</POST_CODE>"#
        ));
        assert_eq!(run.result(), format!("[{kind:?}]"), "{content}");
    }
    let mut run = run(r#"<BLOCK NAME="b" TIMEOUT="1s"><OUT_PARAMETER TYPE="string" NAME="kind"/>
        <ACTIVITY TYPE="Do" NAME="a"/>
        <CATCH><PRE_CODE>kind = error.kind</PRE_CODE></CATCH></BLOCK><POST_CODE>result = {b.kind}</POST_CODE>"#);
    run.advance(1000);
    run.stopped("b/a");
    assert_eq!(run.result(), r#"["timeout"]"#);
}

#[test]
fn running_elements_are_cancelled_before_catch_begins() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        <CATCH><ACTIVITY TYPE="Do" NAME="c"/></CATCH></PAR>"#);
    run.fail("p/a");
    assert_eq!(run.running(), ["p/b"]);
    run.stopped("p/b");
    assert_eq!(run.running(), ["p/catch/c"]);
}

#[test]
fn the_innermost_catch_handles_a_failure() {
    let mut run = run(r#"<BLOCK NAME="x"><OUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/><BLOCK NAME="y">
        <ACTIVITY TYPE="Do" NAME="a"/><CATCH/></BLOCK>
        <CATCH><PRE_CODE>n = 1</PRE_CODE></CATCH></BLOCK><POST_CODE>result = {x.n}</POST_CODE>"#);
    run.fail("x/y/a");
    assert_eq!(run.result(), "[0]");
}

#[test]
fn body_and_iterate_have_handlers_too() {
    let mut run = run(r#"<PARFOR NAME="f" TO="2" COLLECT="n"><ITERATE><OUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
          <ACTIVITY TYPE="Do" NAME="a"/><CATCH><PRE_CODE>n = counter</PRE_CODE></CATCH></ITERATE></PARFOR>
        <ACTIVITY TYPE="Do" NAME="last"/>
        <CATCH><PRE_CODE>result = {f.results, error.path}</PRE_CODE></CATCH><FINALLY>
        <ACTIVITY TYPE="Do" NAME="close"/></FINALLY>"#);
    run.fail("f/[2]/a");
    run.done("f/[1]/a");
    run.fail("last");
    run.done("finally/close");
    assert_eq!(run.result(), r#"[[0,2],"P/last"]"#);
}

#[test]
fn a_retry_comes_after_finally_and_runs_the_whole_element_again() {
    let mut run = run(&CAREFUL.replace(r#"NAME="b""#, r#"NAME="b" RETRIES="1" RETRY_DELAY="1s""#));
    run.fail("b/a");
    run.fail("b/catch/c");
    run.done("b/finally/f");
    assert_eq!(run.running().len(), 0);
    run.advance(1000);
    run.done("b/a");
    run.done("b/finally/f");
    assert_eq!(run.result(), "[10]");
}

#[test]
fn a_cancelled_catch_leaves_the_failure_and_a_cancelled_finally_changes_nothing() {
    let mut run1 = run(CAREFUL);
    run1.fail("b/a");
    run1.cancel("b/catch");
    run1.stopped("b/catch/c");
    run1.done("b/finally/f");
    assert_eq!(run1.failure().path, "P/b/a");
    let mut run2 = run(CAREFUL);
    run2.done("b/a");
    run2.cancel("b/finally");
    run2.stopped("b/finally/f");
    assert_eq!(run2.result(), "[0]");
}
