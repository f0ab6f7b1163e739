//! The state of a process: its live elements, its shared objects, its counts and its history.
//!
//! Ended elements leave only counts, and the values that other elements may still read. So the size of the state follows
//! the work in flight, not the work done. The `apply` module alone changes the state.
//!
//! Every step calls the small accessors here and in `apply` many times from other modules, so they are `#[inline]`: without
//! it a step takes about 5 % longer.
//!
//! | file | is about |
//! |---|---|
//! | `instance` | one live element and its phase |
//! | `body` | the progress of a sequence, switch, loop or `PAR` |
//! | `instance_table` | the table of live elements |
//! | `element_path` | the paths of elements, and the element at a path |
//! | `size` | the bytes of a state |

pub(crate) mod body;
pub(crate) mod element_path;
pub(crate) mod instance;
mod instance_table;
pub(crate) mod size;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Program, ScriptInput};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::history::History;
use crate::outcome::Outcome;
use crate::state::instance::{Instance, Phase};
use crate::state::instance_table::Instances;

/// The whole state of a process. A snapshot is its serialised form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredState")]
pub struct EngineState {
    /// The id of the process.
    pub(crate) process: Arc<str>,
    pub(crate) instances: Instances,
    pub(crate) root: Option<ElementId>,
    /// The root's variables at the start, for a new try of the whole process.
    pub(crate) initial: Vec<Value>,
    /// Values that a delegated root reads from the scopes around it.
    pub(crate) captured: BTreeMap<ScriptInput, Value>,
    pub(crate) objects: Objects,
    /// How the process ended, with its results by name.
    pub(crate) ended: Option<(Outcome, BTreeMap<Arc<str>, Value>)>,
    pub(crate) counts: Counts,
    pub(crate) history: History,
    /// The bytes of all values outside of shared objects.
    #[serde(skip)]
    pub(crate) bytes: u64,
}

/// What a snapshot has of an [`EngineState`]: everything that cannot be computed.
#[derive(Deserialize)]
struct StoredState {
    process: Arc<str>,
    instances: Instances,
    root: Option<ElementId>,
    initial: Vec<Value>,
    captured: BTreeMap<ScriptInput, Value>,
    objects: Objects,
    ended: Option<(Outcome, BTreeMap<Arc<str>, Value>)>,
    counts: Counts,
    history: History,
}

impl From<StoredState> for EngineState {
    fn from(stored: StoredState) -> Self {
        let StoredState { process, instances, root, initial, captured, objects, ended, counts, history } = stored;
        let mut state = Self { process, instances, root, initial, captured, objects, ended, counts, history, bytes: 0 };
        state.bytes = state.count_bytes();
        state
    }
}

/// How many elements and attempts of a process are in each condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Activities with an outstanding attempt.
    pub outstanding: u64,
    /// Delegated elements with an outstanding attempt.
    pub delegated: u64,
    /// Activities and delegated elements without an attempt, to be handed out.
    pub ready: u64,
    /// Elements that wait for their next try.
    pub delayed: u64,
    /// Elements that failed and wait until a user retries or cancels them.
    pub held: u64,
    /// Elements that a user paused directly, not through an element around them.
    pub paused: u64,
    /// Activities that completed.
    pub completed: u64,
    /// Activities that failed permanently.
    pub failed: u64,
    /// Attempts of activities that the engine handed out.
    pub attempts: u64,
}

impl EngineState {
    /// The number of live elements.
    pub fn live(&self) -> usize {
        self.instances.len()
    }

    /// The number of shared objects.
    pub fn shared_objects(&self) -> usize {
        self.objects.len()
    }

    /// How many elements and attempts are in each condition.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The counts of live elements, counted anew; what ended is taken over.
    pub fn recount(&self) -> Counts {
        let Counts { completed, failed, attempts, .. } = self.counts;
        let mut counts = Counts { completed, failed, attempts, ..Counts::default() };
        for instance in self.instances.ids().filter_map(|id| self.instances.get(id)) {
            counts.paused += u64::from(instance.paused.is_some());
            match &instance.phase {
                Phase::Ready => counts.ready += 1,
                Phase::Outstanding(_) if instance.delegated => counts.delegated += 1,
                Phase::Outstanding(_) => counts.outstanding += 1,
                Phase::Waiting { .. } => counts.delayed += 1,
                Phase::Held(_) => counts.held += 1,
                _ => {}
            }
        }
        counts
    }

    /// The record of everything that ended.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// How the process ended and its results by name; `None` while it runs.
    pub fn ended(&self) -> Option<(&Outcome, &BTreeMap<Arc<str>, Value>)> {
        self.ended.as_ref().map(|(outcome, results)| (outcome, results))
    }

    /// The node whose body the element runs.
    pub(crate) fn node<'a>(&self, program: &'a Program, instance: &Instance) -> &'a DefinitionNode {
        program.node(instance.process as usize, instance.node)
    }

    /// The nearest element, from `from` outwards, that runs `node`. `None` if the scope is outside a delegated root.
    pub(crate) fn scope(&self, from: ElementId, node: DefinitionNodeId) -> Option<ElementId> {
        let mut id = from;
        loop {
            let instance = self.instances.get(id)?;
            if instance.node == node {
                return Some(id);
            }
            // A called process type does not see the scopes of its caller.
            if instance.node == DefinitionNodeId::BODY {
                return None;
            }
            id = instance.parent?;
        }
    }
}
