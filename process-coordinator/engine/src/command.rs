//! Commands: the effects that the engine wants from its driver.

use std::time::Duration;

use xavantes_model::definition::{DefinitionNodeId, ScriptInput};
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::outcome::Outcome;

/// An effect that the driver carries out once the events before it are durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Run an activity on a worker.
    Dispatch {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// The activity type.
        activity: usize,
        /// All parameters in order.
        parameters: Vec<Value>,
        /// How long the activity may run. The time begins when a worker starts the activity; after it, the worker
        /// reports a failure.
        timeout: Option<Duration>,
    },
    /// Have another coordinator run a subprocess or controller.
    Delegate(Box<Delegation>),
    /// Stop an attempt, and send [`Input::Answered`](crate::Input::Answered) once it has stopped.
    Cancel {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
    },
    /// Pause or resume an attempt: a subtree pauses what is in it, and an activity that has not begun waits. One that runs goes
    /// on.
    Pause {
        /// The element.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// True to pause, false to resume.
        paused: bool,
    },
    /// Send the answer to a call of a shared object.
    Reply {
        /// The element whose attempt called.
        element: ElementId,
        /// The attempt.
        attempt: u32,
        /// The caller in the attempt.
        caller: u64,
        /// The number of the call.
        sequence: u64,
        /// The answer.
        result: Result<Value, String>,
    },
    /// Step again with [`Input::Continued`](crate::Input::Continued): this step reached its limit of events.
    Continue,
    /// The process has ended.
    Finish {
        /// How it ended.
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
    /// The node of the subtree's root.
    pub node: DefinitionNodeId,
    /// The root's variables.
    pub variables: Vec<Value>,
    /// Values that the subtree reads from the scopes around it.
    pub captured: Vec<(ScriptInput, Value)>,
    /// The number of calls of process types around the root.
    pub call_depth: u32,
}
