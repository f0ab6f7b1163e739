//! Code with its names resolved: what a script reads, what it assigns, and the parameters that attributes set.

use serde::{Deserialize, Serialize};

use super::definition_node_id::DefinitionNodeId;
use crate::script::Code;
use crate::value::Value;

/// Code of a definition with its names resolved.
#[derive(Debug, Clone)]
pub struct Script {
    /// Compiled form. It takes `inputs` and returns `outputs` (statements) or the values of its expressions.
    pub code: Code,
    /// Arguments, in order.
    pub inputs: Vec<ScriptInput>,
    /// Assigned variables and parameters, in the order of the results; empty for expressions.
    pub outputs: Vec<ScriptTarget>,
    /// Line in the document.
    pub line: u32,
}

/// Parameters of an element that its attributes set.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    /// Slots of the element's signature whose values are literals.
    pub literals: Vec<(u32, Value)>,
    /// Computes the values of `targets`, in the scope around the element.
    pub script: Option<Script>,
    /// Slots that receive the values of `script`, in order.
    pub targets: Vec<u32>,
}

/// One argument of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScriptInput {
    /// A variable of the script's own scope or of one around it.
    Variable {
        /// Scope of the variable.
        node: DefinitionNodeId,
        /// Position in that scope.
        slot: u32,
    },
    /// A parameter of an element in the script's own scope or in one around it.
    Element {
        /// Scope of the element.
        scope: DefinitionNodeId,
        /// Element in that scope.
        element: DefinitionNodeId,
        /// Position in the element's signature.
        slot: u32,
    },
    /// Progress of the controller that the script belongs to.
    LoopSummary(LoopSummary),
}

/// Progress figures that the code of a loop or parallel controller can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LoopSummary {
    /// Elements that completed.
    Completed,
    /// Elements that failed.
    Failed,
    /// Elements that were cancelled.
    Cancelled,
    /// Elements that are running.
    Running,
    /// List of the values that `COLLECT` gave.
    Results,
    /// Number of the iteration that is about to begin, from 1.
    Counter,
}

impl LoopSummary {
    /// All figures.
    pub const ALL: [LoopSummary; 6] = [
        LoopSummary::Completed,
        LoopSummary::Failed,
        LoopSummary::Cancelled,
        LoopSummary::Running,
        LoopSummary::Results,
        LoopSummary::Counter,
    ];

    /// Returns the name in code.
    pub fn name(self) -> &'static str {
        match self {
            LoopSummary::Completed => "completed",
            LoopSummary::Failed => "failed",
            LoopSummary::Cancelled => "cancelled",
            LoopSummary::Running => "running",
            LoopSummary::Results => "results",
            LoopSummary::Counter => "counter",
        }
    }
}

/// A variable or parameter that a script assigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScriptTarget {
    /// A variable of the script's own scope, or of the controller whose body the scope is.
    Variable {
        /// Scope of the variable.
        node: DefinitionNodeId,
        /// Position in that scope.
        slot: u32,
    },
    /// A parameter of an element of the script's own scope.
    Element {
        /// Element that the parameter belongs to.
        element: DefinitionNodeId,
        /// Position in the element's signature.
        slot: u32,
    },
}
