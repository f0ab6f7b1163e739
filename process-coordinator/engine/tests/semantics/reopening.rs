//! Reopened processes: they go on, and what completed stays completed.

use xavantes_engine::{Action, Answer, Event, Outcome};
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedKind, SharedRef, Value};

use crate::harness::{Run, body, document, run, setup};

/// The number of attempts that the engine handed out.
fn attempts(run: &Run) -> usize {
    run.count(|event| matches!(event, Event::Sent { .. }))
}

#[test]
fn a_sequence_goes_on_with_the_element_that_failed() {
    let mut run = run(r#"<ACTIVITY TYPE="Give" NAME="a"/>
        <BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="c"/><ACTIVITY TYPE="Take" NAME="d" n="${a.value}"/></BLOCK>
        <ACTIVITY TYPE="Do" NAME="e"/><POST_CODE>result = {a.value}</POST_CODE>"#);
    run.give("a", 7);
    run.done("b/c");
    run.fail("b/d");
    assert_eq!(run.failure().path, "P/b/d");
    run.reopen("");
    assert_eq!(run.running(), ["b/d"]);
    assert_eq!(run.parameters("b/d"), [Value::Int(7)]);
    // A second failure, named by its path, and a crash in between.
    run.fail("b/d");
    run.crash();
    run.reopen("b/d");
    run.crash();
    run.done("b/d");
    run.done("e");
    assert_eq!(run.result(), "[7]");
    assert_eq!(attempts(&run), 6);
    let counts = run.engine.state().counts();
    assert_eq!((counts.completed, counts.failed, run.engine.state().reopened()), (4, 0, 2));
}

#[test]
fn a_parallel_loop_goes_on_with_what_failed_and_what_was_cancelled_because_of_it() {
    let mut run = run(r#"<PARFOR NAME="f" TO="6" MAX_PARALLEL="4" COLLECT="a.value"><ITERATE>
        <ACTIVITY TYPE="Give" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/></ITERATE></PARFOR>
        <POST_CODE>result = {f.results, f.completed, f.failed, f.cancelled}</POST_CODE>"#);
    run.give("f/[1]/a", 10);
    run.done("f/[1]/b");
    run.give("f/[2]/a", 20);
    run.fail("f/[3]/a");
    for path in ["f/[2]/b", "f/[4]/a", "f/[5]/a"] {
        run.stopped(path);
    }
    run.failure();
    run.reopen("f/[3]");
    assert_eq!(run.running(), ["f/[2]/b", "f/[3]/a", "f/[4]/a", "f/[5]/a"]);
    run.done("f/[2]/b");
    for counter in 3..=6 {
        run.give(&format!("f/[{counter}]/a"), counter * 10);
        run.done(&format!("f/[{counter}]/b"));
    }
    assert_eq!(run.result(), "[[10,20,30,40,50,60],6,0,0]");
}

#[test]
fn elements_of_a_par_wait_for_reopened_ones() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b" AFTER="a"/>
        <ACTIVITY TYPE="Do" NAME="c" AFTER="b"/><ACTIVITY TYPE="Do" NAME="d"/><ACTIVITY TYPE="Do" NAME="e" AFTER="a d"/>
        <ACTIVITY TYPE="Do" NAME="x"/><ACTIVITY TYPE="Do" NAME="y" AFTER="x"/></PAR>
        <POST_CODE>result = {p.completed, p.failed, p.cancelled}</POST_CODE>"#);
    run.cancel("p/x");
    run.stopped("p/x");
    run.done("p/a");
    run.fail("p/d");
    run.stopped("p/b");
    run.failure();
    run.reopen("");
    // The user had cancelled x, and with it y.
    assert_eq!(run.running(), ["p/b", "p/d"]);
    run.done("p/d");
    assert_eq!(run.running(), ["p/b", "p/e"]);
    run.done("p/b");
    run.done("p/c");
    run.done("p/e");
    assert_eq!(run.result(), "[5,0,2]");
}

#[test]
fn post_code_that_failed_runs_again_without_the_body() {
    let mut run = run(r#"<ACTIVITY TYPE="Give" NAME="a"/>
        <PARFOR NAME="f" TO="3" JOIN="1"><ITERATE><ACTIVITY TYPE="Give" NAME="b"/></ITERATE>
        <POST_CODE>error("no")</POST_CODE></PARFOR>"#);
    run.give("a", 1);
    run.give("f/[2]/b", 2);
    run.stopped("f/[1]/b");
    run.stopped("f/[3]/b");
    assert_eq!(run.failure().path, "P/f");
    let before = attempts(&run);
    run.reopen("f");
    assert_eq!(run.failure().path, "P/f");
    assert_eq!(attempts(&run), before, "no activity ran again");
}

#[test]
fn pre_code_that_ran_does_not_run_again() {
    let pre_code = "<PRE_CODE>local n = 1</PRE_CODE>";
    let prepared = |run: &Run| run.count(|event| matches!(event, Event::Prepared { .. }));
    for (tag, attributes, content) in [
        ("BLOCK", "", ""),
        ("SWITCH", "", r#"<CASE CONDITION="false"><ACTIVITY TYPE="Do" NAME="a"/></CASE>"#),
        ("PARSWITCH", "", r#"<CASE CONDITION="false"><ACTIVITY TYPE="Do" NAME="a"/></CASE>"#),
        ("WHILE", r#"CONDITION="false""#, r#"<ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>"#),
        ("FOR", r#"TO="0""#, r#"<ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>"#),
        // The bounds cannot be evaluated.
        ("FOR", r#"TO="${error('no')}""#, r#"<ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>"#),
    ] {
        let post_code = r#"<POST_CODE>error("no")</POST_CODE>"#;
        let mut run = run(&format!(r#"<{tag} NAME="e" {attributes}>{pre_code}{content}{post_code}</{tag}>"#));
        for _ in 0..3 {
            assert_eq!(run.failure().path, "P/e", "{tag} {attributes}");
            assert_eq!(prepared(&run), 1, "{tag} {attributes}");
            run.reopen("");
        }
    }
    let block = format!(r#"<BLOCK NAME="e">{pre_code}<ACTIVITY TYPE="Do" NAME="a"/></BLOCK>"#);
    let mut waits = setup(&body(&block)).capacity(0).run();
    waits.cancel("");
    waits.cancelled();
    waits.reopen("");
    assert_eq!(prepared(&waits), 1, "it waited for capacity");
}

#[test]
fn finally_that_failed_runs_again_alone() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/>
        <FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK>"#);
    run.done("b/a");
    run.fail("b/finally/f");
    run.reopen("");
    assert_eq!(run.running(), ["b/finally/f"]);
    run.done("b/finally/f");
    run.completed();
}

#[test]
fn handlers_run_again_when_their_element_ends_again() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="c"/>
        <CATCH><ACTIVITY TYPE="Do" NAME="h"/></CATCH>
        <FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK>"#);
    run.done("b/a");
    run.fail("b/c");
    run.fail("b/catch/h");
    run.done("b/finally/f");
    run.failure();
    run.reopen("");
    assert_eq!(run.running(), ["b/c"]);
    run.fail("b/c");
    run.done("b/catch/h");
    run.done("b/finally/f");
    run.completed();
}

#[test]
fn elements_whose_failure_was_ignored_stay_failed() {
    let mut run =
        run(r#"<PARFOR NAME="f" TO="2"><ITERATE ON_FAILURE="continue"><ACTIVITY TYPE="Do" NAME="a"/></ITERATE>
        </PARFOR><ACTIVITY TYPE="Do" NAME="b"/><POST_CODE>result = {f.completed, f.failed}</POST_CODE>"#);
    run.fail("f/[1]/a");
    run.done("f/[2]/a");
    run.fail("b");
    assert_eq!(
        run.not_reopened("f/[1]"),
        "P/f did not fail, or the process went on without it; `retry P` goes on with everything that failed or was \
         cancelled"
    );
    run.reopen("b");
    run.done("b");
    assert_eq!(run.result(), "[1,1]");
}

#[test]
fn a_cancelled_process_goes_on_where_it_was() {
    let mut run = run(r#"<WHILE NAME="w" CONDITION="n &lt; 2"><IN_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
        <ITERATE><SWITCH NAME="s"><DEFAULT><ACTIVITY TYPE="Give" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/></DEFAULT></SWITCH>
        <POST_CODE>n = n + 1</POST_CODE></ITERATE></WHILE>"#);
    run.give("w/[1]/s/default/a", 1);
    run.cancel("");
    run.stopped("w/[1]/s/default/b");
    run.cancelled();
    run.reopen("w/[1]/s/default/b");
    run.done("w/[1]/s/default/b");
    run.give("w/[2]/s/default/a", 1);
    run.done("w/[2]/s/default/b");
    run.completed();
}

#[test]
fn a_reopened_element_has_all_its_retries_and_time_again() {
    let mut run = run(r#"<BLOCK NAME="t" TIMEOUT="10s"><ACTIVITY TYPE="Do" NAME="a" RETRIES="1"/></BLOCK>"#);
    run.fail("t/a");
    run.fail("t/a");
    run.failure();
    run.advance(60_000);
    run.reopen("");
    run.fail("t/a");
    run.advance(9_000);
    assert_eq!(run.running(), ["t/a"]);
    run.advance(2_000);
    run.stopped("t/a");
    assert!(run.failure().message.contains("TIMEOUT"));
    run.reopen("t");
    run.done("t/a");
    run.completed();
}

#[test]
fn parameters_that_code_set_are_still_set() {
    let mut run = run(r#"<PARFOR NAME="f" TO="2"><ITERATE><PRE_CODE>t.n = counter * 10</PRE_CODE>
        <ACTIVITY TYPE="Take" NAME="t" RETRIES="1"/></ITERATE></PARFOR>"#);
    run.fail("f/[1]/t");
    run.fail("f/[1]/t");
    run.stopped("f/[2]/t");
    run.reopen("");
    assert_eq!([run.parameters("f/[1]/t"), run.parameters("f/[2]/t")], [[Value::Int(10)], [Value::Int(20)]]);
}

#[test]
fn shared_objects_are_kept() {
    let mut run = run(r#"<BLOCK NAME="b"><PRE_CODE>use.set = RemoteSet.new()</PRE_CODE>
        <ACTIVITY TYPE="Use" NAME="use"/></BLOCK>"#);
    let set = || SharedRef { kind: SharedKind::Set, home: "P".into(), id: 0 };
    assert_eq!(run.call("b/use", 1, set(), Method::Add, vec![1.into()]), Ok(Ok(Value::Bool(true))));
    run.fail("b/use");
    run.failure();
    run.reopen("");
    assert_eq!(run.call("b/use", 1, set(), Method::Add, vec![1.into()]), Ok(Ok(Value::Bool(false))));
    run.done("b/use");
    run.completed();
    assert_eq!(run.engine.state().shared_objects(), 0);
}

#[test]
fn a_delegated_subtree_that_failed_is_delegated_again() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><PAR NAME="p" DELEGATE="never"><PROCESS TYPE="Sub" NAME="s" DELEGATE="always"/>
        <PROCESS TYPE="Sub" NAME="t" DELEGATE="always"/></PAR></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><BODY><ACTIVITY TYPE="Do" NAME="a"/></BODY></PROCESS_TYPE>"#,
    );
    let mut run = setup(&text).delegations(9).run();
    let before = run.attempt("p/s");
    run.fail("p/s");
    run.stopped("p/t");
    run.reopen("");
    assert_eq!(run.running(), ["p/s", "p/t"]);
    assert_ne!(run.attempt("p/s"), before);
    run.answer("p/s", Answer::Completed(Vec::new()));
    run.answer("p/t", Answer::Completed(Vec::new()));
    run.completed();
}

#[test]
fn an_element_in_which_nothing_had_begun_begins_anew() {
    let mut run = run(r#"<ACTIVITY TYPE="Give" NAME="a"/>
        <BLOCK NAME="b" n="${a.value + 'x'}"><IN_PARAMETER TYPE="int" NAME="n"/><ACTIVITY TYPE="Do" NAME="c"/></BLOCK>
        "#);
    run.give("a", 1);
    let failure = run.failure();
    run.reopen("");
    assert_eq!(run.failure(), failure);
    assert_eq!(attempts(&run), 1);
}

#[test]
fn only_an_ended_process_that_did_not_complete_is_reopened() {
    let mut failed = run(r#"<ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>"#);
    failed.done("a");
    assert_eq!(failed.not_reopened(""), "P has not ended");
    failed.fail("b");
    for action in [Action::Resume, Action::Retry] {
        assert_eq!(failed.refused("", action), "the process has ended");
    }
    assert!(failed.not_reopened("a").starts_with("P/a did not fail"));
    assert!(failed.not_reopened("nonsense").starts_with("P/nonsense did not fail"));
    let mut completed = run(r#"<ACTIVITY TYPE="Do" NAME="a"/>"#);
    completed.done("a");
    assert_eq!(completed.not_reopened(""), "P completed: there is nothing to retry");
    assert_eq!(completed.outcome(), Outcome::Completed);
}

#[test]
fn a_caught_failure_stays_caught_when_finally_runs_again() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="a"/><CATCH/>
        <FINALLY><ACTIVITY TYPE="Do" NAME="f"/></FINALLY></BLOCK>"#);
    run.fail("b/a");
    run.fail("b/finally/f");
    run.reopen("");
    assert_eq!(run.running(), ["b/finally/f"]);
    run.done("b/finally/f");
    run.completed();
}

#[test]
fn a_caught_failure_leaves_nothing_behind() {
    let mut run = run(r#"<BLOCK NAME="b"><BLOCK NAME="c"><PRE_CODE>RemoteSet.new()</PRE_CODE>
        <ACTIVITY TYPE="Do" NAME="a"/></BLOCK><CATCH/></BLOCK><ACTIVITY TYPE="Do" NAME="d"/>"#);
    let before = run.engine.state().bytes();
    run.fail("b/c/a");
    assert_eq!(run.engine.state().shared_objects(), 0);
    assert!(run.engine.state().bytes() < before);
    run.done("d");
    run.completed();
}
