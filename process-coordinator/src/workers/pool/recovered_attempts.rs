//! Attempts whose worker is not known, or is lost: after a restart, after another coordinator's process was taken over,
//! and after a broken connection.
//!
//! The pool claims a recovered process at every worker. A worker answers with the attempts that it knows, and the pool
//! adopts them. Attempts that no worker reports are lost when all workers have answered, or after [`LOST_AFTER`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::v1;

use super::movement::Movement;
use super::pool_attempts::{Confirmation, PeerIndex, PoolAttempt, PoolAttemptState};
use super::{LOST_AFTER, Pool, Search};
use crate::handover::RecoveredAttempt;
use crate::handover::SubtreePlace;
use crate::workers::worker_messages::{LossReason, Order, PeerKind, PoolCommand, PoolNotice};
use xavantes_proto::AttemptKey;

/// A gap this long between ticks means that this coordinator was suspended.
const SUSPENDED_AFTER: Duration = Duration::from_secs(1);

impl Pool {
    /// A stored process continues here with these outstanding attempts.
    pub fn recover_process(&mut self, process: &Arc<str>, epoch: u64, attempts: Vec<RecoveredAttempt>, now: Duration) {
        // The journal is right about what is outstanding, not what an earlier ownership of the process left here.
        self.attempts.remove_process(process);
        self.begin_process(process.clone(), epoch);
        self.recovered.insert(process.clone());
        let mut searching = false;
        for RecoveredAttempt { task, place, stop, paused } in attempts {
            let is_subtree = task.job.subtree.is_some();
            let recovered = |state| {
                let mut attempt = PoolAttempt::new(task, state);
                (attempt.cancelled, attempt.paused) = (stop, paused);
                attempt
            };
            match place {
                _ if !is_subtree => {
                    searching = true;
                    self.attempts.insert(recovered(PoolAttemptState::Unsettled));
                }
                Some(place) => {
                    let peer = self.open_coordinator(&place, now);
                    let (confirmation, epoch) = (Confirmation::Asked, place.epoch);
                    let attempt = recovered(PoolAttemptState::Assigned { peer, confirmation, epoch });
                    self.remember_delegation(attempt.task.job.path.clone(), place.address);
                    self.attempts.insert(attempt);
                    self.expect_answers_of(peer);
                    self.claim_at(peer, process);
                }
                // The subtree was not sent anywhere before.
                None => self.find_place(recovered(PoolAttemptState::Placing { place: None })),
            }
        }
        // Also if nothing is outstanding: workers learn that a former owner has lost the process, and repeat answers
        // that were recorded but not acknowledged.
        let workers = self.peers.values().filter(|peer| peer.is_connected_worker());
        for worker in workers.map(|peer| peer.index).collect::<Vec<_>>() {
            self.claim_at(worker, process);
        }
        if searching {
            self.searches.insert(process.clone(), Search { heard: HashSet::new(), since: now });
        }
    }

    /// Claims a process at a peer, if it is connected. A borrowed worker whose lease is not stored gets the claim later.
    pub(super) fn claim_at(&mut self, peer: PeerIndex, process: &Arc<str>) {
        let claim = v1::Claim { process: process.to_string(), epoch: self.epoch(process) };
        let name = self.attempts.peer_name(peer);
        if let Some(peer) = self.peers.get_mut(name).filter(|peer| peer.connected && peer.lease_stored) {
            peer.on_claim_sent(process);
            self.commands.push(PoolCommand::Send(name.clone(), Order::Claim(vec![claim])));
        }
    }

    /// A coordinator that restarted may take a subtree for one of a former owner. The process records the place once
    /// more, which proves that this coordinator still owns the process; then the pool asks for the subtree.
    pub(super) fn confirm_places(&mut self, name: &Arc<str>, missing: &[AttemptKey]) {
        let Some(peer) = self.peers.get(name) else { return };
        let address = peer.address.clone();
        let node = name.strip_suffix(&*format!("@{address}")).unwrap_or(name).to_owned();
        for key in missing {
            let Some(attempt) = self.attempts.get(key) else { continue };
            let PoolAttemptState::Assigned {
                confirmation: Confirmation::Confirmed | Confirmation::Adopted, epoch, ..
            } = *attempt.state()
            else {
                continue;
            };
            self.attempts.set_confirmation(key, Confirmation::AskWhenRecorded);
            let place = SubtreePlace { node: node.clone(), address: address.clone(), epoch };
            self.notify(key.clone(), PoolNotice::Placed(place));
        }
    }

    /// A worker knows these attempts: the search for unsettled ones among them is over.
    pub(super) fn adopt<'a>(&mut self, name: &Arc<str>, peer: PeerIndex, keys: impl Iterator<Item = &'a AttemptKey>) {
        for key in keys {
            let Some(attempt) = self.attempts.get(key) else { continue };
            if *attempt.state() != PoolAttemptState::Unsettled {
                continue;
            }
            let cancelled = attempt.cancelled;
            let confirmation = Confirmation::Adopted;
            self.attempts.transition(key, PoolAttemptState::Assigned { peer, confirmation, epoch: 0 });
            if let Some(attempt) = self.attempts.get_mut(key) {
                attempt.movement = Movement::begin(self.last_tick);
            }
            if cancelled {
                self.send(name, Order::Cancel(key.clone()));
            }
        }
    }

    /// A peer connected and does not know these attempts: they never arrived, or were lost with the peer.
    pub(super) fn lose_missing(&mut self, name: &Arc<str>, missing: Vec<AttemptKey>, now: Duration) {
        for key in missing {
            match self.attempts.get(&key).and_then(PoolAttempt::confirmation) {
                Some(Confirmation::Confirmed) => {
                    self.attempts.remove(&key);
                    self.notify(key, PoolNotice::Lost(LossReason::UnknownToWorker));
                }
                // The worker may have crashed before it stored the new owner of the attempt: the pool asks once more.
                Some(Confirmation::Adopted) => {
                    self.attempts.transition(&key, PoolAttemptState::Unsettled);
                    let others = self.peers.keys().filter(|other| *other != name).cloned();
                    let search = self.searches.entry(key.process.clone());
                    let search = search.or_insert_with(|| Search { heard: others.collect(), since: now });
                    search.heard.remove(name);
                }
                Some(Confirmation::AskWhenRecorded | Confirmation::Asked) | None => {}
            }
        }
    }

    /// Repeats the last order about an attempt. Cancelling lifts a pause.
    pub(super) fn repeat_order(&mut self, name: &Arc<str>, key: &AttemptKey) {
        let Some(attempt) = self.attempts.get(key) else { return };
        match attempt.paused {
            _ if attempt.cancelled => self.send(name, Order::Cancel(key.clone())),
            Some(paused) if attempt.task.job.subtree.is_some() => self.send(name, Order::Pause(key.clone(), paused)),
            _ => {}
        }
    }

    /// Processes with subtrees that a coordinator has not confirmed yet.
    pub(super) fn asked_processes(&self, coordinator: PeerIndex) -> BTreeSet<Arc<str>> {
        let asked = self.attempts.assigned_to(coordinator).into_iter().filter(|key| self.is_asked(key));
        asked.map(|key| key.process).collect()
    }

    fn is_asked(&self, key: &AttemptKey) -> bool {
        self.attempts.get(key).and_then(PoolAttempt::confirmation) == Some(Confirmation::Asked)
    }

    /// Cancels attempts that a peer runs and no process waits for. An attempt at another peer is wanted: a subtree that has
    /// moved is still noted at its former place. Attempts of foreign processes are for their owner to cancel.
    pub(super) fn cancel_unwanted(&mut self, name: &Arc<str>, running: Vec<AttemptKey>) {
        for key in running {
            let state = self.attempts.get(&key).map(PoolAttempt::state);
            let wanted = matches!(state, Some(PoolAttemptState::Assigned { .. } | PoolAttemptState::Unsettled));
            if !wanted && !self.foreign.contains(&key.process) {
                self.send(name, Order::Cancel(key));
            }
        }
    }

    /// A peer answers a claim with the attempts that it knows.
    pub fn on_known(&mut self, name: &Arc<str>, known: v1::Known) {
        let Some(peer) = self.peers.get(name).map(|peer| peer.index) else { return };
        let running: Vec<AttemptKey> = known.running.iter().map(AttemptKey::from).collect();
        let answered: Vec<AttemptKey> = known.answered.iter().map(AttemptKey::from).collect();
        self.adopt(name, peer, running.iter().chain(&answered));
        if let Some(peer) = self.peers.get_mut(name) {
            peer.owes |= !running.is_empty() || !answered.is_empty();
        }
        let claims = known.processes.iter().filter(|process| {
            let peer = self.peers.get_mut(name);
            peer.is_some_and(|peer| peer.on_claim_answered(process))
        });
        let settled: HashSet<&str> = claims.map(String::as_str).collect();
        let reported: HashSet<&AttemptKey> = running.iter().chain(&answered).collect();
        for key in self.attempts.assigned_to(peer) {
            if !settled.contains(&*key.process) || !self.is_asked(&key) {
                continue;
            }
            if reported.contains(&key) {
                self.attempts.set_confirmation(&key, Confirmation::Confirmed);
                self.repeat_order(name, &key);
            } else {
                self.attempts.remove(&key);
                self.notify(key, PoolNotice::Lost(LossReason::UnknownToCoordinator));
            }
        }
        for process in settled {
            if let Some(search) = self.searches.get_mut(process) {
                search.heard.insert(name.clone());
            }
        }
        self.cancel_unwanted(name, running);
    }

    /// While this coordinator was suspended it could hear nobody: that time is no silence of its peers.
    pub(super) fn discount_own_suspension(&mut self, now: Duration) {
        let gap = now.saturating_sub(std::mem::replace(&mut self.last_tick, now));
        if gap < SUSPENDED_AFTER {
            return;
        }
        for peer in self.peers.values_mut() {
            peer.unheard += gap;
            if let Some(since) = &mut peer.silent_since {
                *since = (*since + gap).min(now);
            }
        }
        for search in self.searches.values_mut() {
            search.since = (search.since + gap).min(now);
        }
    }

    /// Ends searches that all workers have answered, or that take too long: attempts that are unsettled still are lost.
    pub(super) fn settle_searches(&mut self, now: Duration) {
        let Some(complete_since) = self.roster_complete_since else { return };
        let workers = self.peers.iter().filter(|(_, peer)| peer.kind == PeerKind::Worker);
        let workers: Vec<&Arc<str>> = workers.map(|(name, _)| name).collect();
        let ended = self.searches.iter().filter(|(_, search)| {
            let late = now.saturating_sub(search.since.max(complete_since)) > LOST_AFTER;
            late || workers.iter().all(|name| search.heard.contains(*name))
        });
        for process in ended.map(|(process, _)| process.clone()).collect::<Vec<_>>() {
            self.searches.remove(&process);
            let attempts = self.attempts.of_process(&process).into_iter();
            let unsettled = attempts.filter(|attempt| *attempt.state() == PoolAttemptState::Unsettled);
            for key in unsettled.map(|attempt| attempt.task.key.clone()).collect::<Vec<_>>() {
                match self.attempts.remove(&key) {
                    Some(attempt) if attempt.cancelled => self.notify_cancelled(key),
                    _ => self.notify(key, PoolNotice::Lost(LossReason::Unclaimed)),
                }
            }
        }
    }

    /// Takes the attempts of workers for lost that have been silent for too long. Other coordinators continue without a
    /// connection, and report when they are back.
    pub(super) fn lose_silent_workers(&mut self, now: Duration) {
        let silent = self.peers.values().filter(|peer| {
            let silent_since = peer.silent_since.filter(|_| peer.kind == PeerKind::Worker);
            silent_since.is_some_and(|since| now.saturating_sub(since) > LOST_AFTER)
        });
        let lost = silent.flat_map(|peer| self.attempts.assigned_to(peer.index));
        for key in lost.collect::<Vec<_>>() {
            self.attempts.remove(&key);
            self.notify(key, PoolNotice::Lost(LossReason::WorkerSilent));
        }
    }
}
