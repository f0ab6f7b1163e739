//! Events: facts about a process, in the order in which they became true. A journal is a list of events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{DefinitionNodeId, ScriptInput};
use xavantes_model::script::Effects;
use xavantes_model::shared_objects::Call;
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::failure::Failure;
use crate::outcome::{Outcome, StopReason};
use crate::state::body::Range;
use crate::state::size::bytes_of;
use crate::time::Time;

/// A fact. The journal stores variants and fields by position, so their order is part of its format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The process exists; its root element was entered.
    Started {
        /// The id of the process, with which every path begins.
        process: Arc<str>,
        /// The process type of the root.
        root_process: u32,
        /// The node of the root: a `BODY`, or a controller that another coordinator delegated.
        root: DefinitionNodeId,
        /// The root's variables.
        variables: Vec<Value>,
        /// Values that a delegated root reads from the scopes around it.
        captured: Vec<(ScriptInput, Value)>,
        /// The number of calls of process types around the root.
        call_depth: u32,
    },
    /// An element was created, with values for its parameters.
    Entered {
        /// The new element.
        id: ElementId,
        /// The element around it.
        parent: ElementId,
        /// Its node in the parent's process type.
        site: DefinitionNodeId,
        /// The number of its iteration, from 0.
        ordinal: u64,
        /// Values of its variables. An empty list means that no variable has a value.
        variables: Vec<Value>,
        /// When this try times out.
        deadline: Option<Time>,
        /// It will run on another coordinator.
        delegated: bool,
    },
    /// `PRE_CODE` ran.
    Prepared {
        /// The element.
        id: ElementId,
        /// The effects of the code.
        outputs: ScriptOutputs,
    },
    /// The engine evaluated the bounds of a controller; its body runs.
    Began {
        /// The controller.
        id: ElementId,
        /// The bounds.
        bounds: Box<Bounds>,
    },
    /// The condition of a `PARWHILE` was false: it begins no more iterations.
    Closed {
        /// The loop.
        id: ElementId,
    },
    /// `POST_CODE` ran.
    Posted {
        /// The element.
        id: ElementId,
        /// The effects of the code.
        outputs: ScriptOutputs,
    },
    /// The engine handed out an attempt.
    Sent {
        /// The element.
        id: ElementId,
        /// The number of the attempt.
        attempt: u32,
        /// When the attempt times out.
        deadline: Option<Time>,
    },
    /// An attempt called a method that may change a shared object.
    Called {
        /// The element.
        id: ElementId,
        /// The caller in the attempt.
        caller: u64,
        /// The number of the call.
        sequence: u64,
        /// The caller has the answers up to this number.
        acknowledged: u64,
        /// The call.
        call: Call,
    },
    /// An attempt was lost with its worker or coordinator. This is not a failure of the element.
    Lost {
        /// The element.
        id: ElementId,
    },
    /// No coordinator accepts a delegated element: it runs here.
    Recalled {
        /// The element.
        id: ElementId,
        /// When this try times out.
        deadline: Option<Time>,
    },
    /// The element stops: the engine cancels the elements in it.
    Stopping {
        /// The element.
        id: ElementId,
        /// Why it stops.
        stop: StopReason,
    },
    /// `CATCH` begins.
    Catching {
        /// The controller.
        id: ElementId,
        /// The failure that it handles.
        error: Box<Failure>,
    },
    /// Everything but `FINALLY` ended.
    Finishing {
        /// The controller.
        id: ElementId,
        /// How it ends after `FINALLY`.
        outcome: Outcome,
        /// The value that its loop collects.
        collected: Option<Value>,
    },
    /// A try failed; the next one begins later.
    Waiting {
        /// The element.
        id: ElementId,
        /// When the next try begins.
        until: Time,
        /// Why the try failed.
        error: Box<Failure>,
    },
    /// The element failed and waits until a user retries or cancels it.
    Held {
        /// The element.
        id: ElementId,
        /// Why it failed.
        error: Box<Failure>,
    },
    /// A new try begins from the start.
    Restarted {
        /// The element.
        id: ElementId,
        /// Values of its variables.
        variables: Vec<Value>,
        /// When this try times out.
        deadline: Option<Time>,
    },
    /// The element ended.
    Ended {
        /// The element.
        id: ElementId,
        /// How it ended.
        outcome: Outcome,
        /// Values of the `OUT` and `INOUT` parameters in order, from the answer to an attempt.
        results: Vec<Value>,
        /// The value that its loop collects.
        collected: Option<Value>,
    },
    /// A user paused the element.
    Paused {
        /// The element.
        id: ElementId,
        /// When.
        at: Time,
    },
    /// A user resumed the element.
    Resumed {
        /// The element.
        id: ElementId,
        /// Milliseconds by which the time-outs in it move.
        shift: u64,
    },
    /// A user changed the element with `set`.
    Changed {
        /// The element.
        id: ElementId,
        /// The change.
        change: ElementChange,
    },
    /// The time, for the history of the events that follow.
    Clock {
        /// Now.
        at: Time,
    },
    /// A user intervened. Other events carry the effects.
    Steered {
        /// The path of the element.
        path: String,
        /// What the user asked for.
        what: String,
        /// The user, as the client said it.
        by: String,
    },
    /// An attempt called a method of a shared object, and the engine refused the call.
    CallRefused {
        /// The element.
        id: ElementId,
        /// The caller in the attempt.
        caller: u64,
        /// The number of the call, from 1 for each caller.
        sequence: u64,
        /// The caller has the answers up to this number.
        acknowledged: u64,
        /// Why the engine refused it.
        message: String,
    },
    /// An attempt made the same call as the lost attempt before it: it gets the same answer, and nothing changes.
    CallRepeated {
        /// The element.
        id: ElementId,
        /// The caller in the attempt.
        caller: u64,
        /// The number of the call, from 1 for each caller.
        sequence: u64,
        /// The caller has the answers up to this number.
        acknowledged: u64,
        /// The call.
        call: Call,
    },
}

impl Event {
    /// The bytes of the values in the event, approximately. Values in failures are short, and do not count.
    pub fn bytes(&self) -> u64 {
        let values = match self {
            Event::Started { variables, captured, .. } => {
                bytes_of(variables) + bytes_of(captured.iter().map(|(_, value)| value))
            }
            Event::Entered { variables, .. } | Event::Restarted { variables, .. } => bytes_of(variables),
            Event::Prepared { outputs, .. } | Event::Posted { outputs, .. } => outputs.bytes(),
            Event::Began { bounds, .. } => bounds.range.as_ref().map_or(0, Range::bytes),
            Event::Called { call, .. } => bytes_of(&call.arguments),
            Event::Finishing { collected, .. } => bytes_of(collected),
            Event::Ended { results, collected, .. } => bytes_of(results) + bytes_of(collected),
            Event::Changed { change: ElementChange::Parameter(_, _, value), .. } => value.bytes(),
            _ => 0,
        };
        size_of::<Event>() as u64 + values
    }

    /// The element that the event is about.
    pub fn element(&self) -> Option<ElementId> {
        match self {
            Event::Started { .. } | Event::Clock { .. } | Event::Steered { .. } => None,
            Event::Entered { id, .. }
            | Event::Prepared { id, .. }
            | Event::Began { id, .. }
            | Event::Closed { id }
            | Event::Posted { id, .. }
            | Event::Sent { id, .. }
            | Event::Called { id, .. }
            | Event::CallRepeated { id, .. }
            | Event::Lost { id }
            | Event::Recalled { id, .. }
            | Event::Stopping { id, .. }
            | Event::Catching { id, .. }
            | Event::Finishing { id, .. }
            | Event::Waiting { id, .. }
            | Event::Held { id, .. }
            | Event::Restarted { id, .. }
            | Event::Ended { id, .. }
            | Event::Paused { id, .. }
            | Event::Resumed { id, .. }
            | Event::CallRefused { id, .. }
            | Event::Changed { id, .. } => Some(*id),
        }
    }
}

/// The effects of code: assignments, and operations on shared objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptOutputs {
    /// Assignments.
    pub sets: Vec<(AssignmentTarget, Value)>,
    /// Shared objects that the code created and calls that changed them.
    pub effects: Effects,
}

impl ScriptOutputs {
    /// The bytes of the values in the outputs.
    pub(crate) fn bytes(&self) -> u64 {
        let assigned = self.sets.iter().map(|(_, value)| value);
        bytes_of(assigned) + bytes_of(self.effects.calls.iter().flat_map(|call| &call.arguments))
    }
}

/// Where an assignment stores its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AssignmentTarget {
    /// A variable of a live element.
    Variable {
        /// The live element.
        owner: ElementId,
        /// The position of the variable.
        slot: u32,
    },
    /// A parameter of an element that has not begun.
    Parameter {
        /// The live element around it.
        owner: ElementId,
        /// The node of the element that has not begun.
        element: DefinitionNodeId,
        /// The position of the parameter.
        slot: u32,
    },
}

/// The bounds of a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The iterations of a loop.
    pub range: Option<Range>,
    /// The cases of a `PARSWITCH` whose conditions hold, by position.
    pub selected: Vec<u32>,
    /// `MAX_PARALLEL`.
    pub max: Option<u64>,
    /// `JOIN`.
    pub join: Option<u64>,
}

/// What `set` changes in a live element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ElementChange {
    /// `MAX_PARALLEL`.
    MaxParallel(u64),
    /// `JOIN`.
    Join(u64),
    /// The number of iterations, from a new `TO`.
    Total(u64),
    /// `EXIT_CONDITION`.
    ExitCondition(Arc<str>),
    /// A parameter of an element that has not begun: its node, the position of the parameter, the value.
    Parameter(DefinitionNodeId, u32, Value),
}
