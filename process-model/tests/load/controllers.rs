//! Loops, graphs, switches, bindings and scripts.

use xavantes_model::definition::*;
use xavantes_model::value::{Type, Value};

use crate::support::{ints, main, named, nodes, run, variable, variables};

#[test]
fn loops_have_sources_conditions_and_implicit_variables() {
    let program = main(
        r#"<PRE_CODE>code.items = list</PRE_CODE>
        <FOR NAME="count" FROM="1" TO="${n * 2}" STEP="-2" COLLECT="x + counter"><OUT_PARAMETER NAME="x" TYPE="int"/>
          <ITERATE RETRIES="2" ON_FAILURE="continue"><PRE_CODE>x = counter + (counterEnd or 0)</PRE_CODE></ITERATE></FOR>
        <FOR NAME="each" EACH=" ${list} "><ITERATE><PRE_CODE>print(item)</PRE_CODE></ITERATE></FOR>
        <FOR NAME="code"><ITERATE/></FOR>
        <FOR NAME="bound" counterEnd="5"><ITERATE/></FOR>
        <PARFOR NAME="grid" MAX_PARALLEL="4"><PARAM_GRID><AXIS NAME="rate" TYPE="float" VALUES="0.1, 1"/>
          <AXIS NAME="kind" TYPE="string" VALUES="a b,c"/><AXIS NAME="some" TYPE="int" VALUES="${list}"/></PARAM_GRID>
          <ITERATE><ACTIVITY NAME="fit" TYPE="Fit" label="${kind} at ${rate}"/></ITERATE></PARFOR>
        <WHILE NAME="loop" CONDITION="counter &lt; 3 and completed &lt; n" COLLECT="counter"><OUT_PARAMETER NAME="all" TYPE="list"/>
          <POST_CODE>all = results</POST_CODE><ITERATE/></WHILE>
        <PARWHILE NAME="pw" JOIN="${n}"><CONDITION><![CDATA[running < 3]]></CONDITION>
          <EXIT_CONDITION>failed + cancelled > 1</EXIT_CONDITION><ITERATE/></PARWHILE>
        <POST_CODE>out = count.completed + count.results[1] + loop.failed</POST_CODE>"#,
    );
    let count = named(&program, "count");
    assert_eq!(
        variables(count),
        "out x, in counterBegin!, in counterEnd!, in counterStep!, in items!, out completed!, out failed!, \
         out cancelled!, out results!"
    );
    assert_eq!(count.summary, 5);
    let Kind::For { source: LoopSource::Count { from, to, step, inputs: 1 }, collect: Some(collect), parallel: None } =
        &count.kind
    else {
        panic!("{:?}", count.kind)
    };
    assert!(matches!(from, Some(Bound::Literal(1))) && matches!(step, Some(Bound::Literal(-2))));
    let Some(Bound::Code(to)) = to else { panic!() };
    assert_eq!((to.inputs.as_slice(), run(&to.code, &ints(&[4]))), ([variable(0, 0)].as_slice(), ints(&[8])));
    let iterate = &nodes(&program)[count.elements[0].index()];
    assert_eq!(collect.inputs, [variable(count.id.0, 0), variable(iterate.id.0, 0)]);
    assert_eq!((iterate.policy.retries, iterate.policy.on_failure), (2, OnFailure::Continue));
    let pre = iterate.pre_code.as_ref().unwrap();
    assert_eq!(pre.outputs, [ScriptTarget::Variable { node: count.id, slot: 0 }]);
    assert!(count.kept && named(&program, "loop").kept && !named(&program, "each").kept);

    let each = named(&program, "each");
    assert_eq!(variables(each), "out completed!, out failed!, out cancelled!");
    assert!(
        matches!(&each.kind, Kind::For { source: LoopSource::Each(ListValues::Code(script)), .. } if script.inputs == [variable(0, 1)])
    );
    assert!(matches!(
        named(&program, "code").kind,
        Kind::For { source: LoopSource::Count { to: None, inputs: 0, .. }, .. }
    ));
    assert_eq!(named(&program, "bound").bindings.as_ref().unwrap().literals, [(1, Value::Int(5))]);

    let grid = named(&program, "grid");
    let Kind::For { source: LoopSource::Grid(axes), parallel: Some(parallel), .. } = &grid.kind else { panic!() };
    assert!(matches!(parallel.max, Some(Bound::Literal(4))));
    let values: Vec<_> = axes.iter().map(|axis| (&*axis.name, axis.ty, &axis.values)).collect();
    assert!(
        matches!(values[0], ("rate", Type::Float, ListValues::Literal(v)) if **v == [Value::Float(0.1), Value::Float(1.0)])
    );
    assert!(matches!(values[1], ("kind", Type::String, ListValues::Literal(v)) if **v == ["a b".into(), "c".into()]));
    assert!(matches!(values[2], ("some", Type::Int, ListValues::Code(_))));
    let iterate = &nodes(&program)[grid.elements[0].index()];
    assert_eq!(variables(iterate), "local counter!, local rate!, local kind!, local some!");
    assert_eq!(iterate.local_slots(), 0..4);
    let script = named(&program, "fit").bindings.as_ref().unwrap().script.as_ref().unwrap();
    assert_eq!(script.inputs, [variable(iterate.id.0, 2), variable(iterate.id.0, 1)]);
    assert_eq!(run(&script.code, &["x".into(), Value::Float(0.5)]), ["x at 0.5".into()]);

    let Kind::While { condition, collect: Some(_), parallel: None } = &named(&program, "loop").kind else { panic!() };
    let summary = ScriptInput::LoopSummary;
    assert_eq!(condition.inputs, [summary(LoopSummary::Counter), summary(LoopSummary::Completed), variable(0, 0)]);
    assert_eq!(named(&program, "loop").post_code.as_ref().unwrap().inputs[0], summary(LoopSummary::Results));
    let Kind::While { condition, collect: None, parallel: Some(parallel) } = &named(&program, "pw").kind else {
        panic!()
    };
    assert_eq!(condition.inputs, [summary(LoopSummary::Running)]);
    assert_eq!(parallel.exit.as_ref().unwrap().inputs, [summary(LoopSummary::Failed), summary(LoopSummary::Cancelled)]);
    assert!(matches!(parallel.join, Some(Bound::Code(_))));
    let iterate = &nodes(&program)[named(&program, "pw").elements[0].index()];
    assert_eq!(variables(iterate), "local counter!");
}

#[test]
fn the_elements_of_a_par_know_what_they_wait_for() {
    let program = main(
        r#"<PAR NAME="p"><BLOCK NAME="d" AFTER="b c
            b"/><BLOCK NAME="a"/><BLOCK NAME="b" AFTER="a"/><BLOCK NAME="c" AFTER="a"/><CATCH/></PAR>"#,
    );
    let Kind::Par { waits_for, dependents, parallel } = &named(&program, "p").kind else { panic!() };
    assert_eq!(waits_for, &[2, 0, 1, 1]);
    assert_eq!(dependents, &[vec![], vec![2, 3], vec![0], vec![0]]);
    assert!(parallel.exit.is_none() && parallel.join.is_none() && parallel.max.is_none());
}

#[test]
fn bindings_and_scripts_have_resolved_names() {
    let program = main(
        r#"<PRE_CODE>local m = {} m.x = 1
          b.p = n
          if n == 1 then b.p = b.p + 1 end
          out = out or 5</PRE_CODE>
        <BLOCK NAME="b"><IN_PARAMETER NAME="p" TYPE="int"/><INOUT_PARAMETER NAME="q" TYPE="int" DEFAULT="7"/>
          <ACTIVITY NAME="fit" TYPE="Fit" label="say &quot;$${${p}}&quot;\${text}" depth="${p + q}" state='{"a": [1]}'/>
          <ACTIVITY NAME="plain" TYPE="Fit" label=" as it is " depth=" 4 "/>
          <POST_CODE>q = #fit.model</POST_CODE>
          <CATCH><PRE_CODE>q = -1</PRE_CODE></CATCH></BLOCK>
        <POST_CODE>out = b.q</POST_CODE>"#,
    );
    let pre = nodes(&program)[0].pre_code.as_ref().unwrap();
    let element = ScriptInput::Element { scope: DefinitionNodeId(0), element: DefinitionNodeId(1), slot: 0 };
    assert_eq!(pre.inputs, [variable(0, 0), element, variable(0, 3)]);
    assert_eq!(
        pre.outputs,
        [
            ScriptTarget::Element { element: DefinitionNodeId(1), slot: 0 },
            ScriptTarget::Variable { node: DefinitionNodeId(0), slot: 3 }
        ]
    );
    assert_eq!(run(&pre.code, &[Value::Int(1), Value::Null, Value::Null]), ints(&[2, 5]));
    let fit = named(&program, "fit");
    let bindings = fit.bindings.as_ref().unwrap();
    assert_eq!(bindings.targets, [1, 0]);
    assert_eq!(bindings.literals.len(), 1);
    assert_eq!(bindings.literals[0].0, 2);
    let script = bindings.script.as_ref().unwrap();
    assert_eq!(script.inputs, [variable(1, 0), variable(0, 2), variable(1, 1)]);
    let values = run(&script.code, &[Value::Int(2), "t".into(), Value::Int(3)]);
    assert_eq!(values, ["say \"${2}\"\\t".into(), Value::Int(5)]);
    assert!(fit.kept && !named(&program, "plain").kept);
    assert_eq!(
        named(&program, "plain").bindings.as_ref().unwrap().literals,
        [(1, " as it is ".into()), (0, Value::Int(4))]
    );
    let catch = &nodes(&program)[named(&program, "b").catch.unwrap().index()];
    assert_eq!(
        catch.pre_code.as_ref().unwrap().outputs,
        [ScriptTarget::Variable { node: DefinitionNodeId(1), slot: 1 }]
    );
    // The only value from outside that the subtree reads is `text`.
    assert_eq!(program.processes[0].captures(DefinitionNodeId(1)), [variable(0, 2)]);
    assert_eq!(program.processes[0].parameters().len(), 4);
}

#[test]
fn a_switch_sets_variables_of_its_own_in_its_cases() {
    let program = main(
        r#"<SWITCH NAME="s"><OUT_PARAMETER NAME="x" TYPE="int"/><PRE_CODE>x = 0</PRE_CODE>
        <CASE CONDITION="x == n"><PRE_CODE>x = 1</PRE_CODE></CASE><DEFAULT><POST_CODE>x = 2</POST_CODE></DEFAULT>
        <FINALLY><PRE_CODE>x += 1</PRE_CODE></FINALLY></SWITCH>"#,
    );
    let target = [ScriptTarget::Variable { node: DefinitionNodeId(1), slot: 0 }];
    for (name, post) in [("case1", false), ("default", true), ("finally", false)] {
        let node = named(&program, name);
        let script = if post { &node.post_code } else { &node.pre_code };
        assert_eq!(script.as_ref().unwrap().outputs, target, "{name}");
    }
}
