//! Damaged processes: the store has lost records of them, and knows that. Coordinators hold such a process, and one that
//! exceeds their budget, until a user, or its parent, cancels it.

use std::sync::Arc;

use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::ended_summary::Summary;
use xavantes_process_coordinator::process::journal::Head;
use xavantes_process_coordinator::process::process_history::ProcessHistory;
use xavantes_process_coordinator::record_codec;
use xavantes_process_coordinator::subtrees::hosted_subtrees;
use xavantes_process_coordinator::subtrees::parent_links::{EndDecision, ParentAttempt};
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::Order;
use xavantes_proto::v1;

use crate::coordinator::simulated_journal::STORE_RETRY_INTERVAL_MS;
use crate::coordinator::state::AfterWrite;
use crate::simulated_machine::NodeRef;
use crate::store::{StoreChange, StoreRefusal, StoredProcess};
use crate::world::World;
use crate::world_event::NodeTask;

/// The epoch in which attempts of a process end that is cancelled without being loaded: later than all others.
const LAST_EPOCH: u64 = u64::MAX;

impl World<'_> {
    /// The store of a coordinator that has just crashed loses records of one of its processes.
    pub fn damage_process(&mut self, c: usize) {
        let it = &self.coordinators[c];
        let (store, session) = (it.store, it.session.number);
        let live = |stored: &StoredProcess| stored.owner == session && stored.summary.is_none();
        let owned = self.stores[store].processes.iter().filter(|(_, stored)| live(stored));
        let owned: Vec<Arc<str>> = owned.map(|(process, _)| process.clone()).collect();
        let Some(process) = self.random.pick(&owned) else { return };
        let Some(stored) = self.stores[store].processes.get_mut(&process) else { return };
        let kept = self.random.below(stored.records.len() as u64) as usize;
        stored.records.truncate(kept);
        stored.damaged = true;
        self.trace(|| format!("the store of c{c} loses records of {process}"));
    }

    /// Holds a process.
    pub fn hold(&mut self, c: usize, process: &Arc<str>, head: &Head, epoch: u64, why: &str) {
        self.trace(|| format!("c{c} holds {process}: {why}"));
        let memory = &mut self.coordinators[c].memory;
        memory.held.insert(process.clone());
        memory.foreign.entry(process.clone()).or_default();
        if let Some(parent) = head.parent.as_ref().and_then(ParentAttempt::of) {
            memory.parents.restore(&parent, process);
        }
        self.pool_input(c, PoolInput::ProcessLost(process.clone()));
        if let Some(origin) = head.parent.clone() {
            self.report_place(c, origin, epoch);
        }
    }

    /// A parent cancels a subtree, which runs here or is held here.
    pub fn cancel_subtree(&mut self, c: usize, process: &Arc<str>) {
        if !self.notify(c, process, ProcessInput::ParentCancelled) {
            self.cancel_held(c, process);
        }
    }

    /// Ends a held process as cancelled.
    pub fn cancel_held(&mut self, c: usize, process: &Arc<str>) {
        if self.coordinators[c].memory.held.contains(process) {
            let path = process.rsplit_once('@').map_or(&**process, |(path, _)| path);
            self.check.may_fail.push(path.to_owned());
            // Its parent runs it again: what the process had recorded is lost.
            self.check.asked.push(path.to_owned());
            let status = v1::ProcessStatus { state: v1::State::Cancelled.into(), ..Default::default() };
            let summary = record_codec::encode(&Summary::new(&status, Vec::new(), &ProcessHistory::default()));
            self.write(
                c,
                StoreChange::Close(process.clone(), summary, None),
                AfterWrite::HeldCancelled(process.clone()),
            );
        }
    }

    /// The store has the end of a held process: releases everything that waits for it.
    pub fn on_held_cancelled(&mut self, c: usize, process: &Arc<str>, result: Result<(), StoreRefusal>) {
        if result == Err(StoreRefusal::Unavailable) {
            let again = NodeTask::CancelHeld(process.clone());
            return self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, again);
        }
        let it = &mut self.coordinators[c];
        if !matches!(result, Ok(()) | Err(StoreRefusal::Unknown)) || !it.memory.held.remove(process) {
            return;
        }
        self.trace(|| format!("c{c}: the held {process} is cancelled"));
        self.pool_input(c, PoolInput::ProcessRecovered(process.clone(), LAST_EPOCH, Vec::new()));
        self.pool_input(c, PoolInput::ProcessEnded(process.clone()));
        let answers = self.coordinators[c].memory.foreign.remove(process).unwrap_or_default();
        answers.into_iter().for_each(|(stream, key)| self.order(stream, Order::Acknowledge(key)));
        let it = &mut self.coordinators[c];
        let stored = self.stores[it.store].processes.get(process);
        let head = stored.and_then(|stored| record_codec::decode::<Head>("head", &stored.head).ok());
        let Some(parent) = head.and_then(|head| ParentAttempt::of(&head.parent?)) else { return };
        let cancelled = v1::answer::Outcome::Cancelled(v1::Nothing {});
        let (counts, history) = (v1::Counts::default(), ProcessHistory::default());
        let answer = hosted_subtrees::answer(&parent.key, process, cancelled, counts, &history, Vec::new());
        if let EndDecision::Answer(message) = it.memory.parents.finish(&parent, answer) {
            self.send_to_parent(message);
        }
        self.write(c, StoreChange::Forget(vec![process.clone()]), AfterWrite::Forgotten(process.clone()));
    }
}
