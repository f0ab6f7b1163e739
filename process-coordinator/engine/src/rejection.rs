//! Why the engine rejects an input.

use std::sync::Arc;

use crate::element_id::ElementId;

/// Why an input changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The attempt of an answer or call has ended, or never existed.
    #[error("attempt {attempt} of element {element} is not running")]
    NotRunning {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
    },
    /// The engine answered the call before, and the caller acknowledged the answer.
    #[error("call {sequence} was answered before")]
    OldCall {
        /// The number of the call.
        sequence: u64,
    },
    /// A call before this one is missing.
    #[error("call {sequence} comes before call {expected}")]
    CallGap {
        /// The number of the call.
        sequence: u64,
        /// The number of the missing call.
        expected: u64,
    },
    /// The process has ended.
    #[error("the process has ended")]
    Ended,
    /// No element has that path.
    #[error("{0}")]
    NoSuchElement(Arc<str>),
    /// The element is part of a delegated subtree. The coordinator that runs the subtree can do it.
    #[error("element {element} runs on another coordinator")]
    Delegated {
        /// The delegated element.
        element: ElementId,
        /// The attempt that runs on the other coordinator.
        attempt: u32,
    },
    /// The condition of the element does not allow the action.
    #[error("{0}")]
    NotPossible(Arc<str>),
}

impl Rejection {
    pub(crate) fn no_such_element(message: impl Into<Arc<str>>) -> Self {
        Rejection::NoSuchElement(message.into())
    }

    pub(crate) fn not_possible(message: impl Into<Arc<str>>) -> Self {
        Rejection::NotPossible(message.into())
    }
}
