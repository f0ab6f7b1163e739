//! `SWITCH`, `PARSWITCH`, `DEFAULT`.

use crate::harness::{document, run, setup};
use xavantes_engine::FailureKind;

fn switch(tag: &str, number: i64) -> Vec<String> {
    let text = document(&format!(
        r#"<PROCESS_TYPE NAME="Main"><IN_PARAMETER TYPE="int" NAME="n"/><BODY>
        <{tag} NAME="s"><CASE CONDITION="n &gt; 10"><ACTIVITY TYPE="Do" NAME="large"/></CASE>
        <CASE NAME="even" CONDITION="n % 2 == 0"><ACTIVITY TYPE="Do" NAME="two"/></CASE>
        <CASE><CONDITION>n % 3 == 0</CONDITION><ACTIVITY TYPE="Do" NAME="three"/></CASE>
        <DEFAULT><ACTIVITY TYPE="Do" NAME="other"/></DEFAULT></{tag}></BODY></PROCESS_TYPE>"#
    ));
    setup(&text).with("n", number).run().running()
}

#[test]
fn a_switch_runs_the_first_case_that_holds_or_default() {
    assert_eq!(switch("SWITCH", 12), ["s/case1/large"]);
    assert_eq!(switch("SWITCH", 6), ["s/even/two"]);
    assert_eq!(switch("SWITCH", 3), ["s/case3/three"]);
    assert_eq!(switch("SWITCH", 5), ["s/default/other"]);
}

#[test]
fn a_parswitch_runs_every_case_that_holds_or_default() {
    assert_eq!(switch("PARSWITCH", 12), ["s/case1/large", "s/case3/three", "s/even/two"]);
    assert_eq!(switch("PARSWITCH", 6), ["s/case3/three", "s/even/two"]);
    assert_eq!(switch("PARSWITCH", 5), ["s/default/other"]);
}

#[test]
fn without_a_case_that_holds_and_without_default_nothing_runs() {
    for tag in ["SWITCH", "PARSWITCH"] {
        let text = format!(
            r#"<{tag} NAME="s"><CASE CONDITION="false"><ACTIVITY TYPE="Do" NAME="a"/></CASE>
            <CASE CONDITION="nil"><ACTIVITY TYPE="Do" NAME="b"/></CASE></{tag}>"#
        );
        run(&text).completed();
    }
}

#[test]
fn every_value_but_false_and_nil_holds() {
    for value in ["0", "''", "{}", "true"] {
        let text =
            format!(r#"<SWITCH NAME="s"><CASE CONDITION="{value}"><ACTIVITY TYPE="Do" NAME="a"/></CASE></SWITCH>"#);
        assert_eq!(run(&text).running(), ["s/case1/a"], "{value}");
    }
}

#[test]
fn a_switch_does_not_evaluate_conditions_after_the_first_that_holds() {
    let text = r#"<SWITCH NAME="s"><CASE CONDITION="true"/><CASE CONDITION="error('looked')"/></SWITCH>"#;
    run(text).completed();
    let run = run(&text.replace("SWITCH", "PARSWITCH"));
    assert_eq!((run.failure().kind, run.failure().path), (FailureKind::Code, "P/s".into()));
}

#[test]
fn a_parswitch_evaluates_its_conditions_once() {
    let mut run = run(r#"<PARSWITCH NAME="s" MAX_PARALLEL="1"><INOUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
        <PRE_CODE>n = n + 1</PRE_CODE>
        <CASE CONDITION="n == 1"><ACTIVITY TYPE="Do" NAME="a"/></CASE>
        <CASE CONDITION="n == 1"><ACTIVITY TYPE="Do" NAME="b"/></CASE>
        <POST_CODE>n = completed</POST_CODE></PARSWITCH><POST_CODE>result = {s.n}</POST_CODE>"#);
    assert_eq!(run.running(), ["s/case1/a"]);
    run.done("s/case1/a");
    run.done("s/case2/b");
    assert_eq!(run.result(), "[2]");
}

#[test]
fn the_code_of_a_case_assigns_variables_of_its_switch() {
    let run = run(r#"<SWITCH NAME="s"><OUT_PARAMETER TYPE="int" NAME="n"/>
        <CASE CONDITION="true"><PRE_CODE>n = 1</PRE_CODE><POST_CODE>n = n + 1</POST_CODE></CASE>
        <POST_CODE>n = n * 10</POST_CODE></SWITCH><POST_CODE>result = {s.n}</POST_CODE>"#);
    assert_eq!(run.result(), "[20]");
}
