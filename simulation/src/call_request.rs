//! Calls to a coordinator: requests of users and of other coordinators, and their answers.

use std::sync::Arc;

use xavantes_process_coordinator::handover::SubtreePlace;
use xavantes_process_coordinator::process::driver_input::Steering;
use xavantes_proto::AttemptKey;

/// A request to a coordinator.
#[derive(Debug, Clone)]
pub enum CallRequest {
    Submit {
        id: Arc<str>,
        process_type: &'static str,
        n: i64,
    },
    Steer {
        path: Arc<str>,
        action: Steering,
    },
    Moved(AttemptKey, SubtreePlace),
    /// Retry an ended process.
    Reopen(Arc<str>),
    /// Cancel a held process.
    CancelHeld(Arc<str>),
}

/// The receiver of an answer.
#[derive(Debug, Clone)]
pub enum ReplyTo {
    /// The user whose request has this ticket.
    User(u64),
    /// The coordinator, in this life, whose report of a move has this ticket.
    Moved(usize, u32, u64),
    /// A move notice in this store. It loses its place if no process waits for the subtree.
    MoveNotice(usize, Box<AttemptKey>),
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallAnswer {
    Done,
    /// The place of a subtree is not recorded yet.
    Noted,
    /// No process waits for a subtree.
    Unwanted,
    Rejected,
    /// Ask the coordinator at this address.
    There(String),
    /// The call, or its answer, was lost.
    Nothing,
}
