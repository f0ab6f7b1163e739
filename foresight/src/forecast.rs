//! The task graph of a process, and where its tasks and numbers come from.

use std::sync::Arc;

use xavantes_model::definition::Requires;
use xavantes_scheduling::Workflow;

use crate::assumption::Assumption;

/// The task graph of a process.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// Tasks, files and edges. Tasks have the paths of their elements as names.
    pub workflow: Workflow,
    /// What each task stands for, by its position.
    pub tasks: Vec<TaskKind>,
    /// What was assumed.
    pub assumptions: Vec<Assumption>,
}

/// What a task stands for.
#[derive(Debug, Clone)]
pub enum TaskKind {
    /// An activity, or several iterations of it one after the other.
    Activity {
        /// The name of its type.
        activity: Arc<str>,
        /// What a worker needs to run it.
        requires: Requires,
        /// Iterations; more than one in a chunk.
        iterations: u64,
        /// Where its seconds come from.
        basis: Basis,
    },
    /// Calls of process types that were not unfolded any further.
    Cut,
    /// Nothing: a point in time at which many tasks have ended, so that others can wait for one instead of all.
    Join,
}

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// `ESTIMATE` of the activity or of its type.
    Estimate,
    /// Past runs.
    History,
    /// Nowhere: a default.
    Default,
}
