//! State while code is added to the nodes of a process type.

use std::collections::HashSet;

use super::forwards::Forwards;
use super::nodes::NodeDraft;
use super::scope::{ScopeTable, TypeInProgress};
use crate::definition::{DefinitionNode, DefinitionNodeId};
use crate::load::document::ParsedDocument;
use crate::load::report::LoadReport;
use crate::load::signatures::Types;

/// Visits the nodes in document order. The modules `controllers`, `bindings` and `compile` add its methods.
pub(super) struct Linker<'a> {
    pub document: &'a ParsedDocument,
    pub types: &'a Types,
    pub report: &'a mut LoadReport,
    pub nodes: Vec<DefinitionNode>,
    pub drafts: Vec<NodeDraft>,
    pub table: ScopeTable,
    pub forwards: Forwards,
    /// Parameters of elements that the code around them assigns.
    pub assigned: HashSet<(DefinitionNodeId, u32)>,
    /// Scopes whose `PRE_CODE` has errors, so that its assignments are not known.
    pub unclear: HashSet<DefinitionNodeId>,
    /// Scopes whose code raises errors. They may be meant to fail, without results.
    pub raising: HashSet<DefinitionNodeId>,
    /// True if the assignments of some code are not known.
    pub incomplete: bool,
}

impl Linker<'_> {
    /// Returns the names in reach now.
    pub fn names(&self) -> TypeInProgress<'_> {
        let Self { nodes, drafts, types, table, forwards, .. } = self;
        TypeInProgress { nodes, drafts, types, table, forwards }
    }

    /// Marks elements whose results some code reads.
    pub fn keep_results(&mut self, read: Vec<DefinitionNodeId>) {
        read.into_iter().for_each(|element| self.nodes[element.index()].kept = true);
    }
}
