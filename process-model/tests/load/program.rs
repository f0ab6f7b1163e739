//! Whole programs: order of nodes, types across documents, delegation, new conditions.

use xavantes_model::definition::*;
use xavantes_model::diagnostic::Source as Text;
use xavantes_model::load::{compile_exit_condition, document_hash, load, missing_imports};
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;

use crate::support::{ints, main, named, nodes, run, variable, variables};

#[test]
fn the_example_of_the_language_reference_is_loaded() {
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
        source: LoopSource::Count { from: None, to: None, step: None, inputs: 5 },
        parallel: Some(parallel),
        ..
    } = &parfor.kind
    else {
        panic!("{:?}", parfor.kind)
    };
    assert_eq!(parallel.exit.as_ref().unwrap().inputs, [variable(1, 4), variable(1, 2)]);
    let pre = body.pre_code.as_ref().unwrap();
    let element = |slot| ScriptTarget::Element { element: DefinitionNodeId(1), slot };
    let primes = ScriptTarget::Variable { node: DefinitionNodeId(0), slot: 4 };
    assert_eq!(
        pre.outputs,
        [primes, element(0), element(1), element(2), element(3), element(4), element(5), element(6)]
    );
    // The engine keeps the results of an element only if some code reads them.
    assert!(activity.kept && !parfor.kept);
    assert_eq!(parfor.delegate, Delegate::Auto);
    assert_eq!(
        program.processes[0].captures(DefinitionNodeId(1)),
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
    assert_eq!(body.elements, [DefinitionNodeId(1), DefinitionNodeId(4), DefinitionNodeId(10)]);
    assert_eq!((body.catch, body.finally), (Some(DefinitionNodeId(11)), Some(DefinitionNodeId(12))));
    assert_eq!(variables(&nodes(&program)[11]), "local error!");
    let Kind::Switch { conditions, parallel: None } = &named(&program, "s").kind else { panic!() };
    assert_eq!(conditions.len(), 3);
    assert_eq!(conditions[2].inputs, [variable(0, 0)]);
    assert_eq!(run(&conditions[1].code, &ints(&[2])), [Value::Bool(true)]);
}

#[test]
fn small_controllers_are_not_delegated() {
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
    assert!(matches!(program.node(1, DefinitionNodeId(1)).kind, Kind::Process { process: 0 }));
    let block = program.node(0, DefinitionNodeId(2));
    assert_eq!(block.line, 4);
    let code = &block.pre_code.as_ref().unwrap().code;
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).unwrap();
    assert_eq!(sandbox.run(code, [], &mut Objects::default()).unwrap_err().line, 6);
    assert!(load(&[]).unwrap().processes.is_empty());
    assert!(load(&[Text::new("empty", "<XAVANTES VERSION=\"1\"/>")]).is_ok());
}

#[test]
fn another_exit_condition_for_a_running_controller() {
    let program = main(
        r#"<ACTIVITY NAME="fit" TYPE="Fit"/><PARFOR NAME="f" TO="9" COLLECT="counter"><IN_PARAMETER NAME="x" TYPE="int" DEFAULT="1"/>
        <ITERATE/></PARFOR><PAR NAME="p"><BLOCK NAME="inner"><OUT_PARAMETER NAME="y" TYPE="int" DEFAULT="1"/></BLOCK></PAR>"#,
    );
    let (parfor, par) = (named(&program, "f").id, named(&program, "p").id);
    let script =
        compile_exit_condition(&program, 0, parfor, "#results > x and completed < n and fit.model ~= ''").unwrap();
    assert_eq!(
        script.inputs,
        [
            ScriptInput::LoopSummary(LoopSummary::Results),
            variable(parfor.0, 0),
            ScriptInput::LoopSummary(LoopSummary::Completed),
            variable(0, 0),
            ScriptInput::Element { scope: DefinitionNodeId(0), element: DefinitionNodeId(1), slot: 3 },
        ]
    );
    let arguments = [Value::from(ints(&[1, 2])), Value::Int(1), Value::Int(1), Value::Int(2), "m".into()];
    assert_eq!(run(&script.code, &arguments), [Value::Bool(true)]);
    assert!(compile_exit_condition(&program, 0, par, "inner.y == 1 or running == 0").is_ok());
    for (node, text, expected) in [
        (parfor, "complete > 1", "there is no \"complete\" here: did you mean"),
        (parfor, "fit.modle", "did you mean \"model\"?"),
        (par, "results[1]", "COLLECT"),
        (par, "item", "no \"item\""),
        (par, "", "missing"),
        (par, "1 +", "xpected"),
        (par, "n = 1", "xpected"),
        (DefinitionNodeId::BODY, "true", "parallel"),
        (DefinitionNodeId(99), "true", "parallel"),
    ] {
        let error = compile_exit_condition(&program, 0, node, text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(compile_exit_condition(&program, 9, par, "true").is_err());
}

#[test]
fn types_are_imported_by_name_and_hash() {
    let library = r#"<XAVANTES VERSION="1"><ACTIVITY_TYPE NAME="Fit"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
        <PROCESS_TYPE NAME="Demo"><BODY/></PROCESS_TYPE></XAVANTES>"#;
    let hash = document_hash(library);
    let importing = |name: &str, hash: &str| {
        let text = format!(
            r#"<XAVANTES VERSION="1"><IMPORT TYPE="{name}" HASH="{hash}"/><PROCESS_TYPE NAME="Main"><BODY>
            <ACTIVITY TYPE="Fit" NAME="fit"/></BODY></PROCESS_TYPE></XAVANTES>"#
        );
        [Text::new("main.xml", text), Text::new("library.xml", library)]
    };
    for digits in [16, 64] {
        let both = importing("Fit", &hash[..digits]);
        let program = load(&both).expect("the import is there");
        assert_eq!(program.entry(None), Ok(program.process("Main").expect("it is there")), "Demo is imported");
        assert_eq!(program.entry(Some("Demo")), Ok(program.process("Demo").expect("it is there")));
        assert!(missing_imports(&both).is_empty());
        let missing = missing_imports(&both[..1]);
        assert_eq!((missing.len(), &*missing[0].name, &*missing[0].hash), (1, "Fit", &hash[..digits]));
    }
    let found = load(&importing("Fitt", &hash)).expect_err("there is no such type");
    let help = found[0].help.as_deref().unwrap_or_default();
    assert!(found.len() == 1 && found[0].code == "unknown-type" && help.contains("\"Fit\""), "{found:?}");
}
