//! `set` by a user: parameters of elements that have not begun, bounds and conditions of running controllers.

use crate::harness::{body, document, run, set, setup};
use xavantes_engine::Rejection;

#[test]
fn set_changes_a_parameter_of_an_element_that_has_not_begun() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Take" NAME="b" n="1" RETRIES="1"/>"#);
    run.set("b", "n", "7");
    run.done("a");
    assert_eq!(run.parameters("b"), [7.into()]);
    run.fail("b");
    assert_eq!(run.parameters("b"), [7.into()], "a new try uses the value too");
}

#[test]
fn set_changes_a_parameter_of_a_waiting_element_of_a_par() {
    let mut run = run(r#"<PAR NAME="p" MAX_PARALLEL="1"><ACTIVITY TYPE="Do" NAME="a"/>
        <ACTIVITY TYPE="Take" NAME="b" AFTER="a" n="1"/>
        <ACTIVITY TYPE="Take" NAME="c" n="1"/></PAR>"#);
    run.set("p/b", "n", "7");
    run.set("p/c", "n", "8");
    run.done("p/a");
    assert_eq!(run.parameters("p/c"), [8.into()]);
    run.done("p/c");
    assert_eq!(run.parameters("p/b"), [7.into()]);
}

#[test]
fn set_changes_the_bound_of_a_loop_that_has_not_begun() {
    let mut run = run(r#"<ACTIVITY TYPE="Do" NAME="a"/><FOR NAME="f" TO="9" COLLECT="counter"><ITERATE/></FOR>
        <POST_CODE>result = f.results</POST_CODE>"#);
    run.set("f", "counterEnd", "2");
    run.done("a");
    assert_eq!(run.result(), "[1,2]");
}

#[test]
fn set_changes_to_of_a_running_loop() {
    for (to, numbers) in [("5", "[1,2,3,4,5]"), ("2", "[1,2]"), ("1", "[1,2]"), ("-9", "[1,2]")] {
        let mut run = run(r#"<PARFOR NAME="f" TO="3" MAX_PARALLEL="2" COLLECT="counter"><ITERATE>
            <ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>
            <POST_CODE>result = f.results</POST_CODE>"#);
        run.set("f", "TO", to);
        while let Some(path) = run.running().first().cloned() {
            run.done(&path);
        }
        assert_eq!(run.result(), numbers, "iterations that have begun stay");
    }
    let mut run = run(r#"<FOR NAME="f" FROM="5" TO="4" STEP="-1" COLLECT="counter"><ITERATE>
        <ACTIVITY TYPE="Do" NAME="a"/></ITERATE></FOR>
        <POST_CODE>result = f.results</POST_CODE>"#);
    run.set("f", "TO", "3");
    for counter in [5, 4, 3] {
        run.done(&format!("f/[{counter}]/a"));
    }
    assert_eq!(run.result(), "[5,4,3]");
}

#[test]
fn set_changes_max_parallel_of_a_running_controller() {
    let mut run = run(r#"<PARFOR NAME="f" TO="9" MAX_PARALLEL="2"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>
        </PARFOR>"#);
    run.set("f", "MAX_PARALLEL", "3");
    assert_eq!(run.running().len(), 3);
    run.set("f", "MAX_PARALLEL", "1");
    assert_eq!((run.running().len(), run.stopping().len()), (3, 0), "running iterations go on");
    run.done("f/[1]/a");
    run.done("f/[2]/a");
    assert_eq!(run.running(), ["f/[3]/a"]);
    run.done("f/[3]/a");
    assert_eq!(run.running(), ["f/[4]/a"]);
}

#[test]
fn set_join_may_end_a_running_controller_at_once() {
    let mut run = run(r#"<PARFOR NAME="f" TO="4"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>"#);
    run.done("f/[1]/a");
    run.set("f", "JOIN", "2");
    assert_eq!(run.stopping().len(), 0);
    run.set("f", "JOIN", "1");
    assert_eq!(run.stopping(), ["f/[2]/a", "f/[3]/a", "f/[4]/a"]);
}

#[test]
fn set_replaces_the_exit_condition_of_a_running_controller() {
    let text = r#"<PARFOR NAME="f" TO="4" EXIT_CONDITION="completed == 1">
        <OUT_PARAMETER TYPE="int" NAME="limit" DEFAULT="2"/>
        <ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>"#;
    let mut run = run(text);
    run.set("f", "EXIT_CONDITION", "completed >= limit");
    run.done("f/[1]/a");
    assert_eq!(run.stopping().len(), 0);
    run.crash();
    run.done("f/[2]/a");
    assert_eq!(run.stopping(), ["f/[3]/a", "f/[4]/a"]);
}

#[test]
fn a_rejected_set_names_the_reason() {
    let text = body(
        r#"<ACTIVITY TYPE="Do" NAME="x"/>
        <PAR NAME="p"><PARFOR NAME="f" EACH="${ {1} }"><ITERATE><ACTIVITY TYPE="Take" NAME="a" n="1"/></ITERATE>
        </PARFOR>
          <FOR NAME="g" TO="2"><ITERATE><ACTIVITY TYPE="Do" NAME="b"/></ITERATE></FOR>
          <ACTIVITY TYPE="Do" NAME="d"/><ACTIVITY TYPE="Use" NAME="u" AFTER="d" set="${(nil)}"/>
          <BLOCK NAME="c" RETRIES="1" RETRY_DELAY="1h"><ACTIVITY TYPE="Do" NAME="e"/></BLOCK></PAR>
        <ACTIVITY TYPE="Take" NAME="z" n="1"/>"#,
    );
    let mut run = setup(&text).run();
    run.done("x");
    run.fail("p/c/e");
    for (path, key, value, expected) in [
        ("z", "m", "1", r#"P/z has no IN parameter "m""#),
        ("z", "n", "one", r#"n: expected int, got "one""#),
        ("x", "n", "1", "P/x has begun: its parameters can no longer be set"),
        ("p/u", "set", "{}", "set: a RemoteSet has no literal: code creates it with RemoteSet.new()"),
        ("p/f/[1]/a", "n", "1", "P/p/f/[1]/a has begun: its parameters can no longer be set"),
        ("p/f", "TO", "5", "P/p/f has no TO: it does not count"),
        ("p", "TO", "5", "P/p is not a loop"),
        ("p/g", "TO", "many", r#"TO: expected int, got "many""#),
        ("p/g", "JOIN", "1", "P/p/g is not a parallel controller"),
        ("p/f", "JOIN", "0", "JOIN must be at least 1, got 0"),
        ("p/f", "MAX_PARALLEL", "-1", "MAX_PARALLEL must be at least 1, got -1"),
        ("p/c", "JOIN", "1", "P/p/c is not running"),
        ("p/f", "FROM", "1", "P/p/f has begun: TO, MAX_PARALLEL, JOIN and EXIT_CONDITION can be set, \"FROM\" cannot"),
        ("p/h", "n", "1", r#"P/p has no element "h""#),
        ("p/f/[2]", "n", "1", "P/p/f has no iteration [2] now"),
    ] {
        let message = run.refused(path, set(key, value));
        assert!(message.starts_with(expected), "{path} {key}={value}: {message}");
    }
    for (condition, expected) in
        [("1 +", "EXIT_CONDITION: "), ("nobody > 1", r#"EXIT_CONDITION: there is no "nobody" here"#)]
    {
        let message = run.refused("p/f", set("EXIT_CONDITION", condition));
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn an_element_that_never_begins_cannot_be_set() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Take" NAME="b" AFTER="a" n="1"/>
        <ACTIVITY TYPE="Do" NAME="c"/></PAR>
        <ACTIVITY TYPE="Take" NAME="z" n="1"/>"#);
    run.cancel("p/a");
    run.stopped("p/a");
    assert_eq!(run.refused("p/b", set("n", "2")), "P/p/b will never begin");
    run.cancel("");
    assert_eq!(run.refused("z", set("n", "2")), "P/z will never begin");
}

#[test]
fn a_delegated_element_is_set_on_its_coordinator() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PARFOR NAME="f" TO="3" DELEGATE="always"><ITERATE>
            <ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR></BODY></PROCESS_TYPE>"#,
    );
    let mut run = setup(&text).delegations(1).run();
    let (element, attempt) = run.attempt("f");
    assert_eq!(run.try_steer("f", set("TO", "5")), Err(Rejection::Delegated { element, attempt }));
}
