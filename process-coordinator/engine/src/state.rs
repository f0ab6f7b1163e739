//! What is alive in a process. Finished elements leave counts and what was asked to be kept, nothing else, so the state
//! is as large as what is in flight.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{Kind, Node, NodeId, Program, ScriptInput};
use xavantes_model::shared::Objects;
use xavantes_model::value::Value;

use crate::failure::Failure;
use crate::history::History;
use crate::id::{ElementId, Time};

/// The whole state of a process: what a snapshot holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The id of the process.
    pub(crate) process: Arc<str>,
    pub(crate) instances: Instances,
    pub(crate) root: Option<ElementId>,
    /// The root's variables at the start, for a new try.
    pub(crate) initial: Vec<Value>,
    /// What a delegated root reads from outside.
    pub(crate) captured: BTreeMap<ScriptInput, Value>,
    pub(crate) objects: Objects,
    /// How the process ended, with its results by name.
    pub(crate) ended: Option<(Outcome, BTreeMap<Arc<str>, Value>)>,
    pub(crate) counts: Counts,
    pub(crate) history: History,
}

/// Numbers about a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Activities whose attempt is out.
    pub out: u64,
    /// Delegated elements whose attempt is out.
    pub delegated: u64,
    /// Elements that rest before their next try, or are held.
    pub resting: u64,
    /// Elements that are paused themselves.
    pub paused: u64,
    /// Activities that completed.
    pub completed: u64,
    /// Activities that failed for good.
    pub failed: u64,
    /// Attempts of activities handed out.
    pub attempts: u64,
}

/// How an element ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// It did what it should.
    Completed,
    /// It did not.
    Failed(Box<Failure>),
    /// It was stopped.
    Cancelled,
    /// It is to be tried again from nothing; only on the way there.
    Restart,
}

/// Why an element winds down before its own end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Stop {
    /// Its exit condition holds.
    Exit,
    /// It is not wanted any more.
    Cancelled,
    /// It failed.
    Failed(Box<Failure>),
    /// Somebody wants it tried again.
    Restart,
}

/// What a loop counts through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Range {
    /// Numbers.
    Count {
        /// The first.
        begin: i64,
        /// From each to the next.
        step: i64,
        /// How many.
        total: u64,
    },
    /// A list.
    List(Arc<Vec<Value>>),
    /// All combinations; the last axis turns fastest.
    Grid(Vec<Arc<Vec<Value>>>, u64),
    /// As long as a condition holds.
    Open,
}

impl Range {
    pub(crate) fn total(&self) -> u64 {
        match self {
            Range::Count { total, .. } | Range::Grid(_, total) => *total,
            Range::List(items) => items.len() as u64,
            Range::Open => u64::MAX,
        }
    }

    /// The value of `counter` in an iteration.
    pub(crate) fn counter(&self, ordinal: u64) -> i64 {
        match self {
            Range::Count { begin, step, .. } => begin.wrapping_add(step.wrapping_mul(ordinal as i64)),
            _ => ordinal as i64 + 1,
        }
    }

    /// The iteration whose `counter` has that value.
    pub(crate) fn ordinal(&self, counter: i64) -> Option<u64> {
        match self {
            Range::Count { begin, step, .. } => {
                let distance = i128::from(counter) - i128::from(*begin);
                let step = i128::from(*step);
                (step != 0 && distance % step == 0).then(|| u64::try_from(distance / step).ok()).flatten()
            }
            _ => u64::try_from(counter.checked_sub(1)?).ok(),
        }
    }
}

/// A live element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instance {
    pub parent: Option<ElementId>,
    pub depth: u32,
    pub call_depth: u32,
    /// Where it stands: a node of the process type of the scope around it.
    pub site_process: u32,
    pub site: NodeId,
    /// What it runs: the site itself, or the `BODY` of the process type that the site calls.
    pub process: u32,
    pub node: NodeId,
    /// Which iteration of its loop, from 0.
    pub ordinal: u64,
    /// It runs on another coordinator.
    pub delegated: bool,
    pub phase: Phase,
    pub body: Body,
    pub variables: Vec<Value>,
    /// Parameters that code set for elements to come.
    pub inputs: BTreeMap<(NodeId, u32), Value>,
    /// Parameters of ended elements that code may still read.
    pub kept: BTreeMap<NodeId, Vec<Value>>,
    /// Shared objects that end with it.
    pub owned: Vec<u64>,
    /// A live `CATCH` or `FINALLY`, and how the last one ended.
    pub handler: Option<ElementId>,
    pub handled: Option<Outcome>,
    /// The first failure in it that it must answer for.
    pub trouble: Option<Box<Failure>>,
    /// Tries that failed.
    pub failures: u32,
    /// Tries that began after the first.
    pub restarts: u32,
    /// Attempts handed out.
    pub attempts: u32,
    pub paused: Option<Time>,
    pub deadline: Option<Time>,
}

/// Where in its life an element is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Its parameters are there.
    Entered,
    /// `PRE_CODE` ran; bounds are not known yet.
    Prepared,
    /// Its body runs.
    Running,
    /// Its body is being stopped.
    Stopping(Stop),
    /// `POST_CODE` ran.
    Posted,
    /// `CATCH` runs.
    Catching(Box<Failure>),
    /// `FINALLY` runs.
    Finishing { outcome: Outcome, collected: Option<Value> },
    /// A failed try rests before the next.
    Waiting { until: Time, error: Box<Failure> },
    /// It failed and somebody must decide.
    Held(Box<Failure>),
    /// A leaf that wants to be handed out.
    Ready,
    /// A leaf's attempt is out.
    Out(Box<Out>),
}

/// An attempt that is out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Out {
    /// It was asked to stop.
    pub stop: Option<Stop>,
    pub calls: BTreeMap<u64, Window>,
}

/// The changing calls of one caller: the last one, and the answers that it may not have received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub last: u64,
    pub answers: VecDeque<(u64, Result<Value, String>)>,
}

/// How far the body of an element is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Body {
    /// Runs elsewhere.
    Leaf,
    /// One element after the other.
    Sequence { next: u32, current: Option<ElementId> },
    /// One case.
    Choice { chosen: bool, current: Option<ElementId> },
    /// A loop.
    Loop(Box<Loop>),
    /// `PAR`, `PARSWITCH`.
    Par(Box<Par>),
}

/// A loop, sequential or parallel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loop {
    pub range: Range,
    pub next: u64,
    /// It forks no more.
    pub closed: bool,
    pub join: Join,
}

/// A `PAR` or `PARSWITCH`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Par {
    /// For each element: how many it still waits for, or `NEVER`.
    pub waits_for: Vec<u32>,
    pub ready: VecDeque<u32>,
    pub join: Join,
}

impl Par {
    /// Waits for an element that was cancelled.
    pub const NEVER: u32 = u32::MAX;
}

/// What has become of the elements of a loop or parallel controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    pub live: BTreeMap<u64, ElementId>,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// What was collected, in order of completion, and of which iterations.
    pub results: Vec<Value>,
    pub result_ordinals: Vec<u64>,
    pub max: Option<u64>,
    pub at_least: Option<u64>,
    /// An exit condition that replaces the one in the definition.
    pub exit: Option<Arc<str>>,
}

impl Join {
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }

    pub fn has_room(&self) -> bool {
        self.max.is_none_or(|max| (self.live.len() as u64) < max)
    }
}

impl Body {
    /// The body of an element that begins.
    pub fn new(node: &Node) -> Body {
        match &node.kind {
            // A call's body is that of the type it calls, which is a sequence.
            Kind::Sequence | Kind::Process { .. } => Body::Sequence { next: 0, current: None },
            Kind::Activity { .. } => Body::Leaf,
            Kind::Switch { parallel: None, .. } => Body::Choice { chosen: false, current: None },
            Kind::Switch { parallel: Some(_), .. } => {
                Body::Par(Box::new(Par { waits_for: Vec::new(), ready: VecDeque::new(), join: Join::default() }))
            }
            Kind::For { .. } | Kind::While { .. } => {
                Body::Loop(Box::new(Loop { range: Range::Open, next: 0, closed: false, join: Join::default() }))
            }
            Kind::Par { waits_for, .. } => {
                let free = waits_for.iter().enumerate().filter(|(_, count)| **count == 0);
                let ready = free.map(|(position, _)| position as u32).collect();
                Body::Par(Box::new(Par { waits_for: waits_for.clone(), ready, join: Join::default() }))
            }
        }
    }

    pub fn join(&self) -> Option<&Join> {
        match self {
            Body::Loop(it) => Some(&it.join),
            Body::Par(it) => Some(&it.join),
            _ => None,
        }
    }

    pub fn join_mut(&mut self) -> Option<&mut Join> {
        match self {
            Body::Loop(it) => Some(&mut it.join),
            Body::Par(it) => Some(&mut it.join),
            _ => None,
        }
    }
}

/// True if bounds must be known before the node's body can run.
pub(crate) fn has_bounds(node: &Node) -> bool {
    matches!(&node.kind, Kind::For { .. } | Kind::Switch { parallel: Some(_), .. })
        || node.kind.parallel().is_some_and(|parallel| parallel.join.is_some() || parallel.max.is_some())
}

impl Instance {
    /// An element that stands at a site, runs a node, and has not done anything yet.
    pub fn new(site: (u32, NodeId), runs: (u32, NodeId), phase: Phase, body: Body) -> Self {
        Self {
            parent: None,
            depth: 0,
            call_depth: 0,
            site_process: site.0,
            site: site.1,
            process: runs.0,
            node: runs.1,
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
            trouble: None,
            failures: 0,
            restarts: 0,
            attempts: 0,
            paused: None,
            deadline: None,
        }
    }

    /// Everything alive directly in it.
    pub fn children(&self) -> impl Iterator<Item = ElementId> + '_ {
        let (single, many) = match &self.body {
            Body::Sequence { current, .. } | Body::Choice { current, .. } => (*current, None),
            body => (None, body.join().map(|join| join.live.values().copied())),
        };
        self.handler.into_iter().chain(single).chain(many.into_iter().flatten())
    }

    pub fn has_children(&self) -> bool {
        self.children().next().is_some()
    }

    /// When the clock matters to it next.
    pub fn timer(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Out(out) if out.stop.is_some() => None,
            Phase::Entered | Phase::Prepared | Phase::Running | Phase::Out(_) => self.deadline,
            _ => None,
        }
    }
}

/// The live elements, found by id in constant time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instances {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    generation: u32,
    instance: Option<Instance>,
}

impl Instances {
    /// The id that the next element will have.
    pub fn next_id(&self) -> ElementId {
        match self.free.last() {
            Some(index) => ElementId { index: *index, generation: self.entries[*index as usize].generation },
            None => ElementId { index: self.entries.len() as u32, generation: 0 },
        }
    }

    pub fn insert(&mut self, instance: Instance) -> ElementId {
        let id = self.next_id();
        match self.free.pop() {
            Some(index) => self.entries[index as usize].instance = Some(instance),
            None => self.entries.push(Entry { generation: 0, instance: Some(instance) }),
        }
        id
    }

    pub fn get(&self, id: ElementId) -> Option<&Instance> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.instance.as_ref() } else { None }
    }

    pub fn get_mut(&mut self, id: ElementId) -> Option<&mut Instance> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.instance.as_mut() } else { None }
    }

    pub fn remove(&mut self, id: ElementId) -> Option<Instance> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation != id.generation {
            return None;
        }
        let instance = entry.instance.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(instance)
    }

    pub fn ids(&self) -> impl Iterator<Item = ElementId> + '_ {
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.instance.is_some())
            .map(|(index, entry)| ElementId { index: index as u32, generation: entry.generation })
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl State {
    /// How many elements are alive.
    pub fn live(&self) -> usize {
        self.instances.len()
    }

    /// How many shared objects there are.
    pub fn shared_objects(&self) -> usize {
        self.objects.len()
    }

    /// Numbers about the process.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What has become of everything.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// How the process ended and its results, once it has.
    pub fn ended(&self) -> Option<(&Outcome, &BTreeMap<Arc<str>, Value>)> {
        self.ended.as_ref().map(|(outcome, results)| (outcome, results))
    }

    pub(crate) fn node<'a>(&self, program: &'a Program, instance: &Instance) -> &'a Node {
        program.node(instance.process as usize, instance.node)
    }

    /// The scope that is node `node`, from an element in it upwards; none if it is outside a delegated root.
    pub(crate) fn scope(&self, from: ElementId, node: NodeId) -> Option<ElementId> {
        let mut id = from;
        loop {
            let instance = self.instances.get(id)?;
            if instance.node == node {
                return Some(id);
            }
            // A called process type is a world of its own.
            if instance.node == NodeId::BODY {
                return None;
            }
            id = instance.parent?;
        }
    }
}
