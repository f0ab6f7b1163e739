//! Subtrees that another coordinator of their realm has taken over: reports to the parent, and move notices in the store.

use std::sync::Arc;

use xavantes_process_coordinator::handover::Placement;
use xavantes_process_coordinator::process::input::ProcessInput;
use xavantes_process_coordinator::process::journal::Origin;
use xavantes_process_coordinator::subtrees::move_notice::{NoticeStep, ParentState, on_notice};
use xavantes_process_coordinator::subtrees::parent_links::{ParentAttempt, UnwantedSubtree};

use crate::call::{CallRequest, MoveReport, ReplyTo};
use crate::coordinator::state::SimPoolMail;
use crate::machine::NodeRef;
use crate::world::World;

impl World<'_> {
    /// Reports to a parent where a subtree runs, while the parent waits for it.
    pub fn report_place(&mut self, c: usize, origin: Origin, epoch: u64) {
        let it = &self.coordinators[c];
        let Some(parent) = ParentAttempt::of(&origin) else { return };
        if !it.memory.parents.waits(&parent) {
            return;
        }
        let name = it.machine.name.to_string();
        let place = Placement { node: name.clone(), address: name, epoch };
        let (life, to) = (it.machine.life, NodeRef::at_address(&origin.address));
        let reply = ReplyTo::Moved(Box::new(MoveReport { c, life, origin, epoch }));
        self.call(Some(NodeRef::Coordinator(c)), to, CallRequest::Moved(parent.key, place), reply);
    }

    /// Stops or removes a subtree for which no process waits.
    pub fn stop_unwanted(&mut self, c: usize, origin: &Origin) {
        let Some(parent) = ParentAttempt::of(origin) else { return };
        self.trace(|| format!("c{c}: no process waits for {}", parent.key));
        match self.coordinators[c].memory.parents.forget(&parent) {
            UnwantedSubtree::Discard(process) => self.discard(c, &process),
            UnwantedSubtree::Cancel(process) => {
                self.notify(c, &process, ProcessInput::ParentCancelled);
            }
            UnwantedSubtree::Gone => {}
        }
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
