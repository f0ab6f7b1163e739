//! Shared objects: calls take effect once, and objects live as long as code can reach them.

use crate::harness::{Run, document, run, setup};
use xavantes_engine::{Answer, Input, Rejection, SharedCall};
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedKind, SharedRef, Value};

fn object(kind: SharedKind, id: u64) -> SharedRef {
    SharedRef { kind, home: "P".into(), id }
}

fn set() -> SharedRef {
    object(SharedKind::Set, 0)
}

fn one() -> Run {
    run(r#"<OUT_PARAMETER TYPE="RemoteSet" NAME="s"/><PRE_CODE>s = RemoteSet.new()</PRE_CODE>
        <ACTIVITY TYPE="Use" NAME="a" set="${s}" RETRIES="1"/><POST_CODE>result = s:values()</POST_CODE>"#)
}

#[test]
fn a_call_is_answered_and_its_effect_stays() {
    let mut run = one();
    assert_eq!(run.call("a", 1, set(), Method::Add, vec![5.into()]), Ok(Ok(Value::Bool(true))));
    assert_eq!(run.call("a", 2, set(), Method::Add, vec![5.into()]), Ok(Ok(Value::Bool(false))));
    assert_eq!(
        run.call("a", 0, set(), Method::Size, vec![]),
        Ok(Ok(1.into())),
        "calls that only read are not numbered"
    );
    run.done("a");
    assert_eq!(run.result(), "[5]");
}

#[test]
fn a_repeated_call_is_answered_again_and_has_no_effect_again() {
    let mut run = one();
    assert_eq!(run.call("a", 1, set(), Method::Add, vec![5.into()]), Ok(Ok(Value::Bool(true))));
    let length = run.journal.len();
    assert_eq!(run.call("a", 1, set(), Method::Add, vec![5.into()]), Ok(Ok(Value::Bool(true))));
    assert_eq!(run.journal.len(), length);
    run.crash();
    assert_eq!(run.call("a", 1, set(), Method::Add, vec![5.into()]), Ok(Ok(Value::Bool(true))), "also after a crash");
    assert_eq!(run.call("a", 2, set(), Method::Remove, vec![9.into()]), Ok(Ok(Value::Bool(false))));
    let old = run.call("a", 1, set(), Method::Add, vec![5.into()]);
    assert_eq!(old, Err(Rejection::OldCall { sequence: 1 }), "call 2 acknowledged the answer");
}

#[test]
fn calls_are_accepted_only_in_order() {
    let mut run = one();
    assert_eq!(
        run.call("a", 2, set(), Method::Add, vec![1.into()]),
        Err(Rejection::CallGap { sequence: 2, expected: 1 })
    );
    assert_eq!(run.call("a", 0, set(), Method::Add, vec![1.into()]), Err(Rejection::OldCall { sequence: 0 }));
    assert_eq!(run.call("a", 1, set(), Method::Add, vec![1.into()]), Ok(Ok(Value::Bool(true))));
}

fn call(run: &mut Run, caller: u64, sequence: u64, acknowledged: u64) -> Result<(), Rejection> {
    let (element, attempt) = run.attempt("a");
    let arguments = vec![Value::Int(sequence as i64)];
    let call =
        SharedCall { element, attempt, caller, sequence, acknowledged, object: set(), method: Method::Add, arguments };
    run.step(Input::Called(Box::new(call)))
}

#[test]
fn each_caller_numbers_its_own_calls() {
    let mut run = one();
    assert_eq!(call(&mut run, 7, 1, 0), Ok(()));
    assert_eq!(call(&mut run, 8, 1, 0), Ok(()));
    assert_eq!(call(&mut run, 8, 3, 0), Err(Rejection::CallGap { sequence: 3, expected: 2 }));
}

#[test]
fn a_caller_may_not_run_far_ahead_of_its_acknowledgements() {
    let mut run = one();
    for sequence in 1..=1024 {
        assert_eq!(call(&mut run, 0, sequence, 0), Ok(()));
    }
    let message = call(&mut run, 0, 1025, 0).expect_err("too far ahead").to_string();
    assert_eq!(message, "more than 1024 answers are not acknowledged");
    assert_eq!(call(&mut run, 0, 1025, 1), Ok(()));
}

#[test]
fn calls_of_late_attempts_are_rejected() {
    let mut run = one();
    let (element, attempt) = run.attempt("a");
    let late = |attempt: u32| {
        let arguments = vec![Value::Int(1)];
        Input::Called(Box::new(SharedCall {
            element,
            attempt,
            caller: 0,
            sequence: 1,
            acknowledged: 0,
            object: set(),
            method: Method::Add,
            arguments,
        }))
    };
    run.answer("a", Answer::Lost);
    assert_eq!(run.step(late(attempt)), Err(Rejection::NotRunning { element, attempt }));
    assert_eq!(run.step(late(attempt + 1)), Ok(()), "the new attempt counts from 1");
    run.done("a");
    assert_eq!(run.step(late(attempt + 1)), Err(Rejection::NotRunning { element, attempt: attempt + 1 }));
}

#[test]
fn the_calls_of_a_lost_attempt_are_not_made_twice() {
    let mut run = one();
    let add = |run: &mut Run, sequence: u64, value: i64| {
        let answer = run.call("a", sequence, set(), Method::Add, vec![Value::Int(value)]);
        answer.expect("it is accepted").expect("it is answered")
    };
    assert_eq!((add(&mut run, 1, 10), add(&mut run, 2, 20)), (Value::Bool(true), Value::Bool(true)));
    run.answer("a", Answer::Lost);
    // The answers are the same as before: the value is new.
    assert_eq!(add(&mut run, 1, 10), Value::Bool(true));
    assert_eq!(add(&mut run, 1, 10), Value::Bool(true), "also if the call is sent again");
    // Lost once more, and this time the second call is another one, and the third a new one.
    run.answer("a", Answer::Lost);
    assert_eq!(add(&mut run, 1, 10), Value::Bool(true));
    assert_eq!(add(&mut run, 2, 10), Value::Bool(false));
    assert_eq!(add(&mut run, 3, 30), Value::Bool(true));
    let content = run.call("a", 3, set(), Method::Values, vec![]);
    assert_eq!(content, Ok(Ok(vec![Value::Int(10), Value::Int(20), Value::Int(30)].into())));
    run.done("a");
    assert_eq!(run.engine.state().shared_objects(), 0);
}

#[test]
fn a_new_try_makes_its_calls_anew() {
    let mut run = run(r#"<BLOCK NAME="k"><PRE_CODE>RemoteCounter.new()</PRE_CODE>
        <ACTIVITY TYPE="Do" NAME="a" RETRIES="1"/></BLOCK>"#);
    let add = |run: &mut Run| run.call("k/a", 1, object(SharedKind::Counter, 0), Method::Add, vec![]);
    assert_eq!(add(&mut run), Ok(Ok(Value::Int(1))));
    run.fail("k/a");
    assert_eq!(add(&mut run), Ok(Ok(Value::Int(2))));
}

#[test]
fn a_wrong_call_is_answered_with_the_problem() {
    let mut run = one();
    for (object, method, arguments, message) in [
        (SharedRef { home: "Q".into(), ..set() }, Method::Size, vec![], "this RemoteSet belongs to another process"),
        (set(), Method::Pop, vec![], "a RemoteSet has no method Pop"),
        (set(), Method::Add, vec![], "RemoteSet:add takes 1 arguments, got 0"),
        (set(), Method::Size, vec![1.into()], "RemoteSet:size takes 0 arguments, got 1"),
        (object(SharedKind::Set, 9), Method::Size, vec![], "the shared object no longer exists"),
        (object(SharedKind::Set, u64::MAX), Method::Size, vec![], "the shared object no longer exists"),
    ] {
        assert_eq!(run.call("a", 1, object, method, arguments), Ok(Err(message.into())));
    }
    let nothing = run.call("a", 1, set(), Method::Add, vec![Value::Null]);
    assert_eq!(nothing, Ok(Err("a shared object cannot hold nil".into())));
    let held = run.call("a", 2, set(), Method::Add, vec![Value::Shared(set())]);
    assert_eq!(held, Ok(Err("a shared object cannot hold another shared object".into())));
}

#[test]
fn objects_end_with_the_scope_that_created_them() {
    let mut run = run(r#"<FOR NAME="f" TO="3"><ITERATE><PRE_CODE>RemoteSet.new() RemoteCounter.new()</PRE_CODE>
        <ACTIVITY TYPE="Do" NAME="a"/></ITERATE></FOR>
        <ACTIVITY TYPE="Do" NAME="b"/>"#);
    for counter in 1..=3 {
        assert_eq!(run.engine.state().shared_objects(), 2);
        run.done(&format!("f/[{counter}]/a"));
    }
    assert_eq!(run.engine.state().shared_objects(), 0);
    run.done("b");
    run.completed();
}

#[test]
fn objects_handed_up_by_an_out_parameter_live_on() {
    let mut run = run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="RemoteSet" NAME="s"/>
          <BLOCK NAME="c"><OUT_PARAMETER TYPE="RemoteSet" NAME="s"/>
          <PRE_CODE>s = RemoteSet.new() RemoteMap.new()</PRE_CODE></BLOCK>
          <POST_CODE>s = c.s s:add(1)</POST_CODE></BLOCK>
        <ACTIVITY TYPE="Use" NAME="a" set="${b.s}"/><POST_CODE>result = b.s:values()</POST_CODE>"#);
    assert_eq!(run.engine.state().shared_objects(), 1);
    assert_eq!(run.call("a", 1, set(), Method::Add, vec![2.into()]), Ok(Ok(Value::Bool(true))));
    run.done("a");
    assert_eq!(run.result(), "[1,2]");
}

#[test]
fn objects_in_lists_and_maps_are_handed_up_too() {
    let run = run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="map" NAME="m"/>
        <PRE_CODE>m = {deep = {RemoteCounter.new()}} m.deep[1]:add(4)</PRE_CODE></BLOCK>
        <POST_CODE>result = {b.m.deep[1]:get()}</POST_CODE>"#);
    assert_eq!(run.result(), "[4]");
}

#[test]
fn collected_objects_live_as_long_as_the_results() {
    let mut run = run(r#"<PARFOR NAME="f" TO="2" COLLECT="s"><ITERATE><OUT_PARAMETER TYPE="RemoteSet" NAME="s"/>
          <PRE_CODE>s = RemoteSet.new() s:add(counter)</PRE_CODE></ITERATE></PARFOR>
        <ACTIVITY TYPE="Do" NAME="a"/><POST_CODE>result = {f.results[1]:values(), f.results[2]:values()}</POST_CODE>"#);
    assert_eq!(run.engine.state().shared_objects(), 2);
    run.done("a");
    assert_eq!(run.result(), "[[1],[2]]");
}

#[test]
fn an_object_assigned_to_a_variable_of_the_loop_belongs_to_the_loop() {
    for code in [
        r#"<PRE_CODE>if counter == 1 then s = RemoteSet.new() end s:add(counter)</PRE_CODE>"#,
        r#"<IN_PARAMETER TYPE="RemoteSet" NAME="mine" OPTIONAL="true"/><PRE_CODE>mine = RemoteSet.new()</PRE_CODE>
           <POST_CODE>if counter == 1 then s = mine end s:add(counter)</POST_CODE>"#,
        r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="RemoteSet" NAME="t"/><PRE_CODE>t = RemoteSet.new()</PRE_CODE></BLOCK>
           <POST_CODE>if counter == 1 then s = b.t end s:add(counter)</POST_CODE>"#,
    ] {
        let run = run(&format!(
            r#"<FOR NAME="f" TO="3"><OUT_PARAMETER TYPE="list" NAME="seen"/>
                <IN_PARAMETER TYPE="RemoteSet" NAME="s" OPTIONAL="true"/>
            <ITERATE>{code}</ITERATE><POST_CODE>seen = s:values()</POST_CODE></FOR>
            <POST_CODE>result = f.seen</POST_CODE>"#
        ));
        assert_eq!(run.result(), "[1,2,3]", "{code}");
    }
}

#[test]
fn objects_of_a_failed_try_end_and_its_changes_of_other_objects_stay() {
    let mut run = run(r#"<OUT_PARAMETER TYPE="RemoteSet" NAME="s"/><PRE_CODE>s = RemoteSet.new()</PRE_CODE>
        <BLOCK NAME="b" RETRIES="1"><OUT_PARAMETER TYPE="RemoteList" NAME="own"/>
        <PRE_CODE>own = RemoteList.new() own:append(1) s:add(own:size())</PRE_CODE>
          <ACTIVITY TYPE="Do" NAME="a"/></BLOCK><POST_CODE>result = {s:values(), b.own:size()}</POST_CODE>"#);
    assert_eq!(run.engine.state().shared_objects(), 2);
    run.fail("b/a");
    assert_eq!(run.engine.state().shared_objects(), 2);
    run.done("b/a");
    assert_eq!(run.result(), "[[1],1]");
}

#[test]
fn objects_of_a_failed_element_end() {
    let mut run = run(r#"<BLOCK NAME="b" ON_FAILURE="continue"><OUT_PARAMETER TYPE="RemoteSet" NAME="s"/>
        <PRE_CODE>s = RemoteSet.new()</PRE_CODE>
        <ACTIVITY TYPE="Do" NAME="a"/></BLOCK><ACTIVITY TYPE="Do" NAME="c"/>
        <POST_CODE>result = {b.s == nil}</POST_CODE>"#);
    run.fail("b/a");
    assert_eq!(run.engine.state().shared_objects(), 0);
    run.done("c");
    assert_eq!(run.result(), "[true]");
}

#[test]
fn expressions_may_read_shared_objects_but_not_change_them() {
    let text = |condition: &str| {
        format!(
            r#"<OUT_PARAMETER TYPE="RemoteSet" NAME="s"/><PRE_CODE>s = RemoteSet.new()</PRE_CODE>
            <SWITCH NAME="x"><CASE CONDITION="{condition}"/></SWITCH>"#
        )
    };
    run(&text("s:size() == 0")).completed();
    assert_eq!(run(&text("s:add(1)")).failure().message, "an expression may read shared objects, not change them");
}

#[test]
fn at_the_end_of_a_process_objects_become_plain_values() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="RemoteSet" NAME="s"/>
            <OUT_PARAMETER TYPE="RemoteMap" NAME="m"/>
        <OUT_PARAMETER TYPE="RemoteCounter" NAME="c"/><OUT_PARAMETER TYPE="list" NAME="l"/><BODY>
        <PRE_CODE>s, m, c = RemoteSet.new(), RemoteMap.new(), RemoteCounter.new()
        s:add(2) s:add(1) m:put(5, "x") c:add(3) l = {c}</PRE_CODE></BODY></PROCESS_TYPE>"#,
    );
    let run = setup(&text).run();
    assert_eq!(
        (run.results("s"), run.results("m"), run.results("c"), run.results("l")),
        ("[1,2]".into(), r#"{"5":"x"}"#.into(), "3".into(), "[3]".into())
    );
}
