//! Estimates: what planners may assume of activities.

use xavantes_model::definition::*;
use xavantes_model::script::{Error, Sandbox, ScriptLimits};
use xavantes_model::value::Value;

use crate::support::{main, named, program, variable};

const TYPE: &str = r#"<ACTIVITY_TYPE NAME="Work"><IN_PARAMETER NAME="n" TYPE="int"/><IN_PARAMETER NAME="f" TYPE="file"/>
    <OUT_PARAMETER NAME="table" TYPE="file"/><OUT_PARAMETER NAME="log" TYPE="file"/>
    <ESTIMATE SECONDS="${n * 0.5}" GPU_SECONDS="2"><SIZE PARAMETER="table" BYTES="${n * 80}"/>
    <SIZE PARAMETER="log" BYTES="1KiB"/><FILE NAME="common" USE="read" BYTES="5"/></ESTIMATE>
    <CODE LANGUAGE="bash">true</CODE></ACTIVITY_TYPE>"#;

fn process(estimate: &str) -> Program {
    program(&format!(
        r#"{TYPE}<PROCESS_TYPE NAME="Main"><IN_PARAMETER NAME="m" TYPE="int"/><IN_PARAMETER NAME="x" TYPE="file"/><BODY>
        <FOR NAME="loop" TO="3"><ITERATE><ACTIVITY NAME="work" TYPE="Work" n="${{m}}" f="${{x}}">{estimate}</ACTIVITY></ITERATE>
        </FOR></BODY></PROCESS_TYPE>"#
    ))
}

/// Computes the estimate of `work` with `n` = 10 and `counter` = 3.
fn assume(program: &Program) -> Result<Assumptions, Error> {
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false)?;
    let node = named(program, "work");
    program.estimate(node).evaluate(&mut sandbox, |input| match input {
        EstimateInput::Parameter(0) => Some(Value::Int(10)),
        EstimateInput::Around(ScriptInput::Variable { node: DefinitionNodeId(2), .. }) => Some(Value::Int(3)),
        _ => None,
    })
}

fn file(name: &str, access: FileAccess, bytes: Option<f64>) -> AssumedFile {
    AssumedFile { name: name.into(), access, bytes }
}

#[test]
fn an_activity_has_the_estimate_of_its_type() {
    let assumptions = assume(&process("")).unwrap();
    let files = vec![file("common", FileAccess::Read, Some(5.0))];
    let sizes = vec![(2, 800.0), (3, 1024.0)];
    assert_eq!(assumptions, Assumptions { seconds: Some(5.0), gpu_seconds: Some(2.0), sizes, files });
}

#[test]
fn the_estimate_of_an_activity_overrides_that_of_its_type_part_by_part() {
    let own = r#"<ESTIMATE SECONDS="${counter * 7}"><SIZE PARAMETER="log" BYTES="9"/><SIZE PARAMETER="f" BYTES="1MB"/>
        <FILE NAME="part-${counter}" USE="write"/><FILE NAME="common" USE="read" BYTES="6"/></ESTIMATE>"#;
    let assumptions = assume(&process(own)).unwrap();
    assert_eq!((assumptions.seconds, assumptions.gpu_seconds), (Some(21.0), Some(2.0)));
    assert_eq!(assumptions.sizes, [(1, 1e6), (2, 800.0), (3, 9.0)]);
    let files = [file("part-3", FileAccess::Write, None), file("common", FileAccess::Read, Some(6.0))];
    assert_eq!(assumptions.files, files);
}

#[test]
fn an_estimate_that_depends_on_an_unknown_value_is_missing() {
    let assumptions =
        assume(&process(r#"<ESTIMATE SECONDS="${m}"><FILE NAME="a${m}" USE="read"/></ESTIMATE>"#)).unwrap();
    assert_eq!((assumptions.seconds, assumptions.gpu_seconds), (None, Some(2.0)));
    assert_eq!(assumptions.files.len(), 1);
}

#[test]
fn an_estimate_that_gives_no_amount_is_an_error_with_its_line() {
    for (code, message) in
        [("counter - 4", "not int -1"), ("1 / 0", "not float"), ("{}", "number"), ("{} + 1", "arithmetic")]
    {
        let error = assume(&process(&format!("\n<ESTIMATE SECONDS=\"${{counter == 3 and ({code})}}\"/>"))).unwrap_err();
        assert!(error.message.contains(message), "{code}: {error:?}");
        assert!(error.line > 1, "{error:?}");
    }
}

#[test]
fn estimates_see_the_scope_around_the_activity_and_keep_no_results() {
    let activity = |estimate: &str| {
        format!(r#"<ACTIVITY NAME="a" TYPE="Fit"/><ACTIVITY NAME="b" TYPE="Fit">{estimate}</ACTIVITY>"#)
    };
    let with = main(&activity(r#"<ESTIMATE SECONDS="${#a.model + n}"/>"#));
    let Some(Amount::Computed(code)) = &named(&with, "b").estimate.as_ref().unwrap().seconds else { panic!() };
    assert_eq!(code.inputs.len(), 2);
    assert_eq!(code.inputs[1], EstimateInput::Around(variable(0, 0)));
    assert!(!named(&with, "a").kept, "an estimate must not change what the engine keeps");
    assert_eq!(
        with.processes[0].captures(DefinitionNodeId(2)),
        [],
        "an estimate must not change what travels with an element"
    );
}
