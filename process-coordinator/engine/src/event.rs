//! Facts about a process, in the order in which they became true. A journal is a list of these.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{NodeId, ScriptInput};
use xavantes_model::script::Effects;
use xavantes_model::shared::Call;
use xavantes_model::value::Value;

use crate::failure::Failure;
use crate::id::{ElementId, Time};
use crate::state::{Outcome, Range, Stop};

/// A fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The process exists; its root element was entered.
    Started {
        /// The id of the process, which begins every path.
        process: Arc<str>,
        /// The process type of the root.
        root_process: u32,
        /// The root: a `BODY`, or the controller that was delegated to us.
        root: NodeId,
        /// The root's variables.
        variables: Vec<Value>,
        /// What a delegated root reads from the scopes around it.
        captured: Vec<(ScriptInput, Value)>,
        /// How deep in calls of process types the root is.
        call_depth: u32,
    },
    /// An element was created, with values for its parameters.
    Entered {
        /// Its id.
        id: ElementId,
        /// The element around it.
        parent: ElementId,
        /// What it is, among the nodes of its parent's process type.
        site: NodeId,
        /// Which iteration, from 0.
        ordinal: u64,
        /// Values of its variables; empty stands for all nothing.
        variables: Vec<Value>,
        /// Until when this try may take.
        deadline: Option<Time>,
        /// It will run on another coordinator.
        delegated: bool,
    },
    /// `PRE_CODE` ran.
    Prepared {
        /// Whose.
        id: ElementId,
        /// What it did.
        outputs: Outputs,
    },
    /// A controller's bounds are known; it runs.
    Began {
        /// Which.
        id: ElementId,
        /// The bounds.
        begin: Box<Begin>,
    },
    /// A `PARWHILE`'s condition failed: it forks no more.
    Closed {
        /// Which.
        id: ElementId,
    },
    /// `POST_CODE` ran.
    Posted {
        /// Whose.
        id: ElementId,
        /// What it did.
        outputs: Outputs,
    },
    /// An attempt was handed out.
    Sent {
        /// Of which element.
        id: ElementId,
        /// Its number.
        attempt: u32,
        /// Until when it may take.
        deadline: Option<Time>,
    },
    /// An attempt called a method of a shared object that may change it.
    Called {
        /// The element.
        id: ElementId,
        /// Who in it.
        caller: u64,
        /// The number of the call.
        sequence: u64,
        /// Answers up to this number were received.
        acknowledged: u64,
        /// What was asked.
        call: Call,
    },
    /// An attempt is lost without blame.
    Lost {
        /// Of which element.
        id: ElementId,
    },
    /// Nobody takes the delegated element: it runs here.
    Recalled {
        /// Which.
        id: ElementId,
        /// Until when this try may take.
        deadline: Option<Time>,
    },
    /// The element winds down: what runs in it is cancelled.
    Stopping {
        /// Which.
        id: ElementId,
        /// Why.
        stop: Stop,
    },
    /// `CATCH` takes over.
    Catching {
        /// Of which controller.
        id: ElementId,
        /// What happened.
        error: Box<Failure>,
    },
    /// All but `FINALLY` is over.
    Finishing {
        /// Of which controller.
        id: ElementId,
        /// How it will have ended.
        outcome: Outcome,
        /// What its loop collects of it.
        collected: Option<Value>,
    },
    /// A try failed; the next one begins later.
    Waiting {
        /// Which element.
        id: ElementId,
        /// When.
        until: Time,
        /// Why it failed.
        error: Box<Failure>,
    },
    /// It failed and waits for somebody to decide.
    Held {
        /// Which element.
        id: ElementId,
        /// Why it failed.
        error: Box<Failure>,
    },
    /// A new try begins, from nothing.
    Restarted {
        /// Which element.
        id: ElementId,
        /// Values of its variables.
        variables: Vec<Value>,
        /// Until when this try may take.
        deadline: Option<Time>,
    },
    /// It is over.
    Ended {
        /// Which element.
        id: ElementId,
        /// How.
        outcome: Outcome,
        /// What an attempt answered: values of the `OUT` and `INOUT` parameters in order.
        results: Vec<Value>,
        /// What its loop collects of it.
        collected: Option<Value>,
    },
    /// Somebody paused it.
    Paused {
        /// Which element.
        id: ElementId,
        /// When.
        at: Time,
    },
    /// Somebody resumed it.
    Resumed {
        /// Which element.
        id: ElementId,
        /// How much later the time-outs in it are.
        shift: u64,
    },
    /// Somebody changed it.
    Changed {
        /// Which element.
        id: ElementId,
        /// What.
        change: Change,
    },
    /// The time, for the history of what follows.
    Clock {
        /// Now.
        at: Time,
    },
    /// Somebody intervened, with the effects that other facts tell of.
    Steered {
        /// Where.
        path: String,
        /// What was wanted.
        what: String,
    },
}

impl Event {
    /// The element that it is about.
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
            | Event::Changed { id, .. } => Some(*id),
        }
    }
}

/// What code assigned and did to shared objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outputs {
    /// Assignments.
    pub sets: Vec<(Place, Value)>,
    /// Shared objects.
    pub effects: Effects,
}

/// Where a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A variable of a live element.
    Variable {
        /// Whose.
        owner: ElementId,
        /// Which.
        slot: u32,
    },
    /// A parameter of an element that will be created in a live one.
    Parameter {
        /// The live element.
        owner: ElementId,
        /// The element to be.
        element: NodeId,
        /// Which.
        slot: u32,
    },
}

/// The bounds of a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// What a loop counts through.
    pub range: Option<Range>,
    /// The cases of a `PARSWITCH` that hold.
    pub selected: Vec<u32>,
    /// `MAX_PARALLEL`.
    pub max: Option<u64>,
    /// `JOIN`.
    pub join: Option<u64>,
}

/// What can be changed in a live element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// `MAX_PARALLEL`.
    MaxParallel(u64),
    /// `JOIN`.
    Join(u64),
    /// The number of iterations, from a new `TO`.
    Total(u64),
    /// `EXIT_CONDITION`.
    ExitCondition(Arc<str>),
    /// A parameter of an element that has not begun.
    Parameter(NodeId, u32, Value),
}
