//! Journals: processes record, the store answers, and the journal of a process must give its state.

use std::sync::Arc;

use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::effect::{JournalWrite, ProcessEffect};
use xavantes_process_coordinator::process::journal;
use xavantes_process_coordinator::record_codec;

use crate::coordinator::state::{AfterWrite, PendingStoreWrite, SimEffect};
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::store::{StoreChange, StoreRefusal};
use crate::world::World;
use crate::world_event::{CrashPoint, NodeTask, WorldEvent};

/// Writes to a store out of reach fail after this time.
const STORE_TIMEOUT_MS: u64 = 300;
/// Failed writes are repeated after this time.
pub const STORE_RETRY_INTERVAL_MS: u64 = 1000;

impl World<'_> {
    /// A process writes its next batch, unless a write is under way.
    pub fn record(&mut self, c: usize, id: &Arc<str>, number: u64) {
        loop {
            let Some(runner) = self.runner(c, id, number) else { return };
            if runner.writing.is_some() || runner.ending.is_some() {
                return;
            }
            if runner.driver.has_more_to_do() && !runner.waits {
                self.handle_input(c, id, ProcessInput::Continued);
                continue;
            }
            let Some(mut batch) = runner.driver.next_batch() else {
                if runner.driver.engine().state().ended().is_some() {
                    return self.end(c, id);
                }
                return self.set_timer(c, id);
            };
            let taken = std::mem::take(&mut runner.taken);
            let early =
                |effect: &SimEffect| matches!(effect, ProcessEffect::Acknowledge(..) | ProcessEffect::Decide(..));
            let released: Vec<_> = match self.mutation {
                Some(Mutation::ReleaseBeforeFlush) => std::mem::take(&mut batch.effects),
                Some(Mutation::AcknowledgeBeforeFlush) => {
                    let (early, late) = std::mem::take(&mut batch.effects).into_iter().partition(early);
                    batch.effects = late;
                    early
                }
                _ => Vec::new(),
            };
            self.carry_out_effects(c, id, released);
            match &batch.journal {
                None => self.carry_out_effects(c, id, batch.effects),
                Some(entry) => {
                    let change = match entry.clone() {
                        JournalWrite::Append(record) => StoreChange::Append(id.clone(), record),
                        JournalWrite::Compact(snapshot) => StoreChange::Compact(id.clone(), snapshot),
                    };
                    if let Some(runner) = self.runner(c, id, number) {
                        runner.writing = Some((batch, taken));
                    }
                    self.write(c, change, AfterWrite::Recorded(id.clone(), number));
                    return self.set_timer(c, id);
                }
            }
        }
    }

    /// Sends a write to the store. Writes arrive in their order.
    pub fn write(&mut self, c: usize, change: StoreChange, after: AfterWrite) {
        let delay = match self.random.below(20) {
            0 => self.random.between(50, 700),
            1..5 => self.random.between(5, 50),
            _ => self.random.between(1, 5),
        };
        let it = &mut self.coordinators[c];
        it.writes.push_back(PendingStoreWrite { change, after });
        it.last_commit = it.last_commit.max(self.now + delay);
        let (at, life) = (it.last_commit, it.machine.life);
        self.at(at, WorldEvent::Commit(c, life));
        self.pass_crash_point(CrashPoint::StoreWrite, NodeRef::Coordinator(c));
    }

    /// The store makes the next change, or refuses it.
    pub fn apply_next(&mut self, c: usize) -> Option<(AfterWrite, Result<(), StoreRefusal>)> {
        let number = self.count();
        let it = &mut self.coordinators[c];
        let PendingStoreWrite { change, after } = it.writes.pop_front()?;
        let fenced = self.mutation != Some(Mutation::NoFencing);
        let owner = |change: &StoreChange| match change {
            StoreChange::Append(process, _) | StoreChange::Compact(process, _) | StoreChange::Close(process, ..) => {
                self.stores[it.store].processes.get(process).map(|stored| (process.clone(), stored.owner))
            }
            _ => None,
        };
        let owner = owner(&change);
        let applied = self.stores[it.store].apply(change, &mut it.session, fenced, number);
        if let (Some((process, owner)), Ok(())) = (owner, applied)
            && owner != it.session.number
        {
            self.report_problem(Some(format!("c{c} writes to {process}, which another coordinator owns")));
        }
        Some((after, applied))
    }

    /// The next write of a coordinator reaches the store, unless the store is out of reach.
    pub fn commit(&mut self, c: usize) {
        if self.coordinators[c].store_cut_until > self.now {
            let it = &mut self.coordinators[c];
            let Some(PendingStoreWrite { after, .. }) = it.writes.pop_front() else { return };
            return self.later(
                NodeRef::Coordinator(c),
                STORE_TIMEOUT_MS,
                NodeTask::Stored(after, Err(StoreRefusal::Unavailable)),
            );
        }
        let Some((after, applied)) = self.apply_next(c) else { return };
        let delay = if self.random.one_in(10) { self.random.between(5, 100) } else { self.random.between(0, 3) };
        self.later(NodeRef::Coordinator(c), delay, NodeTask::Stored(after, applied));
        self.pass_crash_point(CrashPoint::StoreCommit, NodeRef::Coordinator(c));
    }

    /// The store answers a write.
    pub fn on_stored(&mut self, c: usize, after: AfterWrite, result: Result<(), StoreRefusal>) {
        match after {
            AfterWrite::Started(started) => self.on_started(c, *started, result),
            AfterWrite::Discarded(id) => match result {
                Ok(()) | Err(StoreRefusal::Unknown) => {
                    self.write(c, StoreChange::Forget(vec![id.clone()]), AfterWrite::Forgotten(id));
                }
                Err(StoreRefusal::Unavailable) => {
                    self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, NodeTask::Discard(id))
                }
                Err(_) => {}
            },
            AfterWrite::Forgotten(id) => {
                if result == Err(StoreRefusal::Unavailable) {
                    self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, NodeTask::Discard(id));
                }
            }
            AfterWrite::LeaseStored(worker, address) => match result {
                Ok(()) => self.confirm_lease(c, worker),
                Err(_) => {
                    let again = NodeTask::StoreLease(worker, address);
                    self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, again);
                }
            },
            AfterWrite::LeaseDeleted => {}
            AfterWrite::Reopened(id, reply) => self.on_reopened(c, &id, reply, result),
            AfterWrite::HeldCancelled(id) => self.on_held_cancelled(c, &id, result),
            AfterWrite::Recorded(id, number) => {
                let Some(runner) = self.runner(c, &id, number) else { return };
                match (result, runner.writing.take()) {
                    (Ok(()), Some((batch, taken))) => {
                        self.count_bytes(c, &id);
                        let creation = self.creation_at(c, &id);
                        taken.iter().for_each(|key| self.check.recorded(creation, key));
                        self.carry_out_effects(c, &id, batch.effects);
                        self.check_journal(c, &id);
                        self.record(c, &id, number);
                    }
                    (Err(StoreRefusal::Unavailable), Some(again)) => {
                        runner.writing = Some(again);
                        self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, NodeTask::WriteAgain(id, number));
                    }
                    // Another coordinator owns the process, and may have ended it.
                    (Err(_), _) => self.lose_runner(c, &id),
                    (Ok(()), None) => {}
                }
            }
            AfterWrite::Closed(id, number) => {
                if self.runner(c, &id, number).is_none() {
                    return;
                }
                match result {
                    Ok(()) => self.answer_late_mail(c, &id),
                    Err(StoreRefusal::Unavailable) => {
                        self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, NodeTask::WriteAgain(id, number));
                    }
                    Err(_) => self.lose_runner(c, &id),
                }
            }
        }
    }

    /// Repeats the write of a process.
    pub fn write_again(&mut self, c: usize, id: &Arc<str>, number: u64) {
        let Some(runner) = self.runner(c, id, number) else { return };
        if let Some(summary) = &runner.ending {
            let is_kept = runner.driver.engine().state().is_reopenable();
            let (summary, kept) = (record_codec::encode(summary), is_kept.then(|| runner.driver.snapshot()));
            let change = StoreChange::Close(id.clone(), summary, kept);
            return self.write(c, change, AfterWrite::Closed(id.clone(), number));
        }
        let change = match runner.writing.as_ref().and_then(|(batch, _)| batch.journal.clone()) {
            Some(JournalWrite::Append(record)) => StoreChange::Append(id.clone(), record),
            Some(JournalWrite::Compact(snapshot)) => StoreChange::Compact(id.clone(), snapshot),
            None => return,
        };
        self.write(c, change, AfterWrite::Recorded(id.clone(), number));
    }

    /// Checks now and then that the journal of a process gives its state.
    pub fn check_journal(&mut self, c: usize, id: &Arc<str>) {
        let it = &self.coordinators[c];
        let Some(runner) = it.memory.runners.get(id) else { return };
        let ended = runner.driver.engine().state().ended().is_some();
        if runner.driver.backlog() > 0 || !(ended || self.random.one_in(40)) {
            return;
        }
        let Some(stored) = self.stores[it.store].processes.get(id).filter(|it| it.summary.is_none()) else { return };
        let store = &self.stores[it.store];
        if store.processes[id].owner != it.session.number || it.session.epochs.get(id) != Some(&stored.epoch) {
            return;
        }
        let restored = journal::restore(&self.tools.program, &runner.head, stored.snapshot.as_deref(), &stored.records);
        let same = restored.as_ref().is_ok_and(|restored| restored.state == *runner.driver.engine().state());
        if !same {
            self.report_problem(Some(format!("{id}: the journal gives another state: {:?}", restored.err())));
        }
    }
}
