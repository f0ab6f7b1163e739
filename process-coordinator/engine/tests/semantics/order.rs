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
