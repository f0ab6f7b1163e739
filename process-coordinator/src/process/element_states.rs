//! The state of every live element of a subtree, and the counts of the activities in it. Pure: the engine lists the
//! elements, the pool says where attempts are, and other coordinators report what their subtrees do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use xavantes_engine::{ElementState, LiveElement, LivePhase, Time, WaitsFor};
use xavantes_proto::v1::wait_reason::Kind as WaitKind;
use xavantes_proto::{AttemptKey, v1};

use crate::clock::unix_ms;
use crate::process::driver::Driver;
use crate::workers::pool::load::silent_worker;
use crate::workers::worker_messages::Whereabouts;

/// Upper bound on the names of elements that an element waits for.
const MAX_SIBLINGS: usize = 8;
/// Number of elements without an attempt of which the states say why they wait.
const MAX_EXPLAINED: usize = 16;

/// What an activity or a delegated element is doing.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeafState {
    pub state: v1::State,
    pub wait_reason: Option<v1::WaitReason>,
    /// The worker or coordinator that has it.
    pub worker: String,
    pub running_since_ms: u64,
}

/// The live elements of a subtree with their states.
pub(crate) struct ElementStates {
    process: Arc<str>,
    elements: Vec<LiveElement>,
    /// Positions by number of the element.
    positions: HashMap<u64, usize>,
    /// For each element: counts of the activities in it, complete after [`ElementStates::add_up`].
    counts: Vec<v1::Counts>,
    /// What elements are doing that the engine alone does not know.
    leaves: HashMap<usize, LeafState>,
    /// Why outstanding activities wait that the pool does not have.
    preparations: HashMap<usize, v1::WaitReason>,
    /// For each element: why the first of the activities in it waits that do.
    wait_reasons: HashMap<usize, v1::WaitReason>,
    /// Coordinators of delegated elements: address, and since when they are silent.
    coordinators: HashMap<usize, (String, Option<Duration>)>,
}

impl ElementStates {
    /// The states of these elements, as far as the driver knows them.
    pub fn new<C, A>(process: &Arc<str>, driver: &Driver<C, A>, elements: Vec<LiveElement>) -> Self {
        let mut states = Self {
            process: process.clone(),
            positions: elements.iter().enumerate().map(|(position, it)| (it.id.bits(), position)).collect(),
            counts: vec![v1::Counts::default(); elements.len()],
            leaves: HashMap::new(),
            preparations: HashMap::new(),
            wait_reasons: HashMap::new(),
            coordinators: HashMap::new(),
            elements,
        };
        for (position, element) in states.elements.iter().enumerate() {
            let counts = &mut states.counts[position];
            match element.phase {
                LivePhase::Inner => {}
                LivePhase::Outstanding => {
                    if let Some(reason) = driver.preparation(element.id, element.attempt) {
                        states.preparations.insert(position, reason);
                    }
                }
                LivePhase::Ready | LivePhase::Delayed => counts.waiting = 1,
                LivePhase::Held => counts.held = 1,
            }
            if let Some(status) =
                driver.subtree_status(element.id.bits(), element.attempt).filter(|_| element.delegated)
            {
                let ended = status.counts.unwrap_or_default();
                *counts = v1::Counts { completed: 0, failed: 0, attempts: 0, reused: 0, ..ended };
                let leaf =
                    LeafState { state: status.state(), wait_reason: status.wait_reason.clone(), ..Default::default() };
                states.leaves.insert(position, leaf);
            }
        }
        let mut empty = vec![true; states.elements.len()];
        states.elements.iter().filter_map(|it| it.parent).for_each(|parent| empty[parent] = false);
        let without = states.elements.iter().enumerate();
        let without = without.filter(|(position, it)| match it.phase {
            LivePhase::Ready | LivePhase::Delayed => true,
            // It may be in a paused element.
            LivePhase::Inner => empty[*position],
            LivePhase::Outstanding | LivePhase::Held => false,
        });
        for (position, element) in without.take(MAX_EXPLAINED) {
            let reason = match driver.engine().view(element.id).map(|view| view.state) {
                Some(ElementState::Waiting(waits_for)) => {
                    Some(wait_reason(&waits_for, driver.now(), driver.has_workers()))
                }
                // Its first element begins when there is a worker.
                Some(ElementState::Running) if !driver.has_workers() => Some(WaitKind::NoWorker(v1::Nothing {}).into()),
                _ => None,
            };
            states.wait_reasons.extend(reason.map(|reason| (position, reason)));
        }
        states
    }

    /// The attempts of which the pool knows more.
    pub fn keys(&self) -> Vec<AttemptKey> {
        let key = |it: &LiveElement| AttemptKey::new(self.process.clone(), it.id.bits(), it.attempt);
        self.outstanding().map(|(_, element)| key(element)).collect()
    }

    fn outstanding(&self) -> impl Iterator<Item = (usize, &LiveElement)> {
        self.elements.iter().enumerate().filter(|(_, element)| element.phase == LivePhase::Outstanding)
    }

    /// The pool says where the attempts of [`ElementStates::keys`] are.
    pub fn on_whereabouts(&mut self, places: Vec<Option<Whereabouts>>) {
        let outstanding: Vec<(usize, bool)> = self.outstanding().map(|(at, it)| (at, it.delegated)).collect();
        let now = unix_ms();
        for ((position, delegated), place) in outstanding.into_iter().zip(places) {
            if let (true, Some(Whereabouts::At { name, address, silent, .. })) = (delegated, &place) {
                self.coordinators.insert(position, (address.clone(), *silent));
                let leaf = self
                    .leaves
                    .entry(position)
                    .or_insert_with(|| LeafState { state: v1::State::Running, ..LeafState::default() });
                leaf.worker = name.to_string();
                if let Some(silent) = silent {
                    leaf.state = v1::State::Waiting;
                    leaf.wait_reason = Some(WaitKind::CoordinatorSilentMs(silent.as_millis() as u64).into());
                }
                continue;
            }
            let preparation = self.preparations.remove(&position);
            let leaf = leaf_state(place, preparation, now);
            if !delegated {
                let counts = &mut self.counts[position];
                match leaf.state {
                    v1::State::Running => counts.running = 1,
                    v1::State::Queued => counts.queued = 1,
                    _ => counts.waiting = 1,
                }
            }
            self.leaves.insert(position, leaf);
        }
    }

    /// The address of the coordinator that runs a delegated element, unless it has been silent for too long.
    pub fn subtree_address(&self, element: u64, silent_after: Duration) -> Option<&str> {
        let (address, silent) = self.coordinators.get(self.positions.get(&element)?)?;
        silent.is_none_or(|silent| silent < silent_after).then_some(address)
    }

    /// The coordinator of a delegated element says what it is doing now.
    pub fn set(&mut self, element: u64, reported: LeafState, counts: v1::Counts) {
        let Some(position) = self.positions.get(&element) else { return };
        let worker = self.leaves.get(position).map(|leaf| leaf.worker.clone()).unwrap_or_default();
        self.leaves.insert(*position, LeafState { worker, ..reported });
        self.counts[*position] = counts;
    }

    /// Adds the counts of each element to the element around it.
    pub fn add_up(&mut self) {
        // Elements stand after those around them; so the first reason to wait is the last one that arrives.
        for position in (0..self.elements.len()).rev() {
            let own = self.leaves.get(&position).and_then(|leaf| leaf.wait_reason.clone());
            if let Some(own) = own {
                self.wait_reasons.insert(position, own);
            }
            let Some(parent) = self.elements[position].parent else { continue };
            let counts = self.counts[position];
            self.counts[parent].add(&counts);
            if let Some(reason) = self.wait_reasons.get(&position).cloned() {
                self.wait_reasons.insert(parent, reason);
            }
        }
    }

    /// Writes what is known of an element into what users see of it.
    pub fn apply(&self, element: &mut v1::Element) {
        let Some(position) = self.positions.get(&element.element) else { return };
        let counts = self.counts[*position];
        let leaf = self.leaves.get(position);
        element.live = Some(counts).filter(|_| element.tag != "ACTIVITY");
        if let Some(leaf) = leaf {
            element.worker.clone_from(&leaf.worker);
        }
        // What users did to an element stands above what the elements in it do.
        let is_decided = matches!(element.state(), v1::State::Paused | v1::State::Stopping | v1::State::Held);
        if is_decided || element.state() == v1::State::Waiting {
            return;
        }
        match leaf {
            Some(leaf) => {
                element.set_state(leaf.state);
                element.wait_reason.clone_from(&leaf.wait_reason);
                element.running_since_ms = leaf.running_since_ms;
            }
            None => {
                let reason = self.wait_reasons.get(position);
                // Without any activity, elements in it may wait for the resumption of a paused one.
                let empty = || if reason.is_some() { v1::State::Waiting } else { element.state() };
                let state = counts.state().unwrap_or_else(empty);
                element.set_state(state);
                element.wait_reason = reason.filter(|_| state == v1::State::Waiting).cloned();
            }
        }
    }
}

/// What an activity is doing whose attempt is there, or waits for this reason before the pool has it.
fn leaf_state(place: Option<Whereabouts>, preparation: Option<v1::WaitReason>, now_ms: u64) -> LeafState {
    let waits = |reason: v1::WaitReason, worker: String| LeafState {
        state: v1::State::Waiting,
        wait_reason: Some(reason),
        worker,
        running_since_ms: 0,
    };
    match place {
        None => {
            let recorded = || WaitKind::Preparing(v1::Nothing {}).into();
            waits(preparation.unwrap_or_else(recorded), String::new())
        }
        Some(Whereabouts::Waits(reason)) => waits(reason, String::new()),
        Some(Whereabouts::At { name, silent: Some(silent), .. }) => {
            waits(silent_worker(&name, silent.as_millis() as u64), String::new())
        }
        Some(Whereabouts::At { name, runs_for, .. }) => LeafState {
            state: if runs_for.is_some() { v1::State::Running } else { v1::State::Queued },
            running_since_ms: runs_for.map_or(0, |time| now_ms.saturating_sub(time.as_millis() as u64)),
            worker: name.to_string(),
            wait_reason: None,
        },
    }
}

/// What an element waits for, at this time of the engine. Without workers there is no room for anything.
pub(crate) fn wait_reason(waits_for: &WaitsFor, now: Time, has_workers: bool) -> v1::WaitReason {
    match waits_for {
        WaitsFor::Siblings(names) => {
            let more = names.len().saturating_sub(MAX_SIBLINGS) as u32;
            let names = names.iter().take(MAX_SIBLINGS).map(ToString::to_string).collect();
            WaitKind::Siblings(v1::Siblings { names, more })
        }
        WaitsFor::Room if !has_workers => WaitKind::NoWorker(v1::Nothing {}),
        WaitsFor::Room => WaitKind::Room(v1::Nothing {}),
        WaitsFor::Retry(until, _) => WaitKind::RetryInMs(until.0.saturating_sub(now.0)),
        WaitsFor::Paused(path) => WaitKind::Paused(path.clone()),
    }
    .into()
}
