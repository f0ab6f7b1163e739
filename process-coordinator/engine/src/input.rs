//! What the world tells the engine, and what the engine wants of the world.

use std::sync::Arc;
use std::time::Duration;

use xavantes_model::definition::{NodeId, ScriptInput};
use xavantes_model::shared::Method;
use xavantes_model::value::{SharedRef, Value};

use crate::failure::Failure;
use crate::id::ElementId;
use crate::state::Outcome;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// An attempt was answered.
    Answered {
        /// Of which element.
        element: ElementId,
        /// Which attempt.
        attempt: u32,
        /// How.
        answer: Answer,
    },
    /// An attempt calls a shared object.
    Called(Box<SharedCall>),
    /// Somebody steers.
    Steered {
        /// Which element.
        path: String,
        /// What is wanted.
        action: Action,
    },
    /// Time passed: a deadline of [`Engine::next_deadline`](crate::Engine::next_deadline) was reached.
    TimePassed,
    /// Go on with what the last step left undone.
    Continued,
}

/// The answer to an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Done: values of the `OUT` and `INOUT` parameters in order.
    Completed(Vec<Value>),
    /// It failed.
    Failed(Box<Failure>),
    /// It stopped because we asked.
    Cancelled,
    /// Whoever ran it is gone.
    Lost,
    /// Nobody takes it: a delegated element runs here instead, an activity is handed out again.
    Refused,
}

/// A call of a shared object by an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedCall {
    /// The element whose attempt calls.
    pub element: ElementId,
    /// The attempt.
    pub attempt: u32,
    /// Who in a delegated subtree calls; 0 for an activity of our own.
    pub caller: u64,
    /// Counts the caller's changing calls, from 1; calls that only read do not count.
    pub sequence: u64,
    /// The caller has the answers up to this number.
    pub acknowledged: u64,
    /// The object.
    pub object: SharedRef,
    /// What is asked.
    pub method: Method,
    /// With what.
    pub arguments: Vec<Value>,
}

/// What a person or program can do to a running process.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// End it now.
    Cancel,
    /// Start nothing new in it.
    Pause,
    /// Go on.
    Resume,
    /// Try again: what waits, is held, or runs.
    Retry,
    /// Change a parameter that was not used yet, a bound, an exit condition.
    Set {
        /// `TO`, `MAX_PARALLEL`, `JOIN`, `EXIT_CONDITION` or the name of a parameter.
        key: String,
        /// As it would be written in a definition.
        value: String,
    },
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Cancel => f.write_str("cancel"),
            Action::Pause => f.write_str("pause"),
            Action::Resume => f.write_str("resume"),
            Action::Retry => f.write_str("retry"),
            Action::Set { key, value } => write!(f, "set {key}={value}"),
        }
    }
}

/// An effect wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Run an activity.
    Dispatch {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// The activity type.
        activity: usize,
        /// All parameters in order.
        parameters: Vec<Value>,
        /// How long it may take from when somebody begins with it; then it has failed.
        timeout: Option<Duration>,
    },
    /// Have another coordinator run a subprocess or controller.
    Delegate(Box<Delegation>),
    /// Stop an attempt, and answer it when it has stopped.
    Cancel {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
    },
    /// Pause or resume a delegated subtree.
    Pause {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// Pause, or resume.
        paused: bool,
    },
    /// The answer to a call of a shared object.
    Reply {
        /// The element whose attempt called.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// Who in it.
        caller: u64,
        /// The number of the call.
        sequence: u64,
        /// The answer.
        result: Result<Value, String>,
    },
    /// Step again with [`Input::Continued`]: this step did as much as one step may.
    Continue,
    /// The process is over.
    Finish {
        /// How.
        outcome: Outcome,
    },
}

/// A subtree for another coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegation {
    /// The element.
    pub element: ElementId,
    /// The attempt.
    pub attempt: u32,
    /// The process type of the subtree's root.
    pub process: usize,
    /// The root.
    pub node: NodeId,
    /// The root's variables.
    pub variables: Vec<Value>,
    /// What it reads from the scopes around it.
    pub captured: Vec<(ScriptInput, Value)>,
    /// How deep in calls of process types it is.
    pub call_depth: u32,
}

/// Why an input changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The answer or call is of an attempt that is over or never was.
    #[error("attempt {attempt} of element {element} is not running")]
    NotRunning {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
    },
    /// The call was made and answered before, and its answer was received.
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
        /// The one that is missing.
        expected: u64,
    },
    /// The process is over.
    #[error("the process has ended")]
    Ended,
    /// No element has that path.
    #[error("{0}")]
    NoSuchElement(Arc<str>),
    /// The element is part of a delegated subtree: ask there.
    #[error("element {element} runs on another coordinator")]
    Delegated {
        /// The delegated element.
        element: ElementId,
        /// Its attempt.
        attempt: u32,
    },
    /// It cannot be done to this element now.
    #[error("{0}")]
    NotPossible(Arc<str>),
}
