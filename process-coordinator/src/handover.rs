//! What a process and the pool hand each other: placements of delegated attempts, and attempts that were recovered.

use serde::{Deserialize, Serialize};

use crate::task::Task;

/// The coordinator that runs a delegated attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtreePlace {
    /// Node name of the coordinator.
    pub node: String,
    /// Address of the coordinator.
    pub address: String,
    /// Epoch of the subtree at that coordinator, as far as known: of two placements the one with the later epoch is right.
    pub epoch: u64,
}

/// An attempt that was outstanding when its process was last recorded.
#[derive(Debug)]
pub struct RecoveredAttempt {
    /// The attempt.
    pub task: Task,
    /// Coordinator to which the attempt went (subtrees only).
    pub place: Option<SubtreePlace>,
    /// The process wants the attempt to stop.
    pub stop: bool,
    /// Last pause or resume sent (subtrees only).
    pub paused: Option<bool>,
}
