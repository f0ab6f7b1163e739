//! Scopes: the variables that code reads and assigns at run time.

use crate::harness::{document, run, setup};

#[test]
fn code_reads_the_scopes_around_it_and_the_innermost_name_wins() {
    let run = run(r#"<OUT_PARAMETER TYPE="int" NAME="a"/><OUT_PARAMETER TYPE="int" NAME="b"/>
        <PRE_CODE>a, b = 1, 2</PRE_CODE>
        <BLOCK NAME="x"><OUT_PARAMETER TYPE="int" NAME="a"/><OUT_PARAMETER TYPE="list" NAME="seen"/>
        <PRE_CODE>a = 10</PRE_CODE>
          <BLOCK NAME="y"><OUT_PARAMETER TYPE="list" NAME="seen"/><PRE_CODE>seen = {a, b}</PRE_CODE></BLOCK>
          <POST_CODE>seen = y.seen</POST_CODE></BLOCK>
        <POST_CODE>result = {a, x.a, x.seen}</POST_CODE>"#);
    assert_eq!(run.result(), "[1,10,[10,2]]");
}

#[test]
fn results_are_nil_before_their_element_ends() {
    let mut run = run(r#"<PRE_CODE>result = {a.value == nil}</PRE_CODE><ACTIVITY TYPE="Give" NAME="a"/>
        <POST_CODE>result = {result[1], a.value}</POST_CODE>"#);
    run.give("a", 5);
    assert_eq!(run.result(), "[true,5]");
}

#[test]
fn a_failed_or_cancelled_element_has_no_results() {
    for fails in [true, false] {
        let mut run = run(r#"<BLOCK NAME="b" ON_FAILURE="continue" both="1" into="2">
              <OUT_PARAMETER TYPE="int" NAME="n"/><INOUT_PARAMETER TYPE="int" NAME="both"/>
              <IN_PARAMETER TYPE="int" NAME="into"/>
              <PRE_CODE>n = 5 both = 6</PRE_CODE><ACTIVITY TYPE="Give" NAME="a"/></BLOCK>
            <PARFOR NAME="f" TO="2" ON_FAILURE="continue" COLLECT="counter"><ITERATE>
              <SWITCH NAME="s"><CASE CONDITION="counter == 2"><ACTIVITY TYPE="Do" NAME="d"/></CASE></SWITCH></ITERATE>
              </PARFOR>
            <ACTIVITY TYPE="Give" NAME="c" ON_FAILURE="continue"/>
            <POST_CODE>result = {b.n == nil, b.both == nil, b.into, #f.results, c.value == nil, f.completed}</POST_CODE>"#);
        for path in ["b/a", "f/[2]/s/case1/d", "c"] {
            if fails {
                run.fail(path);
            } else {
                run.cancel(path.split('/').next().unwrap());
                run.stopped(path);
            }
        }
        assert_eq!(run.result(), "[true,true,2,0,true,1]", "the counts of a failed loop stay readable");
    }
}

#[test]
fn an_iteration_does_not_see_values_of_the_one_before() {
    let mut run = run(r#"<FOR NAME="f" TO="2" COLLECT="seen"><ITERATE>
        <OUT_PARAMETER TYPE="list" NAME="seen" OPTIONAL="true"/>
        <PRE_CODE>seen = {counter, seen == nil, a.value == nil}</PRE_CODE><ACTIVITY TYPE="Give" NAME="a"/></ITERATE>
        </FOR>
        <POST_CODE>result = f.results</POST_CODE>"#);
    run.give("f/[1]/a", 1);
    run.give("f/[2]/a", 2);
    assert_eq!(run.result(), "[[1,true,true],[2,true,true]]");
}

#[test]
fn iterations_of_sequential_loops_assign_the_variables_of_the_loop() {
    let run = run(r#"<FOR NAME="f" TO="4"><INOUT_PARAMETER TYPE="int" NAME="sum" DEFAULT="0"/>
        <ITERATE><PRE_CODE>sum = sum + counter</PRE_CODE><POST_CODE>sum = sum * 2</POST_CODE></ITERATE></FOR>
        <POST_CODE>result = {f.sum}</POST_CODE>"#);
    assert_eq!(run.result(), "[52]");
}

#[test]
fn inner_scopes_read_results_of_elements_around_them() {
    let mut run = run(r#"<ACTIVITY TYPE="Give" NAME="a"/><PARFOR NAME="f" TO="2"><ITERATE>
        <ACTIVITY TYPE="Take" NAME="t" n="${a.value + counter}"/></ITERATE></PARFOR>"#);
    run.give("a", 10);
    assert_eq!((run.parameters("f/[1]/t"), run.parameters("f/[2]/t")), (vec![11.into()], vec![12.into()]));
}

#[test]
fn a_called_type_does_not_see_the_variables_of_its_caller() {
    let text = document(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="list" NAME="result"/><BODY>
            <IN_PARAMETER TYPE="int" NAME="n" DEFAULT="1"/>
        <PROCESS TYPE="Sub" NAME="s"/><POST_CODE>result = {n, s.n}</POST_CODE></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Sub"><OUT_PARAMETER TYPE="int" NAME="n"/><BODY>
        <PRE_CODE>n = n == nil and 7 or n</PRE_CODE></BODY></PROCESS_TYPE>"#,
    );
    assert_eq!(setup(&text).run().result(), "[1,7]");
}

#[test]
fn code_that_fails_changes_nothing() {
    let run = run(r#"<OUT_PARAMETER TYPE="RemoteList" NAME="log"/><PRE_CODE>log = RemoteList.new()</PRE_CODE>
        <BLOCK NAME="b" ON_FAILURE="continue"><OUT_PARAMETER TYPE="int" NAME="n" DEFAULT="1"/>
          <PRE_CODE>log:append("seen") n = 2 RemoteSet.new() error("no")</PRE_CODE>
          <FINALLY><PRE_CODE>log:append(n)</PRE_CODE></FINALLY></BLOCK>
        <POST_CODE>result = log:values()</POST_CODE>"#);
    assert_eq!(run.result(), "[1]");
}

#[test]
fn code_reads_results_of_elements_inside_of_controllers() {
    let mut run = run(r#"<PAR NAME="dag"><ACTIVITY TYPE="Give" NAME="a"/>
          <BLOCK NAME="deep"><ACTIVITY TYPE="Give" NAME="z"/></BLOCK></PAR>
        <SWITCH NAME="s"><CASE NAME="yes" CONDITION="dag.a.value == 1"><ACTIVITY TYPE="Give" NAME="y"/></CASE>
          <DEFAULT><ACTIVITY TYPE="Give" NAME="n"/></DEFAULT></SWITCH>
        <BLOCK NAME="bad" ON_FAILURE="continue"><ACTIVITY TYPE="Give" NAME="z"/><POST_CODE>error("no")</POST_CODE></BLOCK>
        <POST_CODE>result = {dag.a.value, dag.deep.z.value, s.yes.y.value, s.default.n.value == nil, bad.z.value == nil,
          dag.completed}</POST_CODE>"#);
    run.give("dag/a", 1);
    run.give("dag/deep/z", 2);
    run.give("s/yes/y", 3);
    run.give("bad/z", 4);
    assert_eq!(run.result(), "[1,2,3,true,true,2]");
}

#[test]
fn an_element_waits_for_results_inside_of_its_siblings() {
    let mut run = run(r#"<PAR NAME="p"><BLOCK NAME="last"><OUT_PARAMETER TYPE="int" NAME="sum"/>
            <ACTIVITY TYPE="Do" NAME="w"/><POST_CODE>sum = first.a.value + first.inner.b.value</POST_CODE></BLOCK>
          <PAR NAME="first"><ACTIVITY TYPE="Give" NAME="a"/><BLOCK NAME="inner"><ACTIVITY TYPE="Give" NAME="b"/></BLOCK>
          </PAR></PAR><POST_CODE>result = {p.last.sum}</POST_CODE>"#);
    assert_eq!(run.running(), ["p/first/a", "p/first/inner/b"]);
    run.give("p/first/a", 20);
    run.give("p/first/inner/b", 22);
    run.done("p/last/w");
    assert_eq!(run.result(), "[42]");
}
