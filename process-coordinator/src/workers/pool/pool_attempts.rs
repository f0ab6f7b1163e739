//! The table of the attempts that this coordinator hands out. Each attempt is here once, in one [`PoolAttemptState`], so that
//! cancelling, pausing or losing it is one match on that state.
//!
//! The indices (the queue of each process, the turns of the processes, the attempts and used resources of each peer)
//! are private: [`PoolAttempts::insert`], [`PoolAttempts::transition`], [`PoolAttempts::remove_if`] and
//! [`PoolAttempts::take_turn`] keep them in step with the states.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;

use super::movement::Movement;
use crate::handover::SubtreePlace;
use crate::task::{Needs, Task};
use xavantes_proto::{AttemptKey, v1};

/// Where an attempt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolAttemptState {
    /// An activity in the queue of its process.
    Queued,
    /// A subtree that has no place yet (`None`), or whose place the process is recording.
    Placing { place: Option<SubtreePlace> },
    /// A subtree whose place is recorded. The pool sends it when the coordinator is connected and no pause holds it back.
    AwaitingConnection { coordinator: PeerIndex, since: Duration },
    /// The pool sent the attempt to this peer, or knows from the journal or from the peer that the peer has it.
    Assigned {
        peer: PeerIndex,
        confirmation: Confirmation,
        /// Epoch of a subtree at that peer, as far as known: of two reports about a subtree the later epoch is right.
        epoch: u64,
    },
    /// An activity that was outstanding before a recovery; the pool waits for the worker that has it.
    Unsettled,
}

/// How sure the pool is that the peer of an assigned attempt has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// The pool sent it there, or the peer confirmed it.
    Confirmed,
    /// The worker reported it after a recovery. If the worker crashes before it stores the new owner, its next report
    /// leaves the attempt out, and the pool asks once more.
    Adopted,
    /// The pool asks the coordinator of a subtree when the place is recorded. Recording fails if another coordinator owns
    /// the process by now; asking earlier would take the subtree away from that owner.
    AskWhenRecorded,
    /// The pool asks, or has asked, the coordinator of a subtree and has no answer.
    Asked,
}

/// An attempt with its state.
#[derive(Debug)]
pub struct PoolAttempt {
    pub task: Task,
    /// The process wants it cancelled.
    pub cancelled: bool,
    /// Last pause (`true`) or resume (`false`) that the process asked for.
    pub paused: Option<bool>,
    /// Its progress at a worker, while one has it.
    pub movement: Movement,
    /// Counts of the activities in it that its coordinator reported last; subtrees only.
    pub subtree_counts: Option<v1::Counts>,
    state: PoolAttemptState,
}

impl PoolAttempt {
    pub fn new(task: Task, state: PoolAttemptState) -> Self {
        Self { task, cancelled: false, paused: None, movement: Movement::default(), subtree_counts: None, state }
    }

    pub fn state(&self) -> &PoolAttemptState {
        &self.state
    }

    pub fn is_assigned_to(&self, index: PeerIndex) -> bool {
        matches!(self.state, PoolAttemptState::Assigned { peer, .. } if peer == index)
    }

    /// How sure the pool is of the peer, if the attempt is assigned.
    pub fn confirmation(&self) -> Option<Confirmation> {
        match self.state {
            PoolAttemptState::Assigned { confirmation, .. } => Some(confirmation),
            _ => None,
        }
    }
}

/// Position of a peer in the table, valid until [`PoolAttempts::remove_peer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIndex(usize);

/// Resources that the attempts of a worker use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsedResources {
    pub cpus: u32,
    pub memory: u64,
    pub gpus: u32,
}

impl UsedResources {
    fn add(&mut self, needs: &Needs) {
        self.cpus = self.cpus.saturating_add(needs.cpus);
        self.memory = self.memory.saturating_add(needs.memory);
        self.gpus = self.gpus.saturating_add(needs.gpus);
    }

    fn subtract(&mut self, needs: &Needs) {
        self.cpus = self.cpus.saturating_sub(needs.cpus);
        self.memory = self.memory.saturating_sub(needs.memory);
        self.gpus = self.gpus.saturating_sub(needs.gpus);
    }
}

/// An attempt's key within its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ElementAttempt {
    element: u64,
    attempt: u32,
}

impl From<&AttemptKey> for ElementAttempt {
    fn from(key: &AttemptKey) -> Self {
        Self { element: key.element, attempt: key.attempt }
    }
}

/// Position of an attempt in [`PoolAttempts::attempts`].
type Slot = usize;

#[derive(Debug, Default)]
struct ProcessAttempts {
    slots: HashMap<ElementAttempt, Slot>,
    /// Queued attempts in the order in which the pool places them.
    queue: VecDeque<Slot>,
}

/// The attempts of one peer.
#[derive(Debug, PartialEq)]
struct PeerAttempts {
    name: Arc<str>,
    assigned: HashSet<Slot>,
    /// Subtrees in [`PoolAttemptState::AwaitingConnection`], in the order in which the pool sends them.
    awaiting: Vec<AttemptKey>,
    used: UsedResources,
}

/// Resources that each peer's attempts use.
#[derive(Debug, Default)]
pub struct PeerTable(Vec<PeerAttempts>);

impl PeerTable {
    pub fn used(&self, peer: PeerIndex) -> &UsedResources {
        &self.0[peer.0].used
    }

    fn index(&mut self, slot: Slot, attempt: &PoolAttempt) {
        match attempt.state {
            PoolAttemptState::Assigned { peer, .. } => {
                let peer = &mut self.0[peer.0];
                peer.used.add(&attempt.task.needs);
                peer.assigned.insert(slot);
            }
            PoolAttemptState::AwaitingConnection { coordinator, .. } => {
                self.0[coordinator.0].awaiting.push(attempt.task.key.clone());
            }
            PoolAttemptState::Queued | PoolAttemptState::Placing { .. } | PoolAttemptState::Unsettled => {}
        }
    }

    fn unindex(&mut self, slot: Slot, attempt: &PoolAttempt) {
        match attempt.state {
            PoolAttemptState::Assigned { peer, .. } => {
                let peer = &mut self.0[peer.0];
                peer.used.subtract(&attempt.task.needs);
                peer.assigned.remove(&slot);
            }
            PoolAttemptState::AwaitingConnection { coordinator, .. } => {
                self.0[coordinator.0].awaiting.retain(|key| *key != attempt.task.key);
            }
            PoolAttemptState::Queued | PoolAttemptState::Placing { .. } | PoolAttemptState::Unsettled => {}
        }
    }
}

/// The queue of the process whose turn it is.
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    attempts: &'a Slab<PoolAttempt>,
    slots: &'a VecDeque<Slot>,
}

impl<'a> Queue<'a> {
    /// The queued tasks that are not paused, with their positions; the first to be placed first.
    pub fn tasks(self) -> impl Iterator<Item = (usize, &'a Task)> {
        let queued = self.slots.iter().map(move |slot| &self.attempts[*slot]).enumerate();
        queued.filter(|(_, attempt)| attempt.paused != Some(true)).map(|(position, attempt)| (position, &attempt.task))
    }
}

/// All attempts that this coordinator hands out, by process.
#[derive(Debug, Default)]
pub struct PoolAttempts {
    /// All attempts, each in one place from its insertion to its removal.
    attempts: Slab<PoolAttempt>,
    processes: HashMap<Arc<str>, ProcessAttempts>,
    /// The processes with a queue that is not empty, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    peers: PeerTable,
    /// Positions in `peers` of peers that are gone.
    vacant: Vec<PeerIndex>,
}

impl PoolAttempts {
    pub fn get(&self, key: &AttemptKey) -> Option<&PoolAttempt> {
        self.attempts.get(self.slot(key)?)
    }

    pub fn get_mut(&mut self, key: &AttemptKey) -> Option<&mut PoolAttempt> {
        self.attempts.get_mut(self.slot(key)?)
    }

    fn slot(&self, key: &AttemptKey) -> Option<Slot> {
        self.processes.get(&key.process)?.slots.get(&key.into()).copied()
    }

    /// The attempts of a process, in the order of their keys.
    pub fn of_process(&self, process: &str) -> Vec<&PoolAttempt> {
        let slots = self.processes.get(process).into_iter().flat_map(|process| process.slots.values());
        let mut attempts: Vec<&PoolAttempt> = slots.map(|slot| &self.attempts[*slot]).collect();
        attempts.sort_by_key(|attempt| ElementAttempt::from(&attempt.task.key));
        attempts
    }

    /// Adds an attempt, or replaces the attempt of the same key. A queued one goes to the end of the queue of its process.
    pub fn insert(&mut self, attempt: PoolAttempt) {
        let key = &attempt.task.key;
        let id = ElementAttempt::from(key);
        let process = match self.processes.get_mut(&key.process) {
            Some(process) => process,
            None => self.processes.entry(key.process.clone()).or_default(),
        };
        let queued = attempt.state == PoolAttemptState::Queued;
        if queued && process.queue.is_empty() {
            self.turns.push_back(key.process.clone());
        }
        let slot = self.attempts.insert(attempt);
        if queued {
            process.queue.push_back(slot);
        }
        if let Some(slot) = process.slots.insert(id, slot) {
            let former = self.attempts.remove(slot);
            self.peers.unindex(slot, &former);
            if former.state == PoolAttemptState::Queued {
                unqueue(&mut process.queue, slot, &mut self.turns, &former.task.key.process);
            }
        }
        self.peers.index(slot, &self.attempts[slot]);
    }

    /// Moves an attempt to another state. One that returns to the queue of its process goes to the front: it has waited
    /// there before.
    pub fn transition(&mut self, key: &AttemptKey, state: PoolAttemptState) {
        let Some(process) = self.processes.get_mut(&key.process) else { return };
        let Some(&slot) = process.slots.get(&key.into()) else { return };
        let attempt = &mut self.attempts[slot];
        self.peers.unindex(slot, attempt);
        let former = std::mem::replace(&mut attempt.state, state);
        self.peers.index(slot, attempt);
        match (former == PoolAttemptState::Queued, attempt.state == PoolAttemptState::Queued) {
            (false, true) => {
                if process.queue.is_empty() {
                    self.turns.push_back(key.process.clone());
                }
                process.queue.push_front(slot);
            }
            (true, false) => unqueue(&mut process.queue, slot, &mut self.turns, &key.process),
            (true, true) | (false, false) => {}
        }
    }

    /// Records how sure the pool is of the peer of an assigned attempt.
    pub fn set_confirmation(&mut self, key: &AttemptKey, to: Confirmation) {
        if let Some(PoolAttempt { state: PoolAttemptState::Assigned { confirmation, .. }, .. }) = self.get_mut(key) {
            *confirmation = to;
        }
    }

    pub fn remove(&mut self, key: &AttemptKey) -> Option<PoolAttempt> {
        self.remove_if(key, |_| true)
    }

    /// Removes an attempt on a condition.
    pub fn remove_if(&mut self, key: &AttemptKey, condition: impl FnOnce(&PoolAttempt) -> bool) -> Option<PoolAttempt> {
        let process = self.processes.get_mut(&key.process)?;
        let Entry::Occupied(entry) = process.slots.entry(key.into()) else { return None };
        let slot = *entry.get();
        if !condition(&self.attempts[slot]) {
            return None;
        }
        entry.remove();
        let attempt = self.attempts.remove(slot);
        self.peers.unindex(slot, &attempt);
        if attempt.state == PoolAttemptState::Queued {
            unqueue(&mut process.queue, slot, &mut self.turns, &key.process);
        }
        Some(attempt)
    }

    /// Removes all attempts of a process.
    pub fn remove_process(&mut self, process: &str) {
        let Some(removed) = self.processes.remove(process) else { return };
        for slot in removed.slots.into_values() {
            let attempt = self.attempts.remove(slot);
            self.peers.unindex(slot, &attempt);
        }
        if !removed.queue.is_empty() {
            self.turns.retain(|turn| **turn != *process);
        }
    }

    /// Gives the next process its turn: `choose` picks a task of the queue, by position, and the peer that gets it.
    /// Returns the attempt, which is now assigned to that peer; `None` if `choose` picked nothing.
    pub fn take_turn(
        &mut self,
        choose: impl FnOnce(Queue<'_>, &PeerTable) -> Option<(usize, PeerIndex)>,
    ) -> Option<&mut PoolAttempt> {
        let turn = self.turns.pop_front()?;
        let process = self.processes.get_mut(&turn)?;
        let chosen = choose(Queue { attempts: &self.attempts, slots: &process.queue }, &self.peers);
        let assigned = chosen.and_then(|(position, peer)| {
            let slot = process.queue.remove(position)?;
            let attempt = self.attempts.get_mut(slot)?;
            attempt.state = PoolAttemptState::Assigned { peer, confirmation: Confirmation::Confirmed, epoch: 0 };
            self.peers.index(slot, attempt);
            Some(attempt)
        });
        if !process.queue.is_empty() {
            self.turns.push_back(turn);
        }
        assigned
    }

    /// Number of queued attempts that are not paused.
    pub fn queued_count(&self) -> usize {
        self.queued().count()
    }

    /// Number of processes with queued attempts.
    pub fn waiting_processes(&self) -> usize {
        self.turns.len()
    }

    /// The queued tasks of all processes that are not paused; the order of the processes is arbitrary.
    pub fn queued(&self) -> impl Iterator<Item = &Task> {
        let waiting = self.turns.iter().filter_map(|process| self.processes.get(process));
        let tasks = waiting.flat_map(|process| Queue { attempts: &self.attempts, slots: &process.queue }.tasks());
        tasks.map(|(_, task)| task)
    }

    /// The processes with queued attempts, each with the first task.
    pub fn first_queued(&self) -> impl Iterator<Item = (&Arc<str>, &Task)> {
        let waiting = self.turns.iter().filter_map(|process| self.processes.get_key_value(process));
        waiting.filter_map(|(name, process)| {
            let queue = Queue { attempts: &self.attempts, slots: &process.queue };
            Some((name, queue.tasks().next()?.1))
        })
    }

    /// Makes a place for the attempts of a peer.
    pub fn add_peer(&mut self, name: Arc<str>) -> PeerIndex {
        let peer =
            PeerAttempts { name, assigned: HashSet::new(), awaiting: Vec::new(), used: UsedResources::default() };
        match self.vacant.pop() {
            Some(index) => {
                self.peers.0[index.0] = peer;
                index
            }
            None => {
                self.peers.0.push(peer);
                PeerIndex(self.peers.0.len() - 1)
            }
        }
    }

    /// Removes a peer that has no attempts.
    pub fn remove_peer(&mut self, peer: PeerIndex) {
        let former = &self.peers.0[peer.0];
        debug_assert!(former.assigned.is_empty() && former.awaiting.is_empty(), "{} has attempts", former.name);
        self.vacant.push(peer);
    }

    pub fn peer_name(&self, peer: PeerIndex) -> &Arc<str> {
        &self.peers.0[peer.0].name
    }

    pub fn used(&self, peer: PeerIndex) -> &UsedResources {
        self.peers.used(peer)
    }

    /// Whether a peer has any attempts.
    pub fn has_assigned(&self, peer: PeerIndex) -> bool {
        !self.peers.0[peer.0].assigned.is_empty()
    }

    /// Visits the attempts that a peer has, in any order.
    pub fn for_each_assigned(&mut self, peer: PeerIndex, mut visit: impl FnMut(&mut PoolAttempt)) {
        for slot in &self.peers.0[peer.0].assigned {
            visit(&mut self.attempts[*slot]);
        }
    }

    /// Whether a condition holds for any attempt of a peer.
    pub fn any_assigned(&self, peer: PeerIndex, condition: impl Fn(&PoolAttempt) -> bool) -> bool {
        self.peers.0[peer.0].assigned.iter().any(|slot| condition(&self.attempts[*slot]))
    }

    /// The attempts that a peer has, in the order of their keys.
    pub fn assigned_to(&self, peer: PeerIndex) -> Vec<AttemptKey> {
        let slots = self.peers.0[peer.0].assigned.iter();
        let mut keys: Vec<AttemptKey> = slots.map(|slot| self.attempts[*slot].task.key.clone()).collect();
        keys.sort();
        keys
    }

    /// The subtrees that wait for the connection to a coordinator, in the order of their arrival.
    pub fn awaiting(&self, coordinator: PeerIndex) -> &[AttemptKey] {
        &self.peers.0[coordinator.0].awaiting
    }

    /// The time since which an attempt waits for the connection to its coordinator. A paused attempt does not wait.
    pub fn awaiting_since(&self, key: &AttemptKey) -> Option<Duration> {
        let attempt = self.get(key).filter(|attempt| attempt.paused != Some(true))?;
        match *attempt.state() {
            PoolAttemptState::AwaitingConnection { since, .. } => Some(since),
            _ => None,
        }
    }
}

/// Takes an attempt out of the queue of its process, and the process out of the turns if the queue is empty then.
fn unqueue(queue: &mut VecDeque<Slot>, slot: Slot, turns: &mut VecDeque<Arc<str>>, process: &Arc<str>) {
    if let Some(position) = queue.iter().position(|queued| *queued == slot) {
        queue.remove(position);
    }
    if queue.is_empty() {
        turns.retain(|turn| turn != process);
    }
}

#[cfg(test)]
mod tests;
