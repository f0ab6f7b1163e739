//! Subtrees that other coordinators run for this one: the pool finds a coordinator, the process records the place, and
//! only then the pool sends the subtree there. The coordinator of a subtree reports when the subtree has moved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;
use xavantes_proto::{MAX_PAYLOAD_BYTES, Message, v1};

use super::pool_attempts::{Confirmation, PeerIndex, PoolAttempt, PoolAttemptState};
use super::{Delegated, Pool, send_task};
use crate::handover::SubtreePlace;
use crate::task::Task;
use crate::workers::worker_messages::{MoveOutcome, PeerKind, PoolCommand, PoolNotice};
use xavantes_proto::AttemptKey;

/// Upper bound on the lenders that the pool names to the group manager.
const MAX_LENDERS: usize = 16;
/// How long a subtree waits for the connection to its coordinator before the pool refuses it.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Upper bound on the delegations that the pool remembers, for users who ask for the logs of a subtree after its end.
const MAX_REMEMBERED_DELEGATIONS: usize = 1024;

/// The name of another coordinator in the pool.
fn coordinator_name(place: &SubtreePlace) -> Arc<str> {
    format!("{}@{}", place.node, place.address).into()
}

impl Pool {
    /// Finds a coordinator for a subtree. One that is too large to be sent is refused.
    pub fn delegate(&mut self, mut task: Task) {
        if task.job.encoded_len() > MAX_PAYLOAD_BYTES {
            task.job.recipes.clear();
        }
        let size = task.job.encoded_len();
        if size > MAX_PAYLOAD_BYTES {
            return self.notify_refused(task.key, RefusalKind::TooLargeBytes(size as u64));
        }
        self.find_place(PoolAttempt::new(task, PoolAttemptState::Placing { place: None }));
    }

    pub(super) fn find_place(&mut self, attempt: PoolAttempt) {
        self.commands.push(PoolCommand::FindPlace(attempt.task.key.clone(), self.idle_lenders()));
        self.attempts.insert(attempt);
    }

    /// The groups that lend workers which have nothing to do.
    fn idle_lenders(&self) -> Vec<String> {
        let lent = self.peers.iter().filter(|(_, peer)| peer.lease.is_some());
        let idle = lent.filter(|(_, peer)| peer.free_slots(self.attempts.used(peer.index)) > 0);
        let groups: BTreeSet<&str> = idle.filter_map(|(name, _)| Some(name.split_once('/')?.0)).collect();
        groups.into_iter().take(MAX_LENDERS).map(str::to_owned).collect()
    }

    /// The group manager named a coordinator for a subtree, or has none. The process records the place first.
    pub fn on_place_found(&mut self, key: AttemptKey, node: Option<v1::NodeDescription>) {
        let attempt = self.attempts.get(&key);
        if !attempt.is_some_and(|attempt| matches!(attempt.state(), PoolAttemptState::Placing { .. })) {
            return;
        }
        let Some(node) = node else {
            self.attempts.remove(&key);
            return self.notify_refused(key, RefusalKind::NoCoordinator(v1::Nothing {}));
        };
        let place = SubtreePlace { node: node.name, address: node.address, epoch: 0 };
        self.attempts.transition(&key, PoolAttemptState::Placing { place: Some(place.clone()) });
        self.notify(key, PoolNotice::Placed(place));
    }

    /// The process has recorded the place of a subtree: the pool sends the subtree there, or asks for it if it is said to
    /// be there already.
    pub fn on_place_recorded(&mut self, key: &AttemptKey, now: Duration) {
        let Some(attempt) = self.attempts.get(key) else { return };
        match attempt.state() {
            PoolAttemptState::Placing { place: Some(place) } => {
                let (path, place) = (attempt.task.job.path.clone(), place.clone());
                let coordinator = self.open_coordinator(&place, now);
                self.remember_delegation(path, place.address);
                self.attempts.transition(key, PoolAttemptState::AwaitingConnection { coordinator, since: now });
                self.send_awaiting(coordinator);
            }
            &PoolAttemptState::Assigned { peer, confirmation: Confirmation::AskWhenRecorded, .. } => {
                self.attempts.set_confirmation(key, Confirmation::Asked);
                self.claim_at(peer, &key.process);
            }
            PoolAttemptState::Queued
            | PoolAttemptState::Placing { place: None }
            | PoolAttemptState::AwaitingConnection { .. }
            | PoolAttemptState::Assigned { .. }
            | PoolAttemptState::Unsettled => {}
        }
    }

    /// A subtree reports that it runs at this place now. Its former coordinator may still be connected without knowing
    /// that it lost the subtree. The subtree repeats the report until the process has recorded the place.
    pub fn on_moved(&mut self, key: &AttemptKey, place: &SubtreePlace, now: Duration) -> MoveOutcome {
        let Some(attempt) = self.attempts.get(key) else { return MoveOutcome::Unwanted };
        let &PoolAttemptState::Assigned { peer, confirmation, epoch } = attempt.state() else {
            return MoveOutcome::Unwanted;
        };
        let same_place = **self.attempts.peer_name(peer) == *coordinator_name(place);
        if epoch > place.epoch || (epoch == place.epoch && same_place) {
            return match confirmation {
                Confirmation::AskWhenRecorded => MoveOutcome::Recording,
                Confirmation::Confirmed | Confirmation::Adopted | Confirmation::Asked => MoveOutcome::Recorded,
            };
        }
        let peer = self.open_coordinator(place, now);
        self.notify(key.clone(), PoolNotice::Placed(place.clone()));
        let confirmation = Confirmation::AskWhenRecorded;
        self.attempts.transition(key, PoolAttemptState::Assigned { peer, confirmation, epoch: place.epoch });
        self.expect_answers_of(peer);
        MoveOutcome::Recording
    }

    /// The peer that a subtree goes to. A node may be both a worker and a coordinator: it is two peers then, with a
    /// connection each.
    pub(super) fn open_coordinator(&mut self, place: &SubtreePlace, now: Duration) -> PeerIndex {
        self.open(PeerKind::Coordinator, &coordinator_name(place), place.address.clone(), now).index
    }

    /// Keeps the connection to a coordinator open, because it may have a subtree.
    pub(super) fn expect_answers_of(&mut self, coordinator: PeerIndex) {
        if let Some(peer) = self.peers.get_mut(self.attempts.peer_name(coordinator)) {
            peer.owes = true;
        }
    }

    pub(super) fn remember_delegation(&mut self, path: String, address: String) {
        self.delegated.push_back(Delegated { path, address });
        if self.delegated.len() > MAX_REMEMBERED_DELEGATIONS {
            self.delegated.pop_front();
        }
    }

    /// Sends the subtrees that wait for a coordinator, except paused ones, if it is connected.
    pub(super) fn send_awaiting(&mut self, coordinator: PeerIndex) {
        let name = self.attempts.peer_name(coordinator).clone();
        let Some(peer) = self.peers.get_mut(&name).filter(|peer| peer.connected) else { return };
        for key in self.attempts.awaiting(coordinator).to_vec() {
            let Some(attempt) = self.attempts.get(&key).filter(|attempt| attempt.paused != Some(true)) else {
                continue;
            };
            let epoch = self.epochs.get(&key.process).copied().unwrap_or_default();
            send_task(&mut self.commands, &name, &attempt.task, epoch);
            peer.owes = true;
            let confirmation = Confirmation::Confirmed;
            self.attempts.transition(&key, PoolAttemptState::Assigned { peer: coordinator, confirmation, epoch: 0 });
        }
    }

    /// Refuses subtrees whose coordinator could not be connected in time. A paused subtree waits.
    pub(super) fn refuse_unreachable(&mut self, now: Duration) {
        let awaiting = self.peers.values().flat_map(|peer| self.attempts.awaiting(peer.index));
        let expired = awaiting.filter(|key| {
            let since = self.attempts.awaiting_since(key);
            since.is_some_and(|since| now.saturating_sub(since) >= CONNECT_WITHIN)
        });
        for key in expired.cloned().collect::<Vec<_>>() {
            self.attempts.remove(&key);
            self.notify_refused(key, RefusalKind::CoordinatorUnreachable(v1::Nothing {}));
        }
    }
}
