//! Subtrees that another coordinator of their realm has taken over: reports to the parent, and move notices in the store.

use std::sync::Arc;

use xavantes_process_coordinator::handover::SubtreePlace;
use xavantes_process_coordinator::process::journal::Origin;
use xavantes_process_coordinator::subtrees::move_notice::{NoticeStep, ParentState, on_notice};
use xavantes_process_coordinator::subtrees::parent_links::{ParentAttempt, UnwantedSubtree};

use crate::call_request::{CallAnswer, CallRequest, ReplyTo};
use crate::coordinator::state::SimPoolMail;
use crate::simulated_machine::NodeRef;
use crate::world::World;
use crate::world_event::NodeTask;

/// A move that the parent has not recorded yet is reported again at this interval.
const MOVE_REPORT_INTERVAL_MS: u64 = 2_000;
/// A parent that has recorded the place is asked at this interval whether it still waits for the subtree.
pub const STILL_WANTED_INTERVAL_MS: u64 = 30_000;
/// A report without an answer, because the node that got it crashed, has failed after this time.
const MOVE_REPORT_TIMEOUT_MS: u64 = 10_000;

impl World<'_> {
    /// Reports to a parent where a subtree runs, while the parent waits for it.
    pub fn report_place(&mut self, c: usize, origin: Origin, epoch: u64) {
        let it = &self.coordinators[c];
        let Some(parent) = ParentAttempt::of(&origin) else { return };
        if !it.memory.parents.waits(&parent) {
            return;
        }
        let name = it.machine.name.to_string();
        let place = SubtreePlace { node: name.clone(), address: name, epoch };
        let (here, life, to) = (NodeRef::Coordinator(c), it.machine.life, NodeRef::at_address(&origin.address));
        let ticket = self.count();
        self.coordinators[c].memory.move_reports.insert(ticket, (origin, epoch));
        self.call(Some(here), to, CallRequest::Moved(parent.key, place), ReplyTo::Moved(c, life, ticket));
        self.later(here, MOVE_REPORT_TIMEOUT_MS, NodeTask::MoveAnswered(ticket, CallAnswer::Nothing));
    }

    /// The report of a move is answered, or its time is over.
    pub fn on_move_answered(&mut self, c: usize, ticket: u64, answer: CallAnswer) {
        let Some((origin, epoch)) = self.coordinators[c].memory.move_reports.remove(&ticket) else { return };
        let pause = match answer {
            CallAnswer::Unwanted => return self.stop_unwanted(c, &origin),
            CallAnswer::Done => STILL_WANTED_INTERVAL_MS,
            _ => MOVE_REPORT_INTERVAL_MS,
        };
        self.later(NodeRef::Coordinator(c), pause, NodeTask::ReportPlace(origin, epoch));
    }

    /// Stops or removes a subtree for which no process waits.
    fn stop_unwanted(&mut self, c: usize, origin: &Origin) {
        let Some(parent) = ParentAttempt::of(origin) else { return };
        self.trace(|| format!("c{c}: no process waits for {}", parent.key));
        match self.coordinators[c].memory.parents.forget(&parent) {
            UnwantedSubtree::Discard(process) => self.discard(c, &process),
            UnwantedSubtree::Cancel(process) => self.cancel_subtree(c, &process),
            UnwantedSubtree::Gone => {}
        }
    }

    /// Answers the parents of subtrees that moved and have ended since.
    pub fn end_moved(&mut self, c: usize) {
        let it = &self.coordinators[c];
        if it.store_cut_until <= self.now {
            for process in it.memory.parents.moved() {
                let it = &mut self.coordinators[c];
                if !self.stores[it.store].runs(&process) {
                    let message = it.memory.parents.end_moved(&process);
                    self.send_to_parent(message);
                }
            }
        }
        self.later(NodeRef::Coordinator(c), STILL_WANTED_INTERVAL_MS, NodeTask::EndMoved);
    }

    /// Where the parent of a subtree runs, as a coordinator knows it.
    pub fn parent_state(&self, c: usize, process: &Arc<str>) -> ParentState {
        let it = &self.coordinators[c];
        if it.memory.runners.contains_key(process) {
            ParentState::RunsHere
        } else if self.stores[it.store].runs(process) {
            ParentState::RunsElsewhere
        } else {
            ParentState::Ended
        }
    }

    /// Reads the notices that other coordinators left.
    pub fn read_move_notices(&mut self, c: usize) {
        let store = self.coordinators[c].store;
        for (key, place) in self.stores[store].moved.clone() {
            match on_notice(self.parent_state(c, &key.process), place) {
                NoticeStep::AskPool(place) => {
                    self.stores[store].moved.remove(&key);
                    let reply = ReplyTo::MoveNotice(store, Box::new(key.clone()));
                    self.pool_mail(c, SimPoolMail::Moved(key, place, reply));
                }
                NoticeStep::Keep => {}
                NoticeStep::Remove => drop(self.stores[store].moved.remove(&key)),
            }
        }
    }
}
