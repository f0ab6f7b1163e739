//! One live element: where it stands in the definition, its phase, its variables and its counters.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind};
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::failure::Failure;
use crate::outcome::{Outcome, StopReason};
use crate::state::body::Body;
use crate::time::Time;

/// A live element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instance {
    pub parent: Option<ElementId>,
    /// The number of elements around it.
    pub depth: u32,
    /// The number of calls of process types around it.
    pub call_depth: u32,
    /// The process type of the scope around it, of which `site` is a node.
    pub site_process: u32,
    pub site: DefinitionNodeId,
    /// The process type whose `node` it runs: the site itself, or the `BODY` of the process type that the site calls.
    pub process: u32,
    pub node: DefinitionNodeId,
    /// The number of its iteration in its loop, from 0.
    pub ordinal: u64,
    /// It runs on another coordinator.
    pub delegated: bool,
    pub phase: Phase,
    pub body: Body,
    pub variables: Vec<Value>,
    /// Parameters that code set for elements that have not begun, by element and slot.
    pub inputs: BTreeMap<(DefinitionNodeId, u32), Value>,
    /// Variables of ended elements that code may still read.
    pub kept: BTreeMap<DefinitionNodeId, Vec<Value>>,
    /// Shared objects that end with this element.
    pub owned: Vec<u64>,
    /// The live `CATCH` or `FINALLY`.
    pub handler: Option<ElementId>,
    /// How the last `CATCH` or `FINALLY` ended.
    pub handled: Option<Outcome>,
    /// The first failure of an element in it that makes this element fail.
    pub pending_failure: Option<Box<Failure>>,
    /// How far this try came.
    pub reached: Reached,
    /// Elements in it that ended without completing, and with which a reopened process goes on. By their former ids.
    pub unfinished: Vec<ElementId>,
    /// Failed tries.
    pub failures: u32,
    /// Tries after the first.
    pub restarts: u32,
    /// Attempts that the engine handed out.
    pub attempts: u32,
    /// When it began, as the history counts the time.
    pub began: Time,
    /// When a user paused it.
    pub paused: Option<Time>,
    /// When the current try times out.
    pub deadline: Option<Time>,
}

/// The phase of an element's life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Its parameters have values; `PRE_CODE` comes next.
    Entered,
    /// `PRE_CODE` ran; the engine evaluates the bounds next.
    Prepared,
    /// Its body runs.
    Running,
    /// The elements in its body are being cancelled.
    Stopping(StopReason),
    /// `POST_CODE` ran.
    Posted,
    /// `CATCH` runs.
    Catching(Box<Failure>),
    /// `FINALLY` runs, before the element ends with `outcome`.
    Finishing { outcome: Outcome, collected: Option<Value> },
    /// A try failed; the next begins at `until`.
    Waiting { until: Time, error: Box<Failure> },
    /// It failed, and a user must retry or cancel it.
    Held(Box<Failure>),
    /// A leaf without an attempt, to be handed out.
    Ready,
    /// A leaf with an outstanding attempt.
    Outstanding(Box<OutstandingAttempt>),
}

/// How far the current try of an element came, for the case that a user reopens the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reached {
    /// Neither `PRE_CODE` nor the evaluation of bounds is known to have taken place; its body is not done.
    #[default]
    Body,
    /// Its exit condition held: `POST_CODE` comes next.
    Exit,
    /// Everything but `FINALLY` completed.
    End,
    /// `PRE_CODE` ran: the bounds come next.
    Prepared,
    /// `PRE_CODE` ran, and the bounds are known: its body is not done.
    Began,
}

impl Reached {
    /// The body is not done.
    pub fn is_in_body(self) -> bool {
        matches!(self, Reached::Body | Reached::Prepared | Reached::Began)
    }
}

/// An attempt that the engine handed out and that has not been answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutstandingAttempt {
    /// Why the engine asked it to stop.
    pub stop: Option<StopReason>,
    /// Calls of shared objects, by caller.
    pub calls: BTreeMap<u64, CallWindow>,
}

/// The caller of the calls of an activity that this coordinator dispatched itself. Other callers are in delegated elements.
pub(crate) const OWN_CALLS: u64 = 0;

/// The calls of one caller that change shared objects. Its answers make repeated calls harmless.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallWindow {
    /// The number of the last call.
    pub last: u64,
    /// Answers that the caller has not acknowledged, each with the number of its call.
    pub answers: VecDeque<(u64, Result<Value, String>)>,
}

/// A node of a process type of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeAddress {
    pub process: u32,
    pub node: DefinitionNodeId,
}

impl Instance {
    /// An element that stands at `site`, runs `runs`, and has not done anything.
    #[inline]
    pub fn new(site: NodeAddress, runs: NodeAddress, phase: Phase, body: Body) -> Self {
        Self {
            parent: None,
            depth: 0,
            call_depth: 0,
            site_process: site.process,
            site: site.node,
            process: runs.process,
            node: runs.node,
            ordinal: 0,
            delegated: false,
            phase,
            body,
            variables: Vec::new(),
            inputs: BTreeMap::new(),
            kept: BTreeMap::new(),
            owned: Vec::new(),
            handler: None,
            handled: None,
            pending_failure: None,
            reached: Reached::Body,
            unfinished: Vec::new(),
            failures: 0,
            restarts: 0,
            attempts: 0,
            began: Time(0),
            paused: None,
            deadline: None,
        }
    }

    /// The live elements directly in this one, with its live handler.
    #[inline]
    pub fn children(&self) -> impl Iterator<Item = ElementId> + '_ {
        let (single, many) = match &self.body {
            Body::Sequence { current, .. } | Body::Choice { current, .. } => (*current, None),
            body => (None, body.join().map(|join| join.live.values().copied())),
        };
        self.handler.into_iter().chain(single).chain(many.into_iter().flatten())
    }

    #[inline]
    pub fn has_children(&self) -> bool {
        self.children().next().is_some()
    }

    /// When the element next needs [`Input::TimePassed`](crate::Input::TimePassed).
    #[inline]
    pub fn timer(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Outstanding(attempt) if attempt.stop.is_some() => None,
            Phase::Entered | Phase::Prepared | Phase::Running | Phase::Outstanding(_) => self.deadline,
            _ => None,
        }
    }

    /// It is being cancelled, or runs its `FINALLY` after a cancellation.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        matches!(
            &self.phase,
            Phase::Stopping(StopReason::Cancelled) | Phase::Finishing { outcome: Outcome::Cancelled, .. }
        )
    }

    /// A user asked for a new try while it ran. Such a try does not count as failed.
    pub fn is_restarted(&self) -> bool {
        match &self.phase {
            Phase::Outstanding(attempt) => attempt.stop == Some(StopReason::Restart),
            Phase::Stopping(stop) => *stop == StopReason::Restart,
            Phase::Finishing { outcome, .. } => *outcome == Outcome::Restart,
            _ => false,
        }
    }

    /// A pause stops it and its time-out. An outstanding activity runs on during a pause.
    pub fn is_pausable(&self) -> bool {
        self.delegated || !matches!(self.phase, Phase::Outstanding(_))
    }
}

/// The engine must evaluate the node's bounds before its body runs.
#[inline]
pub(crate) fn has_bounds(node: &DefinitionNode) -> bool {
    matches!(&node.kind, Kind::For { .. } | Kind::Switch { parallel: Some(_), .. })
        || node.kind.parallel().is_some_and(|parallel| parallel.join.is_some() || parallel.max.is_some())
}

/// The phase in which an element begins: it skips `PRE_CODE` and bounds that the node does not have.
#[inline]
pub(crate) fn first_phase(node: &DefinitionNode) -> Phase {
    match (node.pre_code.is_some(), has_bounds(node)) {
        (true, _) => Phase::Entered,
        (false, true) => Phase::Prepared,
        (false, false) => Phase::Running,
    }
}
