//! Documents that are right, with what becomes of them.

use std::time::{Duration, Instant};

use xavantes_model::definition::*;
use xavantes_model::diagnostic::Source as Text;
use xavantes_model::load::{condition_override, load};
use xavantes_model::script::{Argument, Code, Limits, Sandbox};
use xavantes_model::shared::Objects;
use xavantes_model::value::{Type, Value};

const FIT: &str = r#"
<ACTIVITY_TYPE NAME="Fit" RETRIES="3" TIMEOUT="1m" RETRY_BACKOFF="1.5">
  <DESCRIPTION>Fits a model.</DESCRIPTION>
  <IN_PARAMETER NAME="depth" TYPE="int" DEFAULT="3"/>
  <IN_PARAMETER NAME="label" TYPE="string" OPTIONAL="true"/>
  <INOUT_PARAMETER NAME="state" TYPE="map" OPTIONAL="true"/>
  <OUT_PARAMETER NAME="model" TYPE="string"/>
  <REQUIRES CPUS="2" MEMORY="1.5GiB" GPUS="1" TAGS="avx512  big avx512"/>
  <CODE LANGUAGE="lua">model = label .. attempt</CODE>
</ACTIVITY_TYPE>"#;

fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{FIT}{types}</XAVANTES>")
}

fn program(types: &str) -> Program {
    load(&[Text::new("test.xml", document(types))]).unwrap_or_else(|found| panic!("{found:#?}"))
}

/// A process with parameters `n`, `list`, `text`, `out` around a `BODY`.
fn main(body: &str) -> Program {
    program(&format!(
        r#"<PROCESS_TYPE NAME="Main"><IN_PARAMETER NAME="n" TYPE="int"/><IN_PARAMETER NAME="list" TYPE="list"/>
        <IN_PARAMETER NAME="text" TYPE="string"/><OUT_PARAMETER NAME="out" TYPE="int"/><BODY>{body}</BODY></PROCESS_TYPE>"#
    ))
}

fn nodes(program: &Program) -> &[Node] {
    &program.processes[0].nodes
}

fn named<'p>(program: &'p Program, name: &str) -> &'p Node {
    nodes(program).iter().find(|node| &*node.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The names of a node's variables; a `!` behind those that are not declared.
fn variables(node: &Node) -> String {
    let shown = node.variables.iter().map(|variable| {
        let direction = format!("{:?}", variable.direction).to_lowercase();
        format!("{direction} {}{}", variable.name, if variable.implicit { "!" } else { "" })
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn variable(node: u32, slot: u32) -> Input {
    Input::Variable { node: NodeId(node), slot }
}

fn run(code: &Code, arguments: &[Value]) -> Vec<Value> {
    let mut sandbox = Sandbox::new(Limits::CONTROL, false).unwrap();
    let arguments = arguments.iter().map(Argument::Value);
    sandbox.run(code, arguments, &mut Objects::default()).unwrap_or_else(|error| panic!("{error:?}")).0
}

fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().copied().map(Value::Int).collect()
}

#[test]
fn the_example_of_the_language() {
    let parameters = r#"<IN_PARAMETER TYPE="int" NAME="min"/><IN_PARAMETER TYPE="int" NAME="max"/>
        <IN_PARAMETER TYPE="int" NAME="numPrimes"/>"#;
    let text = format!(
        r#"<?xml version="1.0"?>
<XAVANTES VERSION="1"><PROCESS_TYPE NAME="FindPrimes">{parameters}
  <IN_PARAMETER TYPE="int" NAME="numActs"/><OUT_PARAMETER TYPE="RemoteSet" NAME="primes"/>
  <BODY>
    <PRE_CODE>
      primes = RemoteSet.new()
      parfor.min, parfor.max = min, max
      parfor.numPrimes, parfor.numActs = numPrimes, numActs
      parfor.primes = primes
      parfor.counterBegin, parfor.counterEnd = 0, numActs - 1
    </PRE_CODE>
    <PARFOR NAME="parfor">{parameters}
      <IN_PARAMETER TYPE="int" NAME="numActs"/><IN_PARAMETER TYPE="RemoteSet" NAME="primes"/>
      <EXIT_CONDITION>primes:size() >= numPrimes</EXIT_CONDITION>
      <ITERATE>
        <PRE_CODE>
          local range = (max - min + 1) // numActs
          findPrimes.min = range * counter + min
          findPrimes.max = counter == numActs - 1 and max or findPrimes.min + range - 1
          findPrimes.numPrimes, findPrimes.primes = numPrimes, primes
        </PRE_CODE>
        <ACTIVITY TYPE="FindPrimes" NAME="findPrimes"/>
      </ITERATE>
    </PARFOR>
  </BODY>
</PROCESS_TYPE>
<ACTIVITY_TYPE NAME="FindPrimes">{parameters}<IN_PARAMETER TYPE="RemoteSet" NAME="primes"/>
  <CODE LANGUAGE="lua"><![CDATA[
    for num = min, max do
      if primes:size() >= numPrimes then break end
      primes:add(num)
    end
  ]]></CODE>
</ACTIVITY_TYPE></XAVANTES>"#
    );
    let program = load(&[Text::new("primes.xml", text)]).unwrap_or_else(|found| panic!("{found:#?}"));
    assert_eq!(program.process("FindPrimes"), Some(0));
    assert_eq!(program.processes[0].parameters().len(), 5);
    let [body, parfor, iterate, activity] = nodes(&program) else { panic!("{:#?}", nodes(&program)) };
    assert_eq!((body.tag, parfor.tag, iterate.tag, activity.tag), ("BODY", "PARFOR", "ITERATE", "ACTIVITY"));
    assert_eq!(
        variables(parfor),
        "in min, in max, in numPrimes, in numActs, in primes, in counterBegin!, in counterEnd!, in counterStep!, \
         in items!, out completed!, out failed!, out cancelled!"
    );
    assert_eq!(variables(iterate), "local counter!, local item!");
    assert_eq!((parfor.summary, iterate.locals), (9, 0));
    let Kind::For {
        source: Source::Count { from: None, to: None, step: None, inputs: 5 },
        parallel: Some(parallel),
        ..
    } = &parfor.kind
    else {
        panic!("{:?}", parfor.kind)
    };
    assert_eq!(parallel.exit.as_ref().unwrap().inputs, [variable(1, 4), variable(1, 2)]);
    let pre = body.pre_code.as_ref().unwrap();
    let element = |slot| Target::Element { element: NodeId(1), slot };
    let primes = Target::Variable { node: NodeId(0), slot: 4 };
    assert_eq!(
        pre.outputs,
        [primes, element(0), element(1), element(2), element(3), element(4), element(5), element(6)]
    );
    // Its value in the line after is read; what it only assigns is not.
    assert!(activity.kept && !parfor.kept);
    assert_eq!(parfor.delegate, Delegate::Auto);
    assert_eq!(
        program.processes[0].captures(NodeId(1)),
        [],
        "what the loop reads from outside is given to it by parameters"
    );
}

#[test]
fn nodes_are_in_order_and_subtrees_together() {
    let program = main(
        r#"<FINALLY><BLOCK NAME="g"/></FINALLY><CATCH><PRE_CODE>print(error.path)</PRE_CODE></CATCH>
        <BLOCK NAME="a"><BLOCK NAME="a"/><BLOCK NAME="b"/></BLOCK>
        <SWITCH NAME="s"><CASE CONDITION="n == 1"/><CASE NAME="big" CONDITION="n > 1"><BLOCK NAME="c"/></CASE>
          <CASE><CONDITION>n == 0</CONDITION></CASE><DEFAULT/></SWITCH>
        <BLOCK NAME="e"/>"#,
    );
    let shown: Vec<String> = nodes(&program)
        .iter()
        .map(|node| {
            let parent = node.parent.map_or("-".into(), |parent| parent.0.to_string());
            format!("{} {parent}/{}#{} ..{}", node.id.0, node.name, node.position, node.end.0)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "0 -/body#0 ..14",
            "1 0/a#0 ..4",
            "2 1/a#0 ..3",
            "3 1/b#1 ..4",
            "4 0/s#1 ..10",
            "5 4/case1#0 ..6",
            "6 4/big#1 ..8",
            "7 6/c#0 ..8",
            "8 4/case3#2 ..9",
            "9 4/default#3 ..10",
            "10 0/e#2 ..11",
            "11 0/catch#3 ..12",
            "12 0/finally#4 ..14",
            "13 12/g#0 ..14",
        ]
    );
    let body = &nodes(&program)[0];
    assert_eq!(body.elements, [NodeId(1), NodeId(4), NodeId(10)]);
    assert_eq!((body.catch, body.finally), (Some(NodeId(11)), Some(NodeId(12))));
    assert_eq!(variables(&nodes(&program)[11]), "local error!");
    let Kind::Switch { conditions, parallel: None } = &named(&program, "s").kind else { panic!() };
    assert_eq!(conditions.len(), 3);
    assert_eq!(conditions[2].inputs, [variable(0, 0)]);
    assert_eq!(run(&conditions[1].code, &ints(&[2])), [Value::Bool(true)]);
}

#[test]
fn loops() {
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
    let Kind::For { source: Source::Count { from, to, step, inputs: 1 }, collect: Some(collect), parallel: None } =
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
    assert_eq!(pre.outputs, [Target::Variable { node: count.id, slot: 0 }]);
    assert!(count.kept && named(&program, "loop").kept && !named(&program, "each").kept);

    let each = named(&program, "each");
    assert_eq!(variables(each), "out completed!, out failed!, out cancelled!");
    assert!(matches!(&each.kind, Kind::For { source: Source::Each(script), .. } if script.inputs == [variable(0, 1)]));
    assert!(matches!(
        named(&program, "code").kind,
        Kind::For { source: Source::Count { to: None, inputs: 0, .. }, .. }
    ));
    assert_eq!(named(&program, "bound").bindings.as_ref().unwrap().literals, [(1, Value::Int(5))]);

    let grid = named(&program, "grid");
    let Kind::For { source: Source::Grid(axes), parallel: Some(parallel), .. } = &grid.kind else { panic!() };
    assert!(matches!(parallel.max, Some(Bound::Literal(4))));
    let values: Vec<_> = axes.iter().map(|axis| (&*axis.name, axis.ty, &axis.values)).collect();
    assert!(
        matches!(values[0], ("rate", Type::Float, AxisValues::Literal(v)) if **v == [Value::Float(0.1), Value::Float(1.0)])
    );
    assert!(matches!(values[1], ("kind", Type::String, AxisValues::Literal(v)) if **v == ["a b".into(), "c".into()]));
    assert!(matches!(values[2], ("some", Type::Int, AxisValues::Code(_))));
    let iterate = &nodes(&program)[grid.elements[0].index()];
    assert_eq!(variables(iterate), "local counter!, local rate!, local kind!, local some!");
    assert_eq!(iterate.local_slots(), 0..4);
    let script = named(&program, "fit").bindings.as_ref().unwrap().script.as_ref().unwrap();
    assert_eq!(script.inputs, [variable(iterate.id.0, 2), variable(iterate.id.0, 1)]);
    assert_eq!(run(&script.code, &["x".into(), Value::Float(0.5)]), ["x at 0.5".into()]);

    let Kind::While { condition, collect: Some(_), parallel: None } = &named(&program, "loop").kind else { panic!() };
    let summary = Input::Summary;
    assert_eq!(condition.inputs, [summary(Summary::Counter), summary(Summary::Completed), variable(0, 0)]);
    assert_eq!(named(&program, "loop").post_code.as_ref().unwrap().inputs[0], summary(Summary::Results));
    let Kind::While { condition, collect: None, parallel: Some(parallel) } = &named(&program, "pw").kind else {
        panic!()
    };
    assert_eq!(condition.inputs, [summary(Summary::Running)]);
    assert_eq!(parallel.exit.as_ref().unwrap().inputs, [summary(Summary::Failed), summary(Summary::Cancelled)]);
    assert!(matches!(parallel.join, Some(Bound::Code(_))));
    let iterate = &nodes(&program)[named(&program, "pw").elements[0].index()];
    assert_eq!(variables(iterate), "local counter!");
}

#[test]
fn graphs() {
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
fn bindings_and_scripts() {
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
    let element = Input::Element { scope: NodeId(0), element: NodeId(1), slot: 0 };
    assert_eq!(pre.inputs, [variable(0, 0), element, variable(0, 3)]);
    assert_eq!(
        pre.outputs,
        [Target::Element { element: NodeId(1), slot: 0 }, Target::Variable { node: NodeId(0), slot: 3 }]
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
    assert_eq!(catch.pre_code.as_ref().unwrap().outputs, [Target::Variable { node: NodeId(1), slot: 1 }]);
    // The subtree takes along what it reads from outside, which is just `text`.
    assert_eq!(program.processes[0].captures(NodeId(1)), [variable(0, 2)]);
    assert_eq!(program.processes[0].parameters().len(), 4);
}

#[test]
fn a_switch_sets_variables_of_its_own_in_its_cases() {
    let program = main(
        r#"<SWITCH NAME="s"><OUT_PARAMETER NAME="x" TYPE="int"/><PRE_CODE>x = 0</PRE_CODE>
        <CASE CONDITION="x == n"><PRE_CODE>x = 1</PRE_CODE></CASE><DEFAULT><POST_CODE>x = 2</POST_CODE></DEFAULT>
        <FINALLY><PRE_CODE>x += 1</PRE_CODE></FINALLY></SWITCH>"#,
    );
    let target = [Target::Variable { node: NodeId(1), slot: 0 }];
    for (name, post) in [("case1", false), ("default", true), ("finally", false)] {
        let node = named(&program, name);
        let script = if post { &node.post_code } else { &node.pre_code };
        assert_eq!(script.as_ref().unwrap().outputs, target, "{name}");
    }
}

#[test]
fn activities() {
    let program = program(
        r#"<ACTIVITY_TYPE NAME="Run"><IN_PARAMETER NAME="a" TYPE="string"/><IN_PARAMETER NAME="f" TYPE="file"/>
        <CODE LANGUAGE="command"><ARG>tool</ARG><ARG>--a=${a}${#a -- long}</ARG><ARG>${f}</ARG><ARG/><ARG>$${HOME} "
</ARG></CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Script" CACHE=" true "><CODE LANGUAGE="python">
print("${not} ours")</CODE></ACTIVITY_TYPE>
        <PROCESS_TYPE NAME="Fit"><BODY><ACTIVITY NAME="one" TYPE="Fit" RETRIES="0" RETRY_DELAY="1h30m"/>
        <ACTIVITY NAME="two" TYPE="Fit" ON_FAILURE="hold"/></BODY></PROCESS_TYPE>"#,
    );
    let [fit, run_type, script] = program.activities.as_slice() else { panic!() };
    assert_eq!((fit.requires.cpus, fit.requires.memory, fit.requires.gpus), (2, 3 << 29, 1));
    assert_eq!(fit.requires.tags, ["avx512".into(), "big".into()]);
    let ActivityCode::Lua { code, .. } = &fit.code else { panic!() };
    let arguments = [Value::Int(1), "x".into(), Value::Null, Value::Null, Value::Int(2)];
    assert_eq!(run(code, &arguments), [Value::Null, "x2".into()]);
    let ActivityCode::Command { code, texts } = &run_type.code else { panic!() };
    assert_eq!(texts[1].as_ref(), "--a=${a}${#a -- long}");
    let file = Type::File.parse("/x").unwrap();
    let values = run(code, &["é".into(), file.clone(), Value::Int(1)]);
    assert_eq!(values, ["tool".into(), "--a=é2".into(), file, "".into(), "${HOME} \"\n".into()]);
    let ActivityCode::Interpreter { language, text, line } = &script.code else { panic!() };
    assert_eq!((&**language, text.lines().nth(1)), ("python", Some("print(\"${not} ours\")")));
    assert_eq!(*line, script.line);
    assert_eq!([fit.cache, run_type.cache, script.cache], [false, false, true]);

    let policy = Policy { retries: 3, timeout: Some(Duration::from_secs(60)), backoff: 1.5, ..Policy::default() };
    let one = named(&program, "one").policy;
    assert_eq!(one, Policy { retries: 0, delay: Duration::from_secs(5400), ..policy });
    assert_eq!(named(&program, "two").policy, Policy { on_failure: OnFailure::Hold, ..policy });
}

#[test]
fn what_is_worth_delegating() {
    let activities =
        |count: usize| -> String { (0..count).map(|i| format!("<ACTIVITY NAME=\"a{i}\" TYPE=\"Fit\"/>")).collect() };
    let program = main(&format!(
        r#"<BLOCK NAME="small">{}</BLOCK><BLOCK NAME="large"><SWITCH NAME="inner"><DEFAULT>{}</DEFAULT></SWITCH></BLOCK>
        <BLOCK NAME="loops"><FOR NAME="f" TO="1"><ITERATE/></FOR></BLOCK><PAR NAME="par"/><PROCESS NAME="sub" TYPE="Main" n="1" list="[]" text=""/>
        <BLOCK NAME="said" DELEGATE="always"/><PAR NAME="stay" DELEGATE="never"/>"#,
        activities(7),
        activities(8)
    ));
    for (name, expected) in [
        ("small", Delegate::Never),
        ("large", Delegate::Auto),
        ("inner", Delegate::Auto),
        ("loops", Delegate::Auto),
        ("par", Delegate::Auto),
        ("sub", Delegate::Auto),
        ("said", Delegate::Always),
        ("stay", Delegate::Never),
        ("body", Delegate::Never),
        ("iterate", Delegate::Never),
        ("default", Delegate::Never),
        ("a0", Delegate::Never),
    ] {
        assert_eq!(named(&program, name).delegate, expected, "{name}");
    }
}

#[test]
fn types_are_found_in_other_documents_and_lines_in_their_own() {
    let one = "<XAVANTES VERSION=\"1\">\n<PROCESS_TYPE NAME=\"A\"><BODY>\n<PROCESS NAME=\"b\" TYPE=\"B\"/>\n\
        <BLOCK NAME=\"c\"><PRE_CODE>\n\n  error('x')</PRE_CODE></BLOCK></BODY></PROCESS_TYPE></XAVANTES>";
    let two = "<XAVANTES VERSION=\"1\"><ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"sh\"/></ACTIVITY_TYPE>\n\
        <PROCESS_TYPE NAME=\"B\"><BODY><PROCESS NAME=\"a\" TYPE=\"A\"/></BODY></PROCESS_TYPE></XAVANTES>";
    let program = load(&[Text::new("one", one), Text::new("two", two)]).unwrap();
    assert_eq!(program.sources, ["one".into(), "two".into()]);
    let lines: Vec<_> = program.processes.iter().map(|it| (&*it.name, it.source, it.line)).collect();
    assert_eq!(lines, [("A", 0, 2), ("B", 1, 2)]);
    assert!(matches!(program.node(1, NodeId(1)).kind, Kind::Process { process: 0 }));
    let block = program.node(0, NodeId(2));
    assert_eq!(block.line, 4);
    let code = &block.pre_code.as_ref().unwrap().code;
    let mut sandbox = Sandbox::new(Limits::CONTROL, false).unwrap();
    assert_eq!(sandbox.run(code, [], &mut Objects::default()).unwrap_err().line, 6);
    assert!(load(&[]).unwrap().processes.is_empty());
    assert!(load(&[Text::new("empty", "<XAVANTES VERSION=\"1\"/>")]).is_ok());
}

#[test]
fn another_exit_condition_for_a_running_controller() {
    let program = main(
        r#"<ACTIVITY NAME="fit" TYPE="Fit"/><PARFOR NAME="f" TO="9" COLLECT="counter"><IN_PARAMETER NAME="x" TYPE="int" DEFAULT="1"/>
        <ITERATE/></PARFOR><PAR NAME="p"><BLOCK NAME="inner"><OUT_PARAMETER NAME="y" TYPE="int"/></BLOCK></PAR>"#,
    );
    let (parfor, par) = (named(&program, "f").id, named(&program, "p").id);
    let script = condition_override(&program, 0, parfor, "#results > x and completed < n and fit.model ~= ''").unwrap();
    assert_eq!(
        script.inputs,
        [
            Input::Summary(Summary::Results),
            variable(parfor.0, 0),
            Input::Summary(Summary::Completed),
            variable(0, 0),
            Input::Element { scope: NodeId(0), element: NodeId(1), slot: 3 },
        ]
    );
    let arguments = [Value::from(ints(&[1, 2])), Value::Int(1), Value::Int(1), Value::Int(2), "m".into()];
    assert_eq!(run(&script.code, &arguments), [Value::Bool(true)]);
    assert!(condition_override(&program, 0, par, "inner.y == 1 or running == 0").is_ok());
    for (node, text, expected) in [
        (parfor, "complete > 1", "there is no \"complete\" here: did you mean"),
        (parfor, "fit.modle", "did you mean \"model\"?"),
        (par, "results[1]", "COLLECT"),
        (par, "item", "no \"item\""),
        (par, "", "missing"),
        (par, "1 +", "xpected"),
        (par, "n = 1", "xpected"),
        (NodeId::BODY, "true", "parallel"),
        (NodeId(99), "true", "parallel"),
    ] {
        let error = condition_override(&program, 0, node, text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(condition_override(&program, 9, par, "true").is_err());
}

/// What the loader lets through, Luau can compile.
#[test]
fn the_largest_scripts_run() {
    let parameters = |count: usize| -> String {
        (0..count).map(|i| format!("<INOUT_PARAMETER NAME=\"p{i}\" TYPE=\"int\" OPTIONAL=\"true\"/>")).collect()
    };
    let process = |count: usize, code: &str, elements: &str| {
        let text = format!(
            "<PROCESS_TYPE NAME=\"P\">{}<BODY><PRE_CODE>{code}</PRE_CODE>{elements}</BODY></PROCESS_TYPE>",
            parameters(count)
        );
        load(&[Text::new("test.xml", document(&text))])
    };
    let sum = (0..150).map(|i| format!("p{i}")).collect::<Vec<_>>().join("+");
    let writes: String = (0..115).map(|i| format!("p{i} = {i} ")).collect();
    let elements: String = (0..95).map(|i| format!("<BLOCK NAME=\"b{i}\">{}</BLOCK>", parameters(1))).collect();
    let each_element: String = (0..70).map(|i| format!("b{i}.p0 = {i} ")).collect();
    let read_elements: String = (0..95).map(|i| format!("print(b{i}.p0) ")).collect();
    for (count, code, inputs) in
        [(150, format!("print({sum} == 5)"), 150), (115, writes, 115), (0, each_element, 70), (0, read_elements, 95)]
    {
        let program = process(count, &code, &elements).unwrap_or_else(|found| panic!("{found:#?}"));
        let script = nodes(&program)[0].pre_code.as_ref().unwrap();
        assert_eq!(script.inputs.len(), inputs);
        assert_eq!(run(&script.code, &ints(&vec![1; inputs])).len(), script.outputs.len());
    }
    let attributes: String = (0..100).map(|i| format!(" p{i}=\"${{p{i} + 1}}\"")).collect();
    let block = format!("<BLOCK NAME=\"b\"{attributes}>{}</BLOCK>", parameters(100));
    let program = process(100, "", &block).unwrap_or_else(|found| panic!("{found:#?}"));
    let script = named(&program, "b").bindings.as_ref().unwrap().script.as_ref().unwrap();
    assert_eq!(run(&script.code, &ints(&vec![1; 100])), ints(&vec![2; 100]));
}

fn in_small_thread(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn deep_nesting() {
    in_small_thread(|| {
        let depth = 990;
        let open: String = (0..depth).map(|i| format!("<BLOCK NAME=\"b{i}\"><PRE_CODE>print(n)</PRE_CODE>")).collect();
        let program = main(&format!("{open}{}", "</BLOCK>".repeat(depth)));
        assert_eq!(nodes(&program).len(), depth + 1);
        assert_eq!(nodes(&program)[1].end.index(), depth + 1);
        assert_eq!(named(&program, "b989").pre_code.as_ref().unwrap().inputs, [variable(0, 0)]);
        let nested: String = (0..990).map(|i| format!("<BLOCK NAME=\"b{i}\" bad=\"${{x\"><CODE/>")).collect();
        let text = document(&format!(
            "<PROCESS_TYPE NAME=\"P\"><BODY>{nested}{}</BODY></PROCESS_TYPE>",
            "</BLOCK>".repeat(990)
        ));
        assert!(load(&[Text::new("test.xml", text)]).is_err());
    });
}

#[test]
fn wide_documents() {
    in_small_thread(|| {
        let started = Instant::now();
        let count = 100_000;
        let block: String =
            (0..count).map(|i| format!("<ACTIVITY NAME=\"a{i}\" TYPE=\"Fit\" depth=\"${{n}}\"/>\n")).collect();
        let program = main(&block);
        assert_eq!(nodes(&program)[0].elements.len(), count);
        println!("block {:?}", started.elapsed());
        // Each waits for the one before and for the first, and reads both.
        let element = |i: usize| {
            format!("<ACTIVITY NAME=\"a{i}\" TYPE=\"Fit\" AFTER=\"a{} a0\" label=\"${{a{}.model}}\"/>", i - 1, i - 1)
        };
        let par: String = (1..count).map(element).collect();
        let program = main(&format!("<PAR NAME=\"p\"><ACTIVITY NAME=\"a0\" TYPE=\"Fit\"/>{par}</PAR>"));
        let Kind::Par { waits_for, dependents, .. } = &nodes(&program)[1].kind else { panic!() };
        assert_eq!((waits_for[1], waits_for[2], dependents[0].len()), (1, 2, count - 1));
        println!("par {:?}", started.elapsed());
        // A document of nearly the largest size, most of it code of which each name is found far outside.
        let code = "out = n + 1 ".repeat(20);
        let scope = format!(
            "<BLOCK NAME=\"NAME\"><OUT_PARAMETER NAME=\"out\" TYPE=\"int\"/><PRE_CODE>{code}</PRE_CODE></BLOCK>"
        );
        let scopes: String = (0..45_000).map(|i| scope.replace("NAME=\"NAME\"", &format!("NAME=\"s{i}\""))).collect();
        let (open, close): (String, String) =
            ((0..900).map(|i| format!("<BLOCK NAME=\"d{i}\">")).collect(), "</BLOCK>".repeat(900));
        main(&format!("{open}{scopes}{close}"));
        println!("large {} bytes {:?}", scopes.len(), started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    });
}

#[test]
fn how_programs_are_run() {
    let program = program(
        r#"<ACTIVITY_TYPE NAME="Run"><IN_PARAMETER NAME="n" TYPE="int"/>
        <OUT_PARAMETER NAME="a" TYPE="int" FROM="stdout-trimmed"/><OUT_PARAMETER NAME="b" TYPE="int"/>
        <INOUT_PARAMETER NAME="c" TYPE="int" FROM=" exit-status "/>
        <ENV NAME="THREADS" VALUE="${n * 2}"/><ENV NAME="WORD" VALUE="a ${attempt}"/>
        <REQUIRES SCRATCH="1KiB" OPEN_FILES="64" PROCESSES="8"/>
        <CODE LANGUAGE="sh" IMAGE="debian:12" SUCCESS="0,3" RETRY="75, 100-110">true</CODE></ACTIVITY_TYPE>
        <PROCESS_TYPE NAME="P"><BODY/></PROCESS_TYPE>"#,
    );
    let run_type = program.activities.last().unwrap();
    let requires = &run_type.requires;
    assert_eq!((requires.scratch, requires.open_files, requires.processes), (1024, 64, 8));
    let Launch { image, environment, success, retry, captures } = &run_type.launch;
    assert_eq!(image.as_deref(), Some("debian:12"));
    assert_eq!(environment.names, ["THREADS".into(), "WORD".into()]);
    let arguments = [Value::Int(4), Value::Null, Value::Null, Value::Null, Value::Int(2)];
    assert_eq!(run(environment.code.as_ref().unwrap(), &arguments), [Value::Int(8), "a 2".into()]);
    assert!([0, 3].iter().all(|status| success.contains(*status)) && !success.contains(1));
    let retry = retry.as_ref().unwrap();
    assert!([75, 100, 110].iter().all(|status| retry.contains(*status)));
    assert!(![0, 111, -1, 1000].iter().any(|status| retry.contains(*status)));
    assert_eq!(captures, &[None, Some(Capture::Trimmed), None, Some(Capture::ExitStatus)]);
    assert!(Launch::default().success.contains(0) && !Launch::default().success.contains(3));
}
