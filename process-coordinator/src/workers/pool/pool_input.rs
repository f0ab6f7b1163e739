//! The inputs of the pool: everything that happens to it, except questions and new connections.

use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use super::Pool;
use crate::handover::RecoveredAttempt;
use crate::task::Task;
use xavantes_proto::AttemptKey;

/// An input of the pool. Names of peers come first.
#[derive(Debug)]
pub enum PoolInput {
    /// The group, as its manager knows it now.
    Roster(v1::Roster),
    /// Activities want workers.
    Dispatch(Vec<Task>),
    /// A subtree wants a coordinator.
    Delegate(Task),
    /// The placement of a subtree is recorded: it may go there.
    HandOver(AttemptKey),
    /// The group manager found this coordinator, or none, for a subtree.
    PlaceFound(AttemptKey, Option<v1::NodeDescription>),
    /// The group manager found a worker of another group.
    Borrowed(v1::PlaceResponse),
    /// The repository has the name of a borrowed worker.
    LeaseStored(Arc<str>),
    /// A worker that was borrowed before this coordinator started: its name and address.
    LeaseRestored(Arc<str>, String),
    /// Stop an attempt.
    Cancel(AttemptKey),
    /// Pause (`true`) or resume (`false`) a subtree.
    Pause(AttemptKey, bool),
    /// Forget an attempt.
    Abandon(AttemptKey),
    /// A process began, in this epoch.
    ProcessBegan(Arc<str>, u64),
    /// A process was recovered, in this epoch, with these outstanding attempts.
    ProcessRecovered(Arc<str>, u64, Vec<RecoveredAttempt>),
    /// A process ended.
    ProcessEnded(Arc<str>),
    /// Another coordinator runs a process, or no coordinator can.
    ProcessLost(Arc<str>),
    /// A peer reports the attempts that it knows of claimed processes.
    Known(Arc<str>, v1::Known),
    /// A peer takes no new work.
    Draining(Arc<str>),
    /// A worker takes no new work for this reason, or takes work again.
    Impaired(Arc<str>, Option<v1::ImpairmentReason>),
    /// A worker runs these attempts.
    Running(Arc<str>, v1::Running),
    /// A coordinator reports what subtrees are doing.
    Subtrees(Arc<str>, Vec<v1::SubtreeStatus>),
    /// A peer answered these attempts.
    Answered(Arc<str>, Vec<AttemptKey>),
    /// A peer refused an attempt.
    Refused(Arc<str>, AttemptKey, v1::Refusal),
    /// A worker holds these objects.
    Holds(Arc<str>, Vec<Digest>),
    /// A worker lacks these objects.
    Lacks(Arc<str>, Vec<Digest>),
}

impl Pool {
    /// Takes an input at this time.
    pub fn handle(&mut self, input: PoolInput, now: Duration) {
        match input {
            PoolInput::Roster(roster) => self.on_roster(roster, now),
            PoolInput::Dispatch(tasks) => tasks.into_iter().for_each(|task| self.dispatch(task)),
            PoolInput::Delegate(task) => self.delegate(task),
            PoolInput::HandOver(key) => self.on_place_recorded(&key, now),
            PoolInput::PlaceFound(key, node) => self.on_place_found(key, node),
            PoolInput::Borrowed(place) => self.on_borrowed(place, now),
            PoolInput::LeaseStored(name) => self.on_lease_stored(&name),
            PoolInput::LeaseRestored(name, address) => self.restore_lease(name, address, now),
            PoolInput::Cancel(key) => self.cancel(key),
            PoolInput::Pause(key, paused) => self.pause(key, paused),
            PoolInput::Abandon(key) => self.abandon(&key, now),
            PoolInput::ProcessBegan(process, epoch) => self.begin_process(process, epoch),
            PoolInput::ProcessRecovered(process, epoch, attempts) => {
                self.recover_process(&process, epoch, attempts, now);
            }
            PoolInput::ProcessEnded(process) => self.end_process(&process),
            PoolInput::ProcessLost(process) => self.lose_process(process),
            PoolInput::Known(name, known) => self.on_known(&name, known),
            PoolInput::Draining(name) => self.on_draining(&name),
            PoolInput::Impaired(name, reason) => self.on_impaired(&name, reason),
            PoolInput::Running(name, running) => self.on_running(&name, &running, now),
            PoolInput::Subtrees(name, subtrees) => self.on_subtrees(&name, subtrees),
            PoolInput::Answered(name, keys) => drop(self.on_answered(&name, &keys, now)),
            PoolInput::Refused(name, key, refusal) => self.on_refused(&name, &key, refusal, now),
            PoolInput::Holds(name, digests) => self.add_files(&name, digests),
            PoolInput::Lacks(name, digests) => self.remove_files(&name, &digests),
        }
    }
}
