//! The names in reach of a script, while a type is built and when it is finished.

use std::collections::HashMap;
use std::sync::Arc;

use super::forwards::Forwards;
use super::nodes::{CallSignature, NodeDraft};
use crate::definition::{DefinitionNode, DefinitionNodeId, Direction, Kind, LoopSummary, Program, Variable};
use crate::load::grammar::Tag;
use crate::load::identifiers::single_name;
use crate::load::parameters::Parameters;
use crate::load::report::MAX_CANDIDATES;
use crate::load::signatures::Types;
use crate::script::NameUse;
use crate::value::Type;

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameMeaning {
    /// A variable of a scope.
    Variable { node: DefinitionNodeId, slot: u32 },
    /// An element of a scope.
    Element { scope: DefinitionNodeId, element: DefinitionNodeId },
}

/// The names in reach of a scope.
pub(super) trait Names {
    /// Returns the innermost meaning of a name.
    fn find(&self, name: &str) -> Option<NameMeaning>;
    /// Returns the nodes of the process type.
    fn nodes(&self) -> &[DefinitionNode];
    /// Returns the parameters of an element that code around it can use; `None` if its type does not exist.
    fn signature(&self, element: DefinitionNodeId) -> Option<&[Variable]>;
    /// Returns the position of a parameter of an element.
    fn slot(&self, element: DefinitionNodeId, name: &str) -> Option<u32>;
    /// Returns at most [`MAX_CANDIDATES`] names, innermost first, to compare with a misspelt one.
    fn candidates(&self) -> Vec<&str>;
    /// Returns the element or case of a controller that has this name.
    fn inner(&self, controller: DefinitionNodeId, name: &str) -> Option<DefinitionNodeId>;
    /// Returns the slot of the result of a controller that takes the value of a parameter of one of its elements; `None` if
    /// a finished type has no such result.
    fn forward(&self, controller: DefinitionNodeId, from: (DefinitionNodeId, u32), variable: &Variable) -> Option<u32>;
}

/// The names in reach while the nodes of a type are visited in order. The time of a lookup does not depend on the depth
/// of the scope.
#[derive(Default)]
pub(super) struct ScopeTable {
    meanings: HashMap<Arc<str>, Vec<NameMeaning>>,
    scopes: Vec<(DefinitionNodeId, Vec<Arc<str>>)>,
}

impl ScopeTable {
    /// Leaves all scopes up to `parent`, the scope of the next node.
    pub fn leave(&mut self, parent: Option<DefinitionNodeId>) {
        while let Some((scope, _)) = self.scopes.last()
            && Some(*scope) != parent
        {
            for name in self.scopes.pop().into_iter().flat_map(|(_, names)| names) {
                self.meanings.get_mut(&name).map(Vec::pop);
            }
        }
    }

    /// Enters a scope.
    pub fn enter(&mut self, nodes: &[DefinitionNode], drafts: &[NodeDraft], id: DefinitionNodeId) {
        let node = &nodes[id.index()];
        let mut names = Vec::new();
        let mut add = |name: &Arc<str>, found| {
            self.meanings.entry(name.clone()).or_default().push(found);
            names.push(name.clone());
        };
        // Two elements with the same name are an error; the first one takes precedence.
        for element in node.elements.iter().rev().filter(|element| drafts[element.index()].tag.is_element()) {
            add(&nodes[element.index()].name, NameMeaning::Element { scope: id, element: *element });
        }
        for (slot, variable) in node.variables.iter().enumerate().filter(|(_, variable)| is_visible(variable)) {
            add(&variable.name, NameMeaning::Variable { node: id, slot: slot as u32 });
        }
        self.scopes.push((id, names));
    }
}

/// The implicit results of a controller are visible outside only. Code inside reads the summary instead.
fn is_visible(variable: &Variable) -> bool {
    !(variable.implicit && variable.direction == Direction::Out)
}

/// Names of a type that is being built.
pub(super) struct TypeInProgress<'a> {
    pub nodes: &'a [DefinitionNode],
    pub drafts: &'a [NodeDraft],
    pub types: &'a Types,
    pub table: &'a ScopeTable,
    pub forwards: &'a Forwards,
}

impl TypeInProgress<'_> {
    fn parameters(&self, element: DefinitionNodeId) -> Option<&Parameters> {
        let draft = &self.drafts[element.index()];
        match draft.signature {
            CallSignature::Own => Some(&draft.parameters),
            CallSignature::Activity(activity) => Some(&self.types.activities[activity].parameters),
            CallSignature::Process(process) => Some(&self.types.processes[process].parameters),
            CallSignature::Unknown => None,
        }
    }

    /// Advises to write `${…}` if a text is the name of a value in reach.
    pub fn meant_code(&self, text: &str) -> Option<String> {
        let name = single_name(text)?;
        let is_value = match (self.find(&name.name)?, &name.field) {
            (NameMeaning::Variable { .. }, None) => true,
            (NameMeaning::Element { element, .. }, Some((field, _))) => self.slot(element, field).is_some(),
            _ => false,
        };
        is_value.then(|| format!("did you mean ${{{}}}?", text.trim()))
    }

    /// Returns the slots of the parameters of an element that need a value.
    pub fn needed(&self, element: DefinitionNodeId) -> &[u32] {
        self.parameters(element).map_or(&[], |parameters| &parameters.needed)
    }
}

impl Names for TypeInProgress<'_> {
    fn find(&self, name: &str) -> Option<NameMeaning> {
        self.table.meanings.get(name).and_then(|meanings| meanings.last()).copied()
    }

    fn nodes(&self) -> &[DefinitionNode] {
        self.nodes
    }

    fn signature(&self, element: DefinitionNodeId) -> Option<&[Variable]> {
        match self.drafts[element.index()].signature {
            CallSignature::Own => Some(&self.nodes[element.index()].variables),
            CallSignature::Activity(activity) => Some(&self.types.activities[activity].parameters.variables),
            CallSignature::Process(process) => Some(&self.types.processes[process].parameters.variables),
            CallSignature::Unknown => None,
        }
    }

    fn slot(&self, element: DefinitionNodeId, name: &str) -> Option<u32> {
        self.parameters(element)?.slots.get(name).copied()
    }

    fn candidates(&self) -> Vec<&str> {
        let names = self.table.scopes.iter().rev().flat_map(|(_, names)| names);
        names.take(MAX_CANDIDATES).map(|name| &**name).collect()
    }

    fn inner(&self, controller: DefinitionNodeId, name: &str) -> Option<DefinitionNodeId> {
        self.forwards.inner(self.nodes, controller, name)
    }

    fn forward(&self, controller: DefinitionNodeId, from: (DefinitionNodeId, u32), variable: &Variable) -> Option<u32> {
        Some(self.forwards.slot(self.nodes, controller, from, variable))
    }
}

/// Names of a finished type. A linear search is fast enough for an occasional condition.
pub(super) struct FinishedType<'a> {
    pub program: &'a Program,
    pub process: usize,
    pub scope: DefinitionNodeId,
}

impl FinishedType<'_> {
    fn scopes(&self) -> impl Iterator<Item = &DefinitionNode> {
        std::iter::successors(Some(&self.nodes()[self.scope.index()]), |node| {
            node.parent.map(|parent| &self.nodes()[parent.index()])
        })
    }

    fn elements<'n>(&'n self, scope: &'n DefinitionNode) -> impl Iterator<Item = &'n DefinitionNode> {
        let named = matches!(scope.kind, Kind::Sequence | Kind::Par { .. });
        scope.elements.iter().filter(move |_| named).map(|element| &self.nodes()[element.index()])
    }
}

impl Names for FinishedType<'_> {
    fn find(&self, name: &str) -> Option<NameMeaning> {
        self.scopes().find_map(|scope| {
            let variable = scope.variables.iter().position(|variable| &*variable.name == name && is_visible(variable));
            if let Some(slot) = variable {
                return Some(NameMeaning::Variable { node: scope.id, slot: slot as u32 });
            }
            let element = self.elements(scope).find(|element| &*element.name == name);
            element.map(|element| NameMeaning::Element { scope: scope.id, element: element.id })
        })
    }

    fn nodes(&self) -> &[DefinitionNode] {
        &self.program.processes[self.process].nodes
    }

    fn signature(&self, element: DefinitionNodeId) -> Option<&[Variable]> {
        Some(self.program.signature(&self.nodes()[element.index()]))
    }

    fn slot(&self, element: DefinitionNodeId, name: &str) -> Option<u32> {
        let position = self.signature(element)?.iter().position(|variable| &*variable.name == name);
        position.map(|position| position as u32)
    }

    fn candidates(&self) -> Vec<&str> {
        let names = self.scopes().flat_map(|scope| {
            let variables = scope.variables.iter().filter(|variable| is_visible(variable));
            variables.map(|variable| &*variable.name).chain(self.elements(scope).map(|element| &*element.name))
        });
        names.take(MAX_CANDIDATES).collect()
    }

    fn inner(&self, controller: DefinitionNodeId, name: &str) -> Option<DefinitionNodeId> {
        let mut elements = self.nodes()[controller.index()].elements.iter().copied();
        elements.find(|element| &*self.nodes()[element.index()].name == name)
    }

    fn forward(&self, controller: DefinitionNodeId, from: (DefinitionNodeId, u32), _: &Variable) -> Option<u32> {
        let mut forwards = self.nodes()[controller.index()].forwards.iter();
        forwards.find(|forward| (forward.element, forward.from) == from).map(|forward| forward.to)
    }
}

/// Where a script runs, relative to the elements of its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodePlace {
    /// `PRE_CODE`: before all of them.
    PreCode,
    /// `POST_CODE`: after all of them.
    PostCode,
    /// Attributes of one of them: before it.
    Attributes(DefinitionNodeId),
    /// Conditions, bounds and `COLLECT`.
    Other,
}

/// The element of `scope` that is `node` or contains it. `CATCH` and `FINALLY` are not elements.
pub(super) fn element_around(
    nodes: &[DefinitionNode],
    scope: &DefinitionNode,
    node: DefinitionNodeId,
) -> Option<DefinitionNodeId> {
    let behind = scope.elements.partition_point(|element| *element <= node);
    let element = *scope.elements.get(behind.checked_sub(1)?)?;
    (node < nodes[element.index()].end).then_some(element)
}

/// The part of a controller that a script stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodePosition {
    /// `EXIT_CONDITION`.
    ExitCondition,
    /// `POST_CODE`.
    PostCode,
    /// `CONDITION` of a loop.
    LoopCondition,
}

/// Returns the figures about a loop or parallel controller that its script can read.
pub(super) fn readable_summaries(tag: Tag, collects: bool, position: CodePosition) -> Vec<LoopSummary> {
    if !(tag.is_loop() || tag.is_parallel()) {
        return Vec::new();
    }
    let mut summaries = vec![LoopSummary::Completed, LoopSummary::Failed, LoopSummary::Cancelled];
    summaries.extend((position != CodePosition::PostCode).then_some(LoopSummary::Running));
    summaries.extend(collects.then_some(LoopSummary::Results));
    summaries.extend((position == CodePosition::LoopCondition).then_some(LoopSummary::Counter));
    summaries
}

/// Returns the declared type of the variable or parameter that a name means.
pub(super) fn type_of(names: &impl Names, NameUse { name, field, .. }: &NameUse) -> Option<Type> {
    match (names.find(name)?, field) {
        (NameMeaning::Variable { node, slot }, None) => names.nodes()[node.index()].variables[slot as usize].ty,
        (NameMeaning::Element { element, .. }, Some((field, _))) => {
            names.signature(element)?.get(names.slot(element, field)? as usize)?.ty
        }
        _ => None,
    }
}
