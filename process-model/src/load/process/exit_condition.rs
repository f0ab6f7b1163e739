//! A new exit condition for a process that already runs.

use super::resolver::Resolver;
use super::scope::{CodePlace, CodePosition, FinishedType, readable_summaries};
use crate::definition::{DefinitionNodeId, Program, Script};
use crate::load::grammar::Tag;
use crate::script::{self, Form};

/// Compiles another `EXIT_CONDITION` for a parallel controller. It sees the same names as one in the document.
pub fn compile_exit_condition(
    program: &Program,
    process: usize,
    node: DefinitionNodeId,
    text: &str,
) -> Result<Script, String> {
    let nodes = program.processes.get(process).map_or(&[][..], |process| &process.nodes);
    let Some(controller) = nodes.get(node.index()).filter(|node| node.kind.parallel().is_some()) else {
        return Err("only parallel controllers have an exit condition".into());
    };
    let finished = FinishedType { program, process, scope: node };
    let summaries = readable_summaries(
        Tag::from_name(controller.tag).unwrap_or(Tag::Par),
        controller.kind.collect().is_some(),
        CodePosition::ExitCondition,
    );
    let uses = script::check(text, Form::Expression).map_err(|error| error.message)?;
    let mut resolver = Resolver::new(&finished, node, Form::Expression, &summaries, CodePlace::Other);
    if let Some(problem) = resolver.resolve_all(&uses).into_iter().find(|problem| !problem.warning) {
        return Err(match (problem.help)() {
            Some(help) => format!("{}: {help}", problem.message),
            None => problem.message,
        });
    }
    resolver.expressions(&[text], controller.line).map_err(|too_large| too_large.message)
}
