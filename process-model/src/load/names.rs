//! Which names are in reach of a script, and which it uses.

use std::collections::HashMap;
use std::sync::Arc;

use super::elements::{Part, Signature};
use super::grammar::Tag;
use super::literals::is_identifier;
use super::parameters::Parameters;
use super::{MOST_CANDIDATES, Types};
use crate::definition::{Direction, Kind, Node, NodeId, Program, Summary, Variable};
use crate::script::NameUse;
use crate::value::Type;

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A variable of a scope.
    Variable { node: NodeId, slot: u32 },
    /// An element of a scope.
    Element { scope: NodeId, element: NodeId },
}

/// The names that are in reach of a scope.
pub(super) trait Names {
    /// The innermost meaning of a name.
    fn find(&self, name: &str) -> Option<Found>;
    /// The nodes of the process type.
    fn nodes(&self) -> &[Node];
    /// The parameters that others see of an element; none if its type does not exist.
    fn signature(&self, element: NodeId) -> Option<&[Variable]>;
    /// The position of a parameter.
    fn slot(&self, element: NodeId, name: &str) -> Option<u32>;
    /// Some of the names, innermost first.
    fn some(&self) -> Vec<&str>;
}

/// The names in reach while a type is walked through. Looking a name up does not depend on how deep the scope is.
#[derive(Default)]
pub(super) struct Table {
    meanings: HashMap<Arc<str>, Vec<Found>>,
    scopes: Vec<(NodeId, Vec<Arc<str>>)>,
}

impl Table {
    /// Leaves the scopes that `node` is not in.
    pub fn leave(&mut self, parent: Option<NodeId>) {
        while let Some((scope, _)) = self.scopes.last()
            && Some(*scope) != parent
        {
            for name in self.scopes.pop().into_iter().flat_map(|(_, names)| names) {
                self.meanings.get_mut(&name).map(Vec::pop);
            }
        }
    }

    /// Enters a scope.
    pub fn enter(&mut self, nodes: &[Node], parts: &[Part], id: NodeId) {
        let node = &nodes[id.index()];
        let mut names = Vec::new();
        let mut add = |name: &Arc<str>, found| {
            self.meanings.entry(name.clone()).or_default().push(found);
            names.push(name.clone());
        };
        // Of two with the same name, which is an error, the first is the one that is meant.
        for element in node.elements.iter().rev().filter(|element| parts[element.index()].tag.is_element()) {
            add(&nodes[element.index()].name, Found::Element { scope: id, element: *element });
        }
        for (slot, variable) in node.variables.iter().enumerate().filter(|(_, variable)| is_visible(variable)) {
            add(&variable.name, Found::Variable { node: id, slot: slot as u32 });
        }
        self.scopes.push((id, names));
    }
}

/// What a controller tells about itself is for readers outside; inside, code asks for its summary.
fn is_visible(variable: &Variable) -> bool {
    !(variable.implicit && variable.direction == Direction::Out)
}

/// A type being built.
pub(super) struct Building<'a> {
    pub nodes: &'a [Node],
    pub parts: &'a [Part],
    pub types: &'a Types,
    pub table: &'a Table,
}

impl Building<'_> {
    fn parameters(&self, element: NodeId) -> Option<&Parameters> {
        let part = &self.parts[element.index()];
        match part.signature {
            Signature::Own => Some(&part.parameters),
            Signature::Activity(activity) => Some(&self.types.activities[activity].parameters),
            Signature::Process(process) => Some(&self.types.processes[process].parameters),
            Signature::Unknown => None,
        }
    }

    /// The parameters of an element that somebody must give a value.
    pub fn needed(&self, element: NodeId) -> &[u32] {
        self.parameters(element).map_or(&[], |parameters| &parameters.needed)
    }
}

impl Names for Building<'_> {
    fn find(&self, name: &str) -> Option<Found> {
        self.table.meanings.get(name).and_then(|meanings| meanings.last()).copied()
    }

    fn nodes(&self) -> &[Node] {
        self.nodes
    }

    fn signature(&self, element: NodeId) -> Option<&[Variable]> {
        match self.parts[element.index()].signature {
            Signature::Own => Some(&self.nodes[element.index()].variables),
            Signature::Activity(activity) => Some(&self.types.activities[activity].parameters.variables),
            Signature::Process(process) => Some(&self.types.processes[process].parameters.variables),
            Signature::Unknown => None,
        }
    }

    fn slot(&self, element: NodeId, name: &str) -> Option<u32> {
        self.parameters(element)?.slots.get(name).copied()
    }

    fn some(&self) -> Vec<&str> {
        let names = self.table.scopes.iter().rev().flat_map(|(_, names)| names);
        names.take(MOST_CANDIDATES).map(|name| &**name).collect()
    }
}

/// A type that is complete; names are searched for, which is fast enough for one condition now and then.
pub(super) struct Finished<'a> {
    pub program: &'a Program,
    pub process: usize,
    pub scope: NodeId,
}

impl Finished<'_> {
    fn scopes(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&self.nodes()[self.scope.index()]), |node| {
            node.parent.map(|parent| &self.nodes()[parent.index()])
        })
    }

    fn elements<'n>(&'n self, scope: &'n Node) -> impl Iterator<Item = &'n Node> {
        let named = matches!(scope.kind, Kind::Sequence | Kind::Par { .. });
        scope.elements.iter().filter(move |_| named).map(|element| &self.nodes()[element.index()])
    }
}

impl Names for Finished<'_> {
    fn find(&self, name: &str) -> Option<Found> {
        self.scopes().find_map(|scope| {
            let variable = scope.variables.iter().position(|variable| &*variable.name == name && is_visible(variable));
            if let Some(slot) = variable {
                return Some(Found::Variable { node: scope.id, slot: slot as u32 });
            }
            let element = self.elements(scope).find(|element| &*element.name == name);
            element.map(|element| Found::Element { scope: scope.id, element: element.id })
        })
    }

    fn nodes(&self) -> &[Node] {
        &self.program.processes[self.process].nodes
    }

    fn signature(&self, element: NodeId) -> Option<&[Variable]> {
        Some(self.program.signature(&self.nodes()[element.index()]))
    }

    fn slot(&self, element: NodeId, name: &str) -> Option<u32> {
        let position = self.signature(element)?.iter().position(|variable| &*variable.name == name);
        position.map(|position| position as u32)
    }

    fn some(&self) -> Vec<&str> {
        let names = self.scopes().flat_map(|scope| {
            let variables = scope.variables.iter().filter(|variable| is_visible(variable));
            variables.map(|variable| &*variable.name).chain(self.elements(scope).map(|element| &*element.name))
        });
        names.take(MOST_CANDIDATES).collect()
    }
}

/// When a script of a controller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// `EXIT_CONDITION`.
    Exit,
    /// `POST_CODE`.
    Post,
    /// `CONDITION` of a loop.
    Condition,
}

/// What a script of a loop or parallel controller may ask about it.
pub(super) fn summaries(tag: Tag, collects: bool, moment: Moment) -> Vec<Summary> {
    if !(tag.is_loop() || tag.is_parallel()) {
        return Vec::new();
    }
    let mut summaries = vec![Summary::Completed, Summary::Failed, Summary::Cancelled];
    summaries.extend((moment != Moment::Post).then_some(Summary::Running));
    summaries.extend(collects.then_some(Summary::Results));
    summaries.extend((moment == Moment::Condition).then_some(Summary::Counter));
    summaries
}

/// An expression that is nothing but `name` or `name.field`.
pub(super) fn single_name(text: &str) -> Option<NameUse> {
    let trimmed = text.trim();
    let (name, field) = trimmed.split_once('.').map_or((trimmed, None), |(name, field)| (name, Some(field)));
    if !is_identifier(name) || !field.is_none_or(is_identifier) {
        return None;
    }
    let start = text.len() - text.trim_start().len();
    let end = start + name.len();
    let field = field.map(|field| (field.to_owned(), end + 1..end + 1 + field.len()));
    Some(NameUse { name: name.to_owned(), at: start..end, field, write: false, read: true })
}

/// The type of what a name stands for, if it is known.
pub(super) fn type_of(names: &impl Names, NameUse { name, field, .. }: &NameUse) -> Option<Type> {
    match (names.find(name)?, field) {
        (Found::Variable { node, slot }, None) => names.nodes()[node.index()].variables[slot as usize].ty,
        (Found::Element { element, .. }, Some((field, _))) => {
            names.signature(element)?.get(names.slot(element, field)? as usize)?.ty
        }
        _ => None,
    }
}
