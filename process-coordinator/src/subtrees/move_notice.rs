//! Notices of moved subtrees, which coordinators of one realm leave for each other in the repository, and the decisions
//! about them. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::handover::SubtreePlace;
use crate::record_codec;
use xavantes_proto::AttemptKey;

/// A parent that has recorded the place is asked at this interval whether it still waits for the subtree.
pub(crate) const STILL_WANTED_INTERVAL: Duration = Duration::from_secs(30);

/// The new place of a subtree.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MoveNotice {
    process: String,
    element: u64,
    attempt: u32,
    /// Nothing if the parent does not wait for the subtree.
    pub place: Option<SubtreePlace>,
}

impl MoveNotice {
    pub fn new(key: &AttemptKey, place: Option<SubtreePlace>) -> Self {
        Self { process: key.process.to_string(), element: key.element, attempt: key.attempt, place }
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        record_codec::decode("move notice", bytes).ok()
    }

    pub fn key(&self) -> AttemptKey {
        AttemptKey::new(&*self.process, self.element, self.attempt)
    }

    pub fn document_name(key: &AttemptKey) -> String {
        format!("{}/{}/{}", key.element, key.attempt, key.process)
    }
}

/// The parent of a moved subtree, as a coordinator of its realm knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentState {
    /// This coordinator runs it.
    RunsHere,
    /// It has not ended, and another coordinator runs it, or none yet.
    RunsElsewhere,
    /// It has ended, or the repository does not have it.
    Ended,
}

/// What to do when another coordinator reports the move of a subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveReportStep {
    /// Ask the pool, which knows the attempt.
    AskPool,
    /// Answer that no process waits for the subtree.
    Unwanted,
    /// Answer that no process waits for the subtree, and remove the notice that says so.
    UnwantedByNotice,
    /// Leave a notice for the coordinator that runs the parent.
    LeaveNotice,
}

/// Decides about the report of a move. `refused` says that a notice without a place exists.
pub fn on_move_report(parent: ParentState, refused: bool) -> MoveReportStep {
    match parent {
        ParentState::RunsHere => MoveReportStep::AskPool,
        ParentState::Ended => MoveReportStep::Unwanted,
        ParentState::RunsElsewhere if refused => MoveReportStep::UnwantedByNotice,
        ParentState::RunsElsewhere => MoveReportStep::LeaveNotice,
    }
}

/// What to do with a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeStep {
    /// Ask the pool, then remove the notice; or take its place away if no process waits for the subtree.
    AskPool(SubtreePlace),
    /// Leave it for another coordinator.
    Keep,
    /// Remove it.
    Remove,
}

/// Decides about a notice with this place.
pub fn on_notice(parent: ParentState, place: Option<SubtreePlace>) -> NoticeStep {
    match (parent, place) {
        (ParentState::RunsHere, Some(place)) => NoticeStep::AskPool(place),
        (ParentState::RunsHere, None) | (ParentState::RunsElsewhere, _) => NoticeStep::Keep,
        (ParentState::Ended, _) => NoticeStep::Remove,
    }
}
