//! The checked form of documents: types made of nodes, every name resolved, every script ready to run.
//!
//! A process type is a list of nodes in document order. DefinitionNode 0 is its `BODY`; the nodes of a subtree are neighbours
//! (`id..node.end`). Code refers to variables by *slot*, the position of a variable in its scope, not by name.
//!
//! | module | content |
//! |---|---|
//! | `program` | [`Program`], [`ProcessType`] and lookups in them |
//! | `definition_node` | [`DefinitionNode`] and [`Kind`], the behaviour of elements and controllers |
//! | `script` | [`Script`], its inputs and targets, [`Bindings`] |
//! | `variable` | [`Variable`] and [`Direction`] |
//! | `policy` | [`Policy`], [`OnFailure`], [`Delegate`] |
//! | `activity` | [`ActivityType`] and everything that a worker needs to run it |
//! | `estimate` | [`Estimate`]: what planners may assume of an activity |
//! | `definition_node_id` | [`DefinitionNodeId`] |

mod activity;
mod definition_node;
mod definition_node_id;
mod estimate;
mod language;
mod policy;
mod program;
mod script;
mod variable;

pub use activity::{
    ActivityCode, ActivityFiles, ActivityType, Capture, Environment, ExitStatuses, FileText, InputFile, Launch,
    OutputFile, Requires,
};
pub use definition_node::{Axis, Bound, DefinitionNode, Forward, Kind, ListValues, LoopSource, Parallel};
pub use definition_node_id::DefinitionNodeId;
pub use estimate::{
    Amount, AssumedFile, Assumptions, Estimate, EstimateCode, EstimateInput, FileAccess, FileEstimate, FileName,
    SizeEstimate,
};
pub use language::Language;
pub use policy::{Delegate, OnFailure, Policy};
pub use program::{ProcessType, Program};
pub use script::{Bindings, LoopSummary, Script, ScriptInput, ScriptTarget};
pub use variable::{Direction, Variable};
