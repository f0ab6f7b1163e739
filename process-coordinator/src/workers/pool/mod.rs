//! The pool of a coordinator: its workers, the other coordinators that run subtrees for it, and the attempts of its
//! processes. The pool does no I/O and has no clock: events and the time go in, [`PoolCommand`]s come out.
//!
//! Processes take turns, so that none starves the others. This file holds the processes and their attempts: dispatch, cancel, pause,
//! abandon, answers. The rest of `impl Pool` is in the files below, by subject:
//!
//! | file | subject |
//! |---|---|
//! | `pool_input` | the inputs of the pool |
//! | `pool_attempts` | the table of attempts: one state each, and the indices that follow from the states |
//! | `peer`, `pace`, `window` | one worker or coordinator: its offer, its files, its speed, how much it may have |
//! | `delegation` | subtrees: finding a coordinator, sending, moves |
//! | `placement` | which worker gets which queued task, and when it gives it back |
//! | `reservation` | room for activities that take several slots |
//! | `short_types` | which activities may wait ahead of the slots of a worker |
//! | `pool_members` | peers: roster, connections, files |
//! | `leases` | workers of other groups |
//! | `load` | where the activities of each process are, for people |
//! | `capacity` | how many attempts each process may have outstanding |
//! | `recovered_attempts` | attempts whose worker is not known, and lost workers |
//! | `movement`, `taking_back` | the progress of attempts at workers, and attempts that make none |
//! | `whereabouts` | questions about attempts and peers |

mod capacity;
mod delegation;
mod leases;
pub(crate) mod load;
mod movement;
mod pace;
mod peer;
mod placement;
mod pool_attempts;
pub mod pool_input;
mod pool_members;
mod recovered_attempts;
mod reservation;
mod short_types;
mod taking_back;
#[cfg(test)]
mod tests;
mod whereabouts;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;
use xavantes_proto::{MAX_PAYLOAD_BYTES, Message, too_large, v1};

use crate::task::Task;
use crate::workers::worker_messages::{Order, PeerKind, PoolCommand, PoolLoad, PoolNotice, Share};
use peer::Peer;
use pool_attempts::{Confirmation, PeerIndex, PoolAttempt, PoolAttemptState, PoolAttempts};
use reservation::Reservation;
use short_types::ShortTypes;
use xavantes_proto::AttemptKey;

/// A worker that is silent for this long is lost, and its attempts with it.
pub const LOST_AFTER: Duration = Duration::from_secs(10);
/// A worker that refused an attempt for lack of capacity gets nothing for this long.
const FULL_FOR: Duration = Duration::from_millis(100);

/// A subtree that went to another coordinator.
#[derive(Debug)]
pub(super) struct Delegated {
    /// Path of the subtree's root element.
    pub path: String,
    /// Address of the coordinator.
    pub address: String,
}

/// The search for the unsettled attempts of a process.
#[derive(Debug)]
pub(super) struct Search {
    /// Workers that have reported what they know of the process.
    pub heard: HashSet<Arc<str>>,
    pub since: Duration,
}

/// The peers of a coordinator and the attempts of its processes.
#[derive(Debug, Default)]
pub struct Pool {
    pub(super) attempts: PoolAttempts,
    pub(super) peers: BTreeMap<Arc<str>, Peer>,
    /// Epochs of the processes that run here.
    pub(super) epochs: HashMap<Arc<str>, u64>,
    /// Processes among them that were recovered: workers may have attempts that a former owner handed out.
    pub(super) recovered: BTreeSet<Arc<str>>,
    /// Processes that another coordinator owns.
    pub(super) foreign: HashSet<Arc<str>>,
    /// Recovered processes with attempts whose workers are not known yet.
    pub(super) searches: BTreeMap<Arc<str>, Search>,
    /// The subtrees that were delegated last.
    pub(super) delegated: VecDeque<Delegated>,
    /// The local group, as its manager reported it last.
    pub(super) roster: v1::Roster,
    /// Since when the roster is complete.
    pub(super) roster_complete_since: Option<Duration>,
    pub(super) short_types: ShortTypes,
    /// The large activity that waits for a worker of its own.
    pub(super) reservation: Option<Reservation>,
    /// Since when attempts have waited for slots without a break.
    pub(super) short_of_slots_since: Option<Duration>,
    /// The pool does not ask other groups for workers before this time.
    pub(super) next_borrow: Duration,
    /// At the last tick, no worker of the local group had a free slot.
    pub(super) was_full: bool,
    pub(super) last_tick: Duration,
    /// How long an attempt may stay at a worker without a sign that it moves; without it, for ever.
    pub(super) patience: Option<Duration>,
    pub(super) last_movement_check: Duration,
    pub(super) last_load_report: Duration,
    /// Where the activities of each process are, as the process was told last.
    pub(super) told_loads: HashMap<Arc<str>, PoolLoad>,
    pub(super) share: Share,
    /// Queued attempts that no connected worker can ever run.
    pub(super) unplaceable: u64,
    pub(super) commands: Vec<PoolCommand>,
}

impl Pool {
    /// Takes the commands since the last call, in the order in which they must be carried out.
    pub fn take_commands(&mut self) -> Vec<PoolCommand> {
        std::mem::take(&mut self.commands)
    }

    /// How many attempts each process may have outstanding.
    pub fn share(&self) -> Share {
        self.share
    }

    /// A process begins in this epoch.
    pub fn begin_process(&mut self, process: Arc<str>, epoch: u64) {
        self.foreign.remove(&process);
        self.epochs.insert(process, epoch);
    }

    /// A process has ended, here or at another coordinator: its attempts are of no interest any more.
    pub fn end_process(&mut self, process: &str) {
        self.foreign.remove(process);
        self.epochs.remove(process);
        self.recovered.remove(process);
        self.searches.remove(process);
        self.attempts.remove_process(process);
    }

    /// Another coordinator owns a process, and its attempts with it.
    pub fn lose_process(&mut self, process: Arc<str>) {
        self.end_process(&process);
        self.foreign.insert(process);
    }

    /// Queues an activity for a worker. One that is too large to be sent fails.
    pub fn dispatch(&mut self, task: Task) {
        let size = task.job.encoded_len();
        if size > MAX_PAYLOAD_BYTES {
            let failure = v1::Failure {
                kind: v1::FailureKind::Limit.into(),
                message: too_large("its parameters", size),
                ..v1::Failure::default()
            };
            return self.notify(task.key, PoolNotice::Answered(Outcome::Failed(failure)));
        }
        if self.epochs.contains_key(&task.key.process) {
            self.attempts.insert(PoolAttempt::new(task, PoolAttemptState::Queued));
        }
    }

    /// A process wants an attempt cancelled.
    pub fn cancel(&mut self, key: AttemptKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else { return };
        attempt.cancelled = true;
        match *attempt.state() {
            PoolAttemptState::Queued
            | PoolAttemptState::Placing { .. }
            | PoolAttemptState::AwaitingConnection { .. } => {
                self.attempts.remove(&key);
                self.notify_cancelled(key);
            }
            PoolAttemptState::Assigned { peer, .. } => {
                attempt.movement.on_stopped(self.last_tick);
                self.send_if_connected(peer, Order::Cancel(key));
            }
            // The worker that reports it gets the order then.
            PoolAttemptState::Unsettled => {}
        }
    }

    /// A process wants an attempt paused (`true`) or resumed (`false`). A paused activity stays in the queue. One that a worker
    /// has may run, and waits if the worker gives it back.
    pub fn pause(&mut self, key: AttemptKey, paused: bool) {
        let Some(attempt) = self.attempts.get_mut(&key) else { return };
        attempt.paused = Some(paused);
        match *attempt.state() {
            PoolAttemptState::AwaitingConnection { coordinator, .. } => self.send_awaiting(coordinator),
            PoolAttemptState::Assigned { peer, .. } if attempt.task.job.subtree.is_some() => {
                self.send_if_connected(peer, Order::Pause(key, paused));
            }
            PoolAttemptState::Placing { .. }
            | PoolAttemptState::Assigned { .. }
            | PoolAttemptState::Queued
            | PoolAttemptState::Unsettled => {}
        }
    }

    /// A user gave an attempt up: the peer that has it stops it, now or when it connects again. A worker counts as one that
    /// leaves attempts lying, so that the next attempt goes elsewhere.
    pub fn abandon(&mut self, key: &AttemptKey, now: Duration) {
        let Some(attempt) = self.attempts.get(key) else { return };
        match *attempt.state() {
            PoolAttemptState::Queued
            | PoolAttemptState::Placing { .. }
            | PoolAttemptState::AwaitingConnection { .. }
            | PoolAttemptState::Unsettled => {
                self.attempts.remove(key);
            }
            PoolAttemptState::Assigned { peer, .. } => {
                self.attempts.remove(key);
                self.send_if_connected(peer, Order::Cancel(key.clone()));
                let worker = self.peers.get_mut(self.attempts.peer_name(peer));
                if let (Some(worker), Some(patience)) = (worker, self.patience)
                    && worker.kind == PeerKind::Worker
                {
                    worker.window.on_taken_back(now, patience);
                }
            }
        }
    }

    /// A peer answered these attempts. Returns those that it does not have: their processes must not believe the answers.
    pub fn on_answered(&mut self, name: &str, keys: &[AttemptKey], now: Duration) -> Vec<AttemptKey> {
        let Some(peer) = self.peers.get_mut(name) else { return keys.to_vec() };
        let (mut not_held, mut worked) = (Vec::new(), 0);
        // The attempts of this report that the peer had, from the first doubt on.
        let mut had: Option<HashSet<&AttemptKey>> = None;
        for (position, key) in keys.iter().enumerate() {
            let has = |attempt: &PoolAttempt| {
                attempt.is_assigned_to(peer.index) || *attempt.state() == PoolAttemptState::Unsettled
            };
            match self.attempts.remove_if(key, has) {
                // The worker had to fetch the files that the activity needed.
                Some(attempt) => {
                    peer.holdings.add(attempt.task.files.iter().map(|need| need.digest));
                    // A worker that gives up what it left lying has shown nothing.
                    if !attempt.cancelled {
                        worked += 1;
                        // The pool does not know since when a worker has had an adopted attempt.
                        if peer.kind == PeerKind::Worker && attempt.confirmation() == Some(Confirmation::Confirmed) {
                            self.short_types.on_answered(&attempt.task, attempt.movement.age(now));
                        }
                    }
                    if let Some(had) = &mut had {
                        had.insert(key);
                    }
                }
                None if peer.may_speak_for(self.attempts.get(key)) => {}
                // A report may have an answer twice: a peer sends it when it connects, and when its process is claimed.
                None if had.get_or_insert_with(|| keys[..position].iter().collect()).contains(key) => {}
                None => not_held.push(key.clone()),
            }
        }
        let held = keys.len() - not_held.len();
        peer.pace.set_working(self.attempts.has_assigned(peer.index), now);
        peer.pace.count(held, peer.offer.slots);
        peer.window.on_answers(worked);
        not_held
    }

    /// Which of these attempts a peer calls shared objects for although it does not have them.
    pub fn not_held(&self, name: &str, callers: &[AttemptKey]) -> Vec<AttemptKey> {
        let peer = self.peers.get(name);
        let holds = |key: &&AttemptKey| peer.is_some_and(|peer| peer.may_speak_for(self.attempts.get(key)));
        callers.iter().filter(|key| !holds(key)).cloned().collect()
    }

    /// A peer refused an attempt. An activity goes to another worker.
    pub fn on_refused(&mut self, name: &str, key: &AttemptKey, refusal: v1::Refusal, now: Duration) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        let Some(attempt) = self.attempts.get_mut(key).filter(|it| it.is_assigned_to(peer.index)) else { return };
        if peer.kind == PeerKind::Coordinator {
            self.attempts.remove(key);
            return self.notify(key.clone(), PoolNotice::Answered(Outcome::Refused(refusal)));
        }
        if refusal.permanent {
            peer.unfit.insert((attempt.task.program.digest.clone(), attempt.task.job.activity));
        } else {
            peer.full_until = Some(now + FULL_FOR);
        }
        if let Some(patience) = self.patience.filter(|_| attempt.movement.is_recalled()) {
            // Rather there than at workers that leave it lying.
            attempt.task.avoid = None;
            // Such a worker would get it again and again. If others use its slots, it could not help it.
            let excused = peer.slots_of_others > 0 && now.saturating_sub(peer.reported_at) <= patience;
            if !excused {
                peer.window.on_taken_back(now, patience);
            }
        }
        if attempt.cancelled {
            self.attempts.remove(key);
            return self.notify_cancelled(key.clone());
        }
        self.attempts.transition(key, PoolAttemptState::Queued);
    }

    /// Does what time requires. Called several times a second.
    pub fn on_tick(&mut self, now: Duration) {
        self.discount_own_suspension(now);
        self.settle_searches(now);
        self.update_leases(now);
        self.measure_slow_workers(now);
        self.update_reservation(now);
        self.recall_waiting(now);
        self.was_full = !self.has_free_local_slot(now);
        self.refuse_unreachable(now);
        self.lose_silent_workers(now);
        self.take_back_unmoved(now);
        self.report_loads(now);
    }

    /// The coordinator of a subtree reports what the subtree is doing.
    pub fn on_subtrees(&mut self, name: &str, subtrees: Vec<v1::SubtreeStatus>) {
        let Some(peer) = self.peers.get(name).filter(|peer| peer.kind == PeerKind::Coordinator) else { return };
        let index = peer.index;
        for status in subtrees {
            let Some(key) = status.id.as_ref().map(AttemptKey::from) else { continue };
            if let Some(attempt) = self.attempts.get_mut(&key).filter(|attempt| attempt.is_assigned_to(index)) {
                attempt.subtree_counts = status.counts;
                self.notify(key, PoolNotice::Subtree(Box::new(status)));
            }
        }
    }

    /// A coordinator is silent: nobody knows what runs in its subtrees.
    pub(super) fn on_subtrees_unheard(&mut self, name: &str) {
        let Some(peer) = self.peers.get(name).filter(|peer| peer.kind == PeerKind::Coordinator) else { return };
        for key in self.attempts.assigned_to(peer.index) {
            let Some(counts) = self.attempts.get(&key).and_then(|attempt| attempt.subtree_counts) else { continue };
            let status = v1::SubtreeStatus {
                state: v1::State::Waiting.into(),
                wait_reason: Some(v1::wait_reason::Kind::CoordinatorSilentMs(0).into()),
                counts: Some(counts.unheard()),
                id: None,
            };
            self.notify(key, PoolNotice::Subtree(Box::new(status)));
        }
    }

    pub(super) fn epoch(&self, process: &str) -> u64 {
        self.epochs.get(process).copied().unwrap_or_default()
    }

    pub(super) fn notify(&mut self, key: AttemptKey, notice: PoolNotice) {
        self.commands.push(PoolCommand::Notify(key, notice));
    }

    pub(super) fn notify_cancelled(&mut self, key: AttemptKey) {
        self.notify(key, PoolNotice::Answered(Outcome::Cancelled(v1::Nothing {})));
    }

    pub(super) fn notify_refused(&mut self, key: AttemptKey, reason: RefusalKind) {
        self.notify(key, PoolNotice::Answered(Outcome::Refused(v1::Refusal::for_now(reason))));
    }

    pub(super) fn send(&mut self, name: &Arc<str>, order: Order) {
        self.commands.push(PoolCommand::Send(name.clone(), order));
    }

    pub(super) fn send_if_connected(&mut self, peer: PeerIndex, order: Order) {
        let name = self.attempts.peer_name(peer);
        if self.peers.get(name).is_some_and(|peer| peer.connected) {
            self.commands.push(PoolCommand::Send(name.clone(), order));
        }
    }
}

/// Sends an attempt to the peer of this name. If its connection breaks meanwhile, the peer does not know the attempt when
/// it connects again, and the attempt is lost.
pub(super) fn send_task(commands: &mut Vec<PoolCommand>, name: &Arc<str>, task: &Task, epoch: u64) {
    commands.push(PoolCommand::Send(name.clone(), Order::Program(task.program.clone())));
    let job = v1::Job { epoch, ..task.job.clone() };
    commands.push(PoolCommand::Send(name.clone(), Order::Job(Box::new(job))));
}
