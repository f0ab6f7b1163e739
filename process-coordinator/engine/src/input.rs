//! Inputs: what the driver reports to the engine.

use std::fmt;

use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedRef, Value};

use crate::element_id::ElementId;
use crate::failure::Failure;

/// What happened outside the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// An attempt was answered.
    Answered {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// The answer.
        answer: Answer,
    },
    /// An attempt calls a shared object.
    Called(Box<SharedCall>),
    /// A user steers the process.
    Steered {
        /// The path of the element.
        path: String,
        /// What the user asks for.
        action: Action,
    },
    /// A user reopens the ended process: it goes on with everything that failed or was cancelled. Not an action, because a
    /// user who retries an element of a running process does not mean that, if the process ends before the request arrives.
    Reopened {
        /// The path of the process, or of an element that failed or was cancelled.
        path: String,
    },
    /// Time passed: the clock reached [`Engine::next_deadline`](crate::Engine::next_deadline).
    TimePassed,
    /// Go on with the work that the last step left.
    Continued,
}

/// The answer to an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It completed, with the values of the `OUT` and `INOUT` parameters in order.
    Completed(Vec<Value>),
    /// It failed.
    Failed(Box<Failure>),
    /// It stopped because of [`Command::Cancel`](crate::Command::Cancel).
    Cancelled,
    /// The worker or coordinator that ran it is gone.
    Lost,
    /// No worker or coordinator accepts it. The engine runs a delegated element itself, and hands an activity out again.
    Refused,
}

/// A call of a shared object by an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedCall {
    /// The element whose attempt calls.
    pub element: ElementId,
    /// The attempt.
    pub attempt: u32,
    /// The caller in a delegated subtree; 0 for an activity of this process.
    pub caller: u64,
    /// The number of the call among the caller's calls that change an object, from 1. Calls that only read are not
    /// numbered.
    pub sequence: u64,
    /// The caller has the answers up to this number.
    pub acknowledged: u64,
    /// The object.
    pub object: SharedRef,
    /// The method.
    pub method: Method,
    /// The arguments of the method.
    pub arguments: Vec<Value>,
}

/// What a user can ask of an element of a running process.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Cancel it; `FINALLY` still runs. A second cancel cancels `FINALLY` too.
    Cancel,
    /// Start nothing new in it.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Begin a new try of an element that waits, is held, or runs.
    Retry,
    /// Change a bound or exit condition of a running controller, or a parameter of an element that has not begun.
    Set {
        /// `TO`, `MAX_PARALLEL`, `JOIN`, `EXIT_CONDITION` or the name of a parameter.
        key: String,
        /// The value as written in a definition.
        value: String,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Cancel => f.write_str("cancel"),
            Action::Pause => f.write_str("pause"),
            Action::Resume => f.write_str("resume"),
            Action::Retry => f.write_str("retry"),
            Action::Set { key, value } => write!(f, "set {key}={value}"),
        }
    }
}
