//! Switches become the cases that run, as far as their conditions are known, and one assumed case otherwise.

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Script};

use super::{Error, Walk, WalkContext};
use crate::assumption::{Assumed, AssumptionLog};
use crate::expectation::ExpectationError;
use crate::graph::{Frontier, GraphPart, union};
use crate::known_values::Scopes;

/// What a case unfolded to.
struct Unfolded {
    part: GraphPart,
    exit: Frontier,
    scopes: Scopes,
    assumptions: AssumptionLog,
    name: String,
}

impl Walk<'_> {
    pub(super) fn switch(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        conditions: &[Script],
        parallel: bool,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        let mut selected = Vec::new();
        let mut known = true;
        for (case, condition) in node.elements.iter().zip(conditions) {
            match self.holds(scopes, condition) {
                Some(true) => selected.push(*case),
                Some(false) => continue,
                None => known = false,
            }
            // The first case whose condition holds or may hold decides.
            if !parallel {
                break;
            }
        }
        if !known {
            return self.assumed_case(scopes, node, entry, context);
        }
        if selected.is_empty() {
            selected.extend(node.elements.get(conditions.len()).copied());
        }
        let mut exits = Vec::new();
        for (case, context) in self.shares(scopes.process, &selected, context) {
            exits.push(self.element(scopes, case, None, entry.clone(), context)?);
            scopes.frames.last_mut().into_iter().for_each(|frame| frame.completed += 1);
        }
        Ok(if exits.is_empty() { entry } else { union(exits) })
    }

    /// The case that the user expects, or the one with the most seconds of work.
    fn assumed_case(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        let context = WalkContext { assumed: true, ..context };
        let name = |walk: &Self, case: DefinitionNodeId| walk.program.node(scopes.process, case).name.to_string();
        if let Some(expected) = self.options.expectations.of(&self.path) {
            let found = node.elements.iter().copied().find(|case| name(self, *case) == expected);
            let Some(case) = found else {
                let cases: Vec<_> = node.elements.iter().map(|case| name(self, *case)).collect();
                let (path, value, cases) = (self.path.join("/"), expected.to_owned(), cases.join(", "));
                return Err(ExpectationError::Case { path, value, cases }.into());
            };
            self.assume(Assumed::Branch { case: expected.to_owned(), expected: true });
            return self.element(scopes, case, None, entry, context);
        }
        let first = self.graph.len();
        let mut best: Option<Unfolded> = None;
        for case in node.elements.iter().copied() {
            let name = name(self, case);
            let (mut own, before) = (scopes.clone(), self.assumptions.clone());
            let exit = self.element(&mut own, case, None, entry.clone(), context)?;
            let part = self.graph.take_from(first);
            let assumptions = std::mem::replace(&mut self.assumptions, before);
            if best.as_ref().is_none_or(|best| part.seconds() > best.part.seconds()) {
                best = Some(Unfolded { part, exit, scopes: own, assumptions, name });
            }
        }
        let Some(best) = best else { return Ok(entry) };
        self.graph.put_back(best.part);
        (*scopes, self.assumptions) = (best.scopes, best.assumptions);
        self.assume(Assumed::Branch { case: best.name, expected: false });
        scopes.frames.last_mut().into_iter().for_each(|frame| frame.completed += 1);
        Ok(best.exit)
    }
}
