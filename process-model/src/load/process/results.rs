//! Finds `OUT` parameters that no code assigns: an element with one would always fail at its end.

use std::collections::HashSet;

use super::linker::Linker;
use crate::definition::{DefinitionNodeId, Direction, ScriptTarget};

impl Linker<'_> {
    /// Reports `OUT` parameters of the type and of its controllers that no code assigns.
    pub fn check_results(&mut self) {
        if self.incomplete || self.report.is_full() {
            return;
        }
        let scripts = self.nodes.iter().flat_map(|node| node.pre_code.iter().chain(&node.post_code));
        let assigned: HashSet<(DefinitionNodeId, u32)> = scripts
            .flat_map(|script| &script.outputs)
            .filter_map(|target| match target {
                ScriptTarget::Variable { node, slot } => Some((*node, *slot)),
                ScriptTarget::Element { .. } => None,
            })
            .collect();
        let scopes = self.nodes.iter().zip(&self.drafts).filter(|(node, _)| !self.raising.contains(&node.id));
        for (node, draft) in scopes {
            for (slot, variable) in (0u32..).zip(&node.variables) {
                let must = variable.direction == Direction::Out
                    && !variable.implicit
                    && !variable.optional
                    && variable.default.is_none();
                if !must || assigned.contains(&(node.id, slot)) {
                    continue;
                }
                let message = format!("nothing assigns the OUT parameter {:?}", variable.name);
                let span = self.document.span(draft.parameters.span(slot));
                self.report.add("unassigned", span, message, || {
                    let (name, tag) = (&variable.name, node.tag);
                    Some(format!(
                        "assign it in the POST_CODE of this {tag}: {name} = …; or write OPTIONAL=\"true\" or a DEFAULT"
                    ))
                });
            }
        }
    }
}
