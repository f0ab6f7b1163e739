//! Loads documents and shows parts of the definition.

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Program, ScriptInput};
use xavantes_model::diagnostic::Source as Text;
use xavantes_model::load::load;
use xavantes_model::script::{Argument, Code, Sandbox, ScriptLimits};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;

/// An activity type that the documents use.
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

pub fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{FIT}{types}</XAVANTES>")
}

pub fn program(types: &str) -> Program {
    load(&[Text::new("test.xml", document(types))]).unwrap_or_else(|found| panic!("{found:#?}"))
}

/// Loads a process with parameters `n`, `list`, `text`, `out` around a `BODY`.
pub fn main(body: &str) -> Program {
    program(&format!(
        r#"<PROCESS_TYPE NAME="Main"><IN_PARAMETER NAME="n" TYPE="int"/><IN_PARAMETER NAME="list" TYPE="list"/>
        <IN_PARAMETER NAME="text" TYPE="string"/><OUT_PARAMETER NAME="out" TYPE="int" OPTIONAL="true"/><BODY>{body}</BODY></PROCESS_TYPE>"#
    ))
}

pub fn nodes(program: &Program) -> &[DefinitionNode] {
    &program.processes[0].nodes
}

pub fn named<'p>(program: &'p Program, name: &str) -> &'p DefinitionNode {
    nodes(program).iter().find(|node| &*node.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Lists the variables of a node, with a `!` behind implicit ones.
pub fn variables(node: &DefinitionNode) -> String {
    let shown = node.variables.iter().map(|variable| {
        let direction = format!("{:?}", variable.direction).to_lowercase();
        format!("{direction} {}{}", variable.name, if variable.implicit { "!" } else { "" })
    });
    shown.collect::<Vec<_>>().join(", ")
}

pub fn variable(node: u32, slot: u32) -> ScriptInput {
    ScriptInput::Variable { node: DefinitionNodeId(node), slot }
}

pub fn run(code: &Code, arguments: &[Value]) -> Vec<Value> {
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).unwrap();
    let arguments = arguments.iter().map(Argument::Value);
    sandbox.run(code, arguments, &mut Objects::default()).unwrap_or_else(|error| panic!("{error:?}")).0
}

pub fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().copied().map(Value::Int).collect()
}
