//! `BLOCK`, `PAR`, `AFTER`.

use crate::harness::run;

#[test]
fn a_block_runs_its_elements_one_after_the_other() {
    let mut run = run(r#"<BLOCK NAME="b"><ACTIVITY TYPE="Do" NAME="one"/><ACTIVITY TYPE="Do" NAME="two"/></BLOCK>
        <ACTIVITY TYPE="Do" NAME="three"/>"#);
    for path in ["b/one", "b/two", "three"] {
        assert_eq!(run.running(), [path]);
        run.done(path);
    }
    run.completed();
}

#[test]
fn a_process_without_elements_completes_at_once() {
    run("").completed();
    run(r#"<BLOCK NAME="b"/><PAR NAME="p"/><SWITCH NAME="s"/><PARSWITCH NAME="ps"/>"#).completed();
}

#[test]
fn a_par_runs_its_elements_at_once() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        <BLOCK NAME="c"><ACTIVITY TYPE="Do" NAME="d"/></BLOCK></PAR><ACTIVITY TYPE="Do" NAME="last"/>"#);
    assert_eq!(run.running(), ["p/a", "p/b", "p/c/d"]);
    run.done("p/b");
    run.done("p/c/d");
    assert_eq!(run.running(), ["p/a"]);
    run.done("p/a");
    assert_eq!(run.running(), ["last"]);
}

#[test]
fn an_element_with_after_waits_for_all_that_it_names() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="d" AFTER="b c"/><ACTIVITY TYPE="Do" NAME="a"/>
        <ACTIVITY TYPE="Do" NAME="b" AFTER="a"/><ACTIVITY TYPE="Do" NAME="c" AFTER="a"/></PAR>"#);
    assert_eq!(run.running(), ["p/a"]);
    run.done("p/a");
    assert_eq!(run.running(), ["p/b", "p/c"]);
    run.done("p/c");
    assert_eq!(run.running(), ["p/b"]);
    run.done("p/b");
    assert_eq!(run.running(), ["p/d"]);
    run.done("p/d");
    run.completed();
}

#[test]
fn after_is_satisfied_by_a_failure_with_on_failure_continue() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a" ON_FAILURE="continue"/>
        <ACTIVITY TYPE="Do" NAME="b" AFTER="a"/></PAR>"#);
    run.fail("p/a");
    assert_eq!(run.running(), ["p/b"]);
}

#[test]
fn results_flow_along_after() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Give" NAME="a"/>
        <ACTIVITY TYPE="Take" NAME="b" AFTER="a" n="${a.value * 2}"/></PAR>"#);
    run.give("p/a", 21);
    assert_eq!(run.parameters("p/b"), [42.into()]);
}

#[test]
fn an_element_waits_for_the_elements_whose_results_it_reads() {
    let mut run =
        run(r#"<PAR NAME="p"><ACTIVITY TYPE="Take" NAME="b" n="${a.value * 2}"/><ACTIVITY TYPE="Give" NAME="a"/>
        <BLOCK NAME="c"><OUT_PARAMETER TYPE="int" NAME="sum"/><PRE_CODE>sum = a.value</PRE_CODE>
        <ACTIVITY TYPE="Take" NAME="d" n="${sum}"/></BLOCK></PAR>"#);
    assert_eq!(run.running(), ["p/a"]);
    run.give("p/a", 21);
    assert_eq!(run.running(), ["p/b", "p/c/d"]);
    assert_eq!((run.parameters("p/b"), run.parameters("p/c/d")), (vec![42.into()], vec![21.into()]));
}

#[test]
fn code_of_the_par_itself_makes_no_element_wait() {
    let run = run(r#"<PAR NAME="p" EXIT_CONDITION="a.value == 1 and b.value == 1">
        <ACTIVITY TYPE="Give" NAME="a"/><ACTIVITY TYPE="Give" NAME="b"/></PAR>"#);
    assert_eq!(run.running(), ["p/a", "p/b"]);
}

#[test]
fn an_estimate_does_not_change_the_order_of_elements() {
    // The estimate of `first` reads a result of `second`, and fails whenever it is computed.
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="first">
        <ESTIMATE SECONDS="${second.value + nil}"><FILE NAME="x" USE="read"/></ESTIMATE></ACTIVITY>
        <ACTIVITY TYPE="Give" NAME="second"><ESTIMATE><FILE NAME="x" USE="write"/></ESTIMATE></ACTIVITY></PAR>"#);
    assert_eq!(run.running(), ["p/first", "p/second"]);
    run.done("p/first");
    run.give("p/second", 1);
    run.completed();
}

#[test]
fn a_par_counts_its_elements_by_outcome() {
    let mut run = run(r#"<PAR NAME="p"><ACTIVITY TYPE="Do" NAME="a"/><ACTIVITY TYPE="Do" NAME="b"/>
        <ACTIVITY TYPE="Do" NAME="c" ON_FAILURE="continue"/></PAR>
        <POST_CODE>result = {p.completed, p.failed, p.cancelled}</POST_CODE>"#);
    run.fail("p/c");
    run.cancel("p/b");
    run.stopped("p/b");
    run.done("p/a");
    assert_eq!(run.result(), "[1,1,1]");
}
