//! Parameters and results of processes, elements and types.

use crate::harness::{document, run, setup};
use xavantes_engine::{Answer, Event, FailureKind};
use xavantes_model::value::Value;

const TYPED: &str = r#"<PROCESS_TYPE NAME="Main"><IN_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="string" NAME="text" DEFAULT="none"/><IN_PARAMETER TYPE="float" NAME="maybe" OPTIONAL="true"/>
    <INOUT_PARAMETER TYPE="int" NAME="both" DEFAULT="1"/><OUT_PARAMETER TYPE="list" NAME="result"/>
    <BODY><PRE_CODE>result = {n, text, maybe == nil and "nothing" or maybe} both = both + 1</PRE_CODE></BODY>
    </PROCESS_TYPE>"#;

#[test]
fn a_process_starts_with_its_parameters_or_their_defaults() {
    let given = setup(&document(TYPED)).with("n", 3).with("text", "x").with("maybe", 2).with("both", 9).run();
    assert_eq!((given.result(), given.results("both")), (r#"[3,"x",2]"#.into(), "10".into()));
    let least = setup(&document(TYPED)).with("n", Value::Float(3.0)).run();
    assert_eq!((least.result(), least.results("both")), (r#"[3,"none","nothing"]"#.into(), "2".into()));
}

#[test]
fn all_wrong_parameters_of_a_process_are_reported_and_nothing_starts() {
    let problems = setup(&document(TYPED)).with("text", 5).with("nn", 1).with("result", 1).refusal();
    assert_eq!(
        problems,
        [
            r#"Main has no IN parameter "nn""#,
            r#"Main has no IN parameter "result""#,
            r#"parameter "n" is missing"#,
            r#"parameter "text": expected string, got int 5"#,
        ]
    );
    let problems = setup(&document(TYPED)).with("n", 5).with("n", 6).refusal();
    assert_eq!(problems, [r#"parameter "n" is given twice"#]);
}

#[test]
fn a_missing_or_wrong_parameter_fails_an_element_before_it_runs() {
    for (value, message) in [
        ("nil", r#"parameter "n" is missing"#),
        ("'x' .. 'y'", r#"parameter "n": expected int, got string "xy""#),
        ("1 / 2", r#"parameter "n": expected int, got 0.5"#),
    ] {
        for element in [
            format!(r#"<ACTIVITY TYPE="Take" NAME="e" RETRIES="3" n="${{({value})}}"/>"#),
            format!(
                r#"<BLOCK NAME="e" RETRIES="3" n="${{({value})}}"><IN_PARAMETER TYPE="int" NAME="n"/>
                <PRE_CODE>error("it ran")</PRE_CODE><CATCH/><FINALLY/></BLOCK>"#
            ),
            format!(r#"<PROCESS TYPE="Sub" NAME="e" RETRIES="3" n="${{({value})}}"/>"#),
        ] {
            let text = document(&format!(
                r#"<PROCESS_TYPE NAME="Main"><BODY>
{element}</BODY></PROCESS_TYPE>
                <PROCESS_TYPE NAME="Sub"><IN_PARAMETER TYPE="int" NAME="n"/><BODY><PRE_CODE>error("it ran")</PRE_CODE>
                </BODY></PROCESS_TYPE>"#
            ));
            let run = setup(&text).run();
            let failure = run.failure();
            assert_eq!(
                (failure.kind, &*failure.path, failure.line),
                (FailureKind::Parameter, "P/e", Some(2)),
                "{element}"
            );
            assert_eq!(failure.message, message);
            assert_eq!(
                run.count(|event| matches!(event, Event::Waiting { .. })),
                0,
                "a retry would fail in the same way"
            );
        }
    }
}

#[test]
fn a_failing_expression_fails_its_element_and_is_retried() {
    let run = run(r#"<ACTIVITY TYPE="Take" NAME="e" RETRIES="2" n="${nil + 1}"/>"#);
    assert_eq!((run.failure().kind, &*run.failure().path), (FailureKind::Code, "P/e"));
    assert_eq!(run.count(|event| matches!(event, Event::Waiting { .. })), 2);
}

#[test]
fn a_parameter_set_by_code_overrides_its_attribute() {
    let text = |code: &str| format!(r#"<PRE_CODE>{code}</PRE_CODE><ACTIVITY TYPE="Take" NAME="e" n="1"/>"#);
    assert_eq!(run(&text("")).parameters("e"), [1.into()]);
    assert_eq!(run(&text("e.n = 2")).parameters("e"), [2.into()]);
    assert_eq!(run(&text("e.n = nil")).parameters("e"), [1.into()]);
}

#[test]
fn attributes_are_evaluated_when_the_element_starts() {
    let mut run = run(r#"<ACTIVITY TYPE="Give" NAME="a"/><ACTIVITY TYPE="Take" NAME="b" n="${a.value + 1}"/>"#);
    run.give("a", 4);
    assert_eq!(run.parameters("b"), [5.into()]);
}

#[test]
fn values_are_converted_without_loss() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><BODY><ACTIVITY TYPE="T" NAME="t" f="${2}" i="${4 / 2}" b="${'x'}"/></BODY>
            </PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="T"><IN_PARAMETER TYPE="float" NAME="f"/><IN_PARAMETER TYPE="int" NAME="i"/>
        <IN_PARAMETER TYPE="bytes" NAME="b"/><CODE LANGUAGE="lua">local nothing</CODE></ACTIVITY_TYPE>"#,
    );
    assert_eq!(setup(&text).run().parameters("t"), [Value::Float(2.0), 2.into(), Value::Bytes((*b"x").into())]);
}

#[test]
fn a_missing_or_wrong_result_fails_an_activity() {
    for (answer, message) in [
        (vec![], "expected 1 results, got 0"),
        (vec![1.into(), 2.into()], "expected 1 results, got 2"),
        (vec![Value::Null], r#"OUT parameter "value" has no value at the end"#),
        (vec!["x".into()], r#"OUT parameter "value": expected int, got string "x""#),
    ] {
        let mut run = run(r#"<ACTIVITY TYPE="Give" NAME="a" RETRIES="2"/>"#);
        run.answer("a", Answer::Completed(answer));
        let failure = run.failure();
        assert_eq!((failure.kind, &*failure.path, &*failure.message), (FailureKind::Parameter, "P/a", message));
    }
}

#[test]
fn results_of_activities_have_defaults_and_may_be_optional() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="list" NAME="result"/><BODY><ACTIVITY TYPE="T" NAME="t"/>
        <POST_CODE>result = {t.a, t.b == nil}</POST_CODE></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="T"><OUT_PARAMETER TYPE="int" NAME="a" DEFAULT="7"/>
        <OUT_PARAMETER TYPE="int" NAME="b" OPTIONAL="true"/><CODE LANGUAGE="lua">a = nil</CODE></ACTIVITY_TYPE>"#,
    );
    let mut run = setup(&text).run();
    run.answer("t", Answer::Completed(vec![Value::Null, Value::Null]));
    assert_eq!(run.result(), "[7,true]");
}

#[test]
fn an_out_parameter_without_a_value_at_the_end_is_a_failure() {
    let failure =
        run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n"/><PRE_CODE>n = nil</PRE_CODE></BLOCK>"#).failure();
    assert_eq!((failure.kind, &*failure.path), (FailureKind::Parameter, "P/b"));
    assert_eq!(failure.message, r#"OUT parameter "n" has no value at the end"#);
    run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n" OPTIONAL="true"/></BLOCK>"#).completed();
    run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n" DEFAULT="1"/></BLOCK>"#).completed();
}

#[test]
fn an_assignment_of_a_wrong_type_fails_the_element() {
    let failure = run(r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="n"/><PRE_CODE>n = "a" .. 1</PRE_CODE>
        </BLOCK>"#)
    .failure();
    assert_eq!(
        (failure.kind, &*failure.path, &*failure.message),
        (FailureKind::Parameter, "P/b", r#"n: expected int, got string "a1""#)
    );
    let failure = run(r#"<PRE_CODE>e.n = "a" .. 1</PRE_CODE><ACTIVITY TYPE="Take" NAME="e"/>"#).failure();
    assert_eq!((&*failure.path, &*failure.message), ("P", r#"e.n: expected int, got string "a1""#));
}

#[test]
fn a_called_type_has_its_own_copy_of_its_parameters() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="list" NAME="result"/><BODY>
        <OUT_PARAMETER TYPE="int" NAME="n"/><PRE_CODE>n = 1</PRE_CODE><PROCESS TYPE="Sub" NAME="s" n="${n}" m="5"/>
        <POST_CODE>result = {n, s.n, s.m, s.out}</POST_CODE></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><IN_PARAMETER TYPE="int" NAME="n"/><INOUT_PARAMETER TYPE="int" NAME="m"/>
        <OUT_PARAMETER TYPE="int" NAME="out"/><BODY><PRE_CODE>n = n + 1 m = m + 1 out = n * 10</PRE_CODE></BODY>
        </PROCESS_TYPE>"#,
    );
    assert_eq!(setup(&text).run().result(), "[1,2,6,20]");
}

#[test]
fn variables_of_a_body_begin_with_their_defaults_however_the_type_is_started() {
    for parameters in ["", r#"<IN_PARAMETER TYPE="int" NAME="x" OPTIONAL="true"/>"#] {
        let text = document(&format!(
            r#"<PROCESS_TYPE NAME="Main"><BODY><PROCESS TYPE="Sub" NAME="s"/></BODY></PROCESS_TYPE>
            <PROCESS_TYPE NAME="Sub">{parameters}<BODY><IN_PARAMETER TYPE="int" NAME="n" DEFAULT="3"/>
            <ACTIVITY TYPE="Take" NAME="t" n="${{n}}"/></BODY></PROCESS_TYPE>"#
        ));
        assert_eq!(setup(&text).run().parameters("s/t"), [3.into()]);
        assert_eq!(setup(&text.replace("Main", "Other").replace("Sub", "Main")).run().parameters("t"), [3.into()]);
    }
}
