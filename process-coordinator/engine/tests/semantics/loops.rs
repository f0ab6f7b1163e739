//! `FOR`, `WHILE`, `PARAM_GRID`, `COLLECT`.

use crate::harness::{document, run, setup};
use xavantes_engine::FailureKind;

fn counted(attributes: &str) -> String {
    run(&format!(
        r#"<FOR NAME="f" {attributes} COLLECT="counter"><ITERATE/></FOR><POST_CODE>result = f.results</POST_CODE>"#
    ))
    .result()
}

#[test]
fn a_for_counts_from_its_first_to_its_last_number() {
    for (attributes, numbers) in [
        (r#"TO="3""#, "[1,2,3]"),
        (r#"FROM="0" TO="2""#, "[0,1,2]"),
        (r#"FROM="1" TO="6" STEP="2""#, "[1,3,5]"),
        (r#"FROM="3" TO="1" STEP="-1""#, "[3,2,1]"),
        (r#"FROM="5" TO="-2" STEP="-3""#, "[5,2,-1]"),
        (r#"FROM="4" TO="4""#, "[4]"),
        (r#"FROM="4" TO="4" STEP="-7""#, "[4]"),
        (r#"FROM="4" TO="3""#, "[]"),
        (r#"FROM="3" TO="4" STEP="-1""#, "[]"),
        (r#"FROM="${1 + 1}" TO="${2 * 2}" STEP="${1}""#, "[2,3,4]"),
        (r#"FROM="9223372036854775806" TO="9223372036854775807""#, "[9223372036854775806,9223372036854775807]"),
        (
            r#"FROM="9223372036854775807" TO="-9223372036854775808" STEP="-9223372036854775807""#,
            "[9223372036854775807,0,-9223372036854775807]",
        ),
        (r#"FROM="-9223372036854775808" TO="-9223372036854775808""#, "[-9223372036854775808]"),
    ] {
        assert_eq!(counted(attributes), numbers, "{attributes}");
    }
}

#[test]
fn a_for_over_all_integers_begins_with_its_first() {
    for (from, to, step) in
        [("-9223372036854775808", "9223372036854775807", "1"), ("9223372036854775807", "-9223372036854775808", "-1")]
    {
        let mut run = run(&format!(
            r#"<PARFOR NAME="f" FROM="{from}" TO="{to}" STEP="{step}" MAX_PARALLEL="1">
            <ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></PARFOR>"#
        ));
        assert_eq!(run.running(), [format!("f/[{from}]/a")]);
        run.done(&format!("f/[{from}]/a"));
        assert_eq!(run.running().len(), 1);
    }
}

#[test]
fn a_for_runs_one_iteration_after_the_other() {
    let mut run = run(r#"<FOR NAME="f" TO="2"><ITERATE><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></FOR>"#);
    assert_eq!(run.running(), ["f/[1]/a"]);
    run.done("f/[1]/a");
    assert_eq!(run.running(), ["f/[2]/a"]);
    run.done("f/[2]/a");
    run.completed();
}

#[test]
fn a_for_over_a_list_has_item_and_position() {
    let text = |list: &str| {
        format!(
            r#"<FOR NAME="f" EACH="${{ {list} }}" COLLECT="counter .. item"><ITERATE/></FOR>
            <POST_CODE>result = f.results</POST_CODE>"#
        )
    };
    assert_eq!(run(&text("{'a', 'b'}")).result(), r#"["1a","2b"]"#);
    assert_eq!(run(&text("{}")).result(), "[]");
}

#[test]
fn bounds_set_by_code_override_attributes() {
    for (code, attributes, numbers) in [
        ("f.counterEnd = 2", "", "[1,2]"),
        ("f.counterBegin, f.counterEnd, f.counterStep = 6, 2, -2", "", "[6,4,2]"),
        ("f.counterBegin = 2", r#"TO="3""#, "[2,3]"),
        ("f.counterEnd = 2", r#"TO="5""#, "[1,2]"),
        ("f.items = {7, 8}", "", "[1,2]"),
        ("f.items = {}", "", "[]"),
    ] {
        let text = format!(
            r#"<PRE_CODE>{code}</PRE_CODE><FOR NAME="f" {attributes} COLLECT="counter"><ITERATE/></FOR>
            <POST_CODE>result = f.results</POST_CODE>"#
        );
        assert_eq!(run(&text).result(), numbers, "{code} {attributes}");
    }
}

#[test]
fn pre_code_of_the_loop_runs_before_its_bounds_are_evaluated() {
    let run = run(r#"<FOR NAME="f" TO="${n}" COLLECT="counter"><INOUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
        <PRE_CODE>n = 2</PRE_CODE><ITERATE><PRE_CODE>n = n + 5</PRE_CODE></ITERATE></FOR>
        <POST_CODE>result = {f.n, #f.results}</POST_CODE>"#);
    assert_eq!(run.result(), "[12,2]");
}

#[test]
fn wrong_bounds_are_failures_of_kind_parameter() {
    for (attributes, code, message) in [
        (r#"TO="${1 / 2}""#, "", "TO: expected int"),
        (r#"TO="${'x' .. 1}""#, "", "TO: expected int"),
        (r#"TO="3" STEP="${1 - 1}""#, "", "STEP must not be 0"),
        ("", "f.counterEnd = nil", "no bound"),
        ("", "f.counterStep = 0 f.counterEnd = 3", "STEP must not be 0"),
    ] {
        let text = format!(r#"<PRE_CODE>{code}</PRE_CODE><FOR NAME="f" {attributes}><ITERATE/></FOR>"#);
        let failure = run(&text).failure();
        assert_eq!((failure.kind, &*failure.path), (FailureKind::Parameter, "P/f"), "{attributes} {code}");
        assert!(failure.message.contains(message), "{}", failure.message);
    }
    let failure = run(r#"<FOR NAME="f" EACH="${2 + 3}"><ITERATE/></FOR>"#).failure();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Parameter, "EACH: expected list, got int 5"));
}

#[test]
fn a_while_evaluates_its_condition_before_each_iteration() {
    let mut run = run(r#"<WHILE NAME="w" CONDITION="n &lt; 2" COLLECT="n">
        <INOUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/>
        <ITERATE><ACTIVITY TYPE="Give" NAME="a"/><POST_CODE>n = a.value</POST_CODE></ITERATE></WHILE>
        <POST_CODE>result = w.results</POST_CODE>"#);
    run.give("w/[1]/a", 1);
    run.give("w/[2]/a", 0);
    run.give("w/[3]/a", 5);
    assert_eq!(run.result(), "[1,0,5]");
}

#[test]
fn the_condition_of_a_while_sees_the_next_counter_and_the_results() {
    let text = |condition: &str| {
        format!(
            r#"<WHILE NAME="w" CONDITION="{condition}" COLLECT="counter"><ITERATE/></WHILE>
            <POST_CODE>result = {{w.completed, #w.results}}</POST_CODE>"#
        )
    };
    assert_eq!(run(&text("counter &lt; 4")).result(), "[3,3]");
    assert_eq!(run(&text("completed &lt; 2")).result(), "[2,2]");
    assert_eq!(run(&text("#results &lt; 5")).result(), "[5,5]");
    assert_eq!(run(&text("false")).result(), "[0,0]");
}

#[test]
fn a_grid_runs_all_combinations_and_its_last_axis_varies_fastest() {
    for tag in ["FOR", "PARFOR"] {
        let text = format!(
            r#"<{tag} NAME="f" COLLECT="counter .. a .. b"><PARAM_GRID><AXIS NAME="a" TYPE="string" VALUES="x, y"/>
            <AXIS NAME="b" TYPE="int" VALUES="${{ {{1, 2}} }}"/></PARAM_GRID><ITERATE/></{tag}>
            <POST_CODE>result = f.results</POST_CODE>"#
        );
        assert_eq!(run(&text).result(), r#"["1x1","2x2","3y1","4y2"]"#);
        assert_eq!(run(&text.replace("{1, 2}", "{}")).result(), "[]");
        let failure = run(&text.replace("{1, 2}", "{1, 'z'}")).failure();
        assert_eq!(
            (failure.kind, &*failure.message),
            (FailureKind::Parameter, r#"axis "b": expected int, got string "z""#)
        );
    }
}

#[test]
fn a_loop_counts_iterations_by_outcome_and_collects_completed_ones() {
    let run = run(r#"<FOR NAME="f" TO="5" COLLECT="counter"><ITERATE ON_FAILURE="continue">
        <PRE_CODE>if counter % 2 == 0 then error("even") end</PRE_CODE></ITERATE></FOR>
        <POST_CODE>result = {f.completed, f.failed, f.cancelled, f.results}</POST_CODE>"#);
    assert_eq!(run.result(), "[3,2,0,[1,3,5]]");
}

#[test]
fn a_cancelled_iteration_fails_a_sequential_loop_and_is_named_by_its_counter() {
    let text = |policy: &str| {
        format!(
            r#"<FOR NAME="f" FROM="7" TO="8"><ITERATE {policy}><ACTIVITY TYPE="Do" NAME="a"/></ITERATE></FOR>
            <POST_CODE>result = {{f.completed, f.cancelled}}</POST_CODE>"#
        )
    };
    let mut first = run(&text(""));
    first.cancel("f/[7]");
    first.stopped("f/[7]/a");
    let failure = first.failure();
    assert_eq!((failure.kind, &*failure.path), (FailureKind::Cancelled, "P/f/[7]"));
    assert_eq!(failure.message, "[7] was cancelled");
    let mut second = run(&text(r#"ON_FAILURE="continue""#));
    second.cancel("f/[7]");
    second.stopped("f/[7]/a");
    second.done("f/[8]/a");
    assert_eq!(second.result(), "[1,1]");
}

#[test]
fn nested_loops_have_their_own_counters() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="RemoteList" NAME="seen"/><BODY>
        <PRE_CODE>seen = RemoteList.new()</PRE_CODE>
        <FOR NAME="f" TO="2"><ITERATE><OUT_PARAMETER TYPE="int" NAME="outer"/><PRE_CODE>outer = counter</PRE_CODE>
          <FOR NAME="g" TO="${outer}"><ITERATE><PRE_CODE>seen:append(outer * 10 + counter)</PRE_CODE></ITERATE></FOR>
        </ITERATE></FOR></BODY></PROCESS_TYPE>"#,
    );
    assert_eq!(setup(&text).run().results("seen"), "[11,21,22]");
}

#[test]
fn a_loop_goes_through_a_list_in_the_document() {
    let run = run(r#"<FOR NAME="f" EACH='[1, "two", [3]]' COLLECT="item"><ITERATE/></FOR>
        <FOR NAME="none" EACH="[]" COLLECT="item"><ITERATE/></FOR><POST_CODE>result = {f.results, none.results}</POST_CODE>"#);
    assert_eq!(run.result(), r#"[[1,"two",[3]],[]]"#);
}
