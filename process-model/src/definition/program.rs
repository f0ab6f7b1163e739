//! All types of a set of documents, and the lookups that start and run a process.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::activity::ActivityType;
use super::definition_node::{DefinitionNode, Kind};
use super::definition_node_id::DefinitionNodeId;
use super::estimate::Estimate;
use super::script::ScriptInput;
use super::variable::Variable;
use crate::diagnostic::{Diagnostic, did_you_mean};

/// All types of a set of documents, linked to each other.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Names of the documents.
    pub sources: Vec<Arc<str>>,
    /// Positions of the documents that others of them import.
    pub imported: BTreeSet<usize>,
    /// Process types, in document order.
    pub processes: Vec<ProcessType>,
    /// Activity types, in document order.
    pub activities: Vec<ActivityType>,
    /// What its author probably did not mean, in document order.
    pub warnings: Vec<Diagnostic>,
}

impl Program {
    /// Returns the position of the process type called `name`.
    pub fn process(&self, name: &str) -> Option<usize> {
        self.processes.iter().position(|process| &*process.name == name)
    }

    /// Chooses the process type to start: the one called `wanted`, or the only one that no other type calls and that is in no
    /// imported document.
    pub fn entry(&self, wanted: Option<&str>) -> Result<usize, String> {
        let names = || self.processes.iter().map(|process| &*process.name);
        let list = |what: &str| format!("{what}: {}", names().take(20).collect::<Vec<_>>().join(", "));
        if let Some(name) = wanted {
            return self.process(name).ok_or_else(|| {
                let hint = did_you_mean(name, names()).unwrap_or_else(|| list("process types here"));
                format!("there is no process type {name:?}; {hint}")
            });
        }
        let mut called = BTreeSet::new();
        for (caller, process) in self.processes.iter().enumerate() {
            called.extend(process.nodes.iter().filter_map(|node| match node.kind {
                Kind::Process { process } if process != caller => Some(process),
                _ => None,
            }));
        }
        called.extend((0..self.processes.len()).filter(|it| self.imported.contains(&self.processes[*it].source)));
        let uncalled: Vec<usize> = (0..self.processes.len()).filter(|process| !called.contains(process)).collect();
        match uncalled[..] {
            [only] => Ok(only),
            _ if self.processes.is_empty() => Err("the definition has no process type".into()),
            _ => Err(format!("which process type is to run? Say --process NAME; {}", list("there are"))),
        }
    }

    /// Returns a node of a process type.
    pub fn node(&self, process: usize, node: DefinitionNodeId) -> &DefinitionNode {
        &self.processes[process].nodes[node.index()]
    }

    /// Returns the parameters that code around an element can use: those of its type, or those of the controller
    /// itself.
    pub fn signature<'a>(&'a self, node: &'a DefinitionNode) -> &'a [Variable] {
        match &node.kind {
            Kind::Activity { activity } => &self.activities[*activity].parameters,
            Kind::Process { process } => self.processes[*process].parameters(),
            _ => &node.variables,
        }
    }

    /// Returns what planners may assume of an activity: its own estimate, completed with that of its type.
    pub fn estimate(&self, node: &DefinitionNode) -> Estimate {
        let Kind::Activity { activity } = node.kind else { return Estimate::default() };
        let of_type = self.activities[activity].estimate.as_deref();
        match &node.estimate {
            Some(own) => own.or(of_type),
            None => of_type.cloned().unwrap_or_default(),
        }
    }
}

/// A process type.
#[derive(Debug, Clone)]
pub struct ProcessType {
    /// Name, unique among process types.
    pub name: Arc<str>,
    /// Position of the document that defines it, in [`Program::sources`].
    pub source: usize,
    /// Line of its definition.
    pub line: u32,
    /// Number of parameters. They are the first variables of `BODY`; the variables after them belong to `BODY` alone.
    pub parameters: usize,
    /// Nodes in document order; the first is `BODY`.
    pub nodes: Vec<DefinitionNode>,
}

impl ProcessType {
    /// Returns the parameters of the type.
    pub fn parameters(&self) -> &[Variable] {
        &self.nodes[0].variables[..self.parameters]
    }

    /// Returns the inputs from outside a subtree that its scripts read, each once.
    pub fn captures(&self, node: DefinitionNodeId) -> Vec<ScriptInput> {
        let inside = node.0..self.nodes[node.index()].end.0;
        let outside = |input: &&ScriptInput| match input {
            ScriptInput::Variable { node, .. } | ScriptInput::Element { scope: node, .. } => !inside.contains(&node.0),
            ScriptInput::LoopSummary(_) => false,
        };
        let mut captured = Vec::new();
        for inner in &self.nodes[inside.start as usize..inside.end as usize] {
            // The coordinator that delegates the subtree evaluates the bindings of the subtree's root.
            let bindings = (inner.id != node).then_some(inner.bindings.as_ref()).flatten();
            let scripts = inner.scripts().chain(bindings.and_then(|bindings| bindings.script.as_ref()));
            for input in scripts.flat_map(|script| &script.inputs).filter(outside) {
                if !captured.contains(input) {
                    captured.push(*input);
                }
            }
        }
        captured
    }
}
