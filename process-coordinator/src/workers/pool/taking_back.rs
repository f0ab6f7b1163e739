//! Attempts that do not move: a worker has them, is connected, and neither runs nor answers them. The pool recalls such
//! attempts, and takes them back if that does not help. They run elsewhere under a new number, and a late answer to the old
//! number is rejected.

use std::iter::repeat;
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::{AttemptKey, v1};

use super::Pool;
use super::movement::{MovementLimits, MovementVerdict};
use super::placement::MAX_WAIT;
use crate::workers::worker_messages::{LossReason, Order, PeerKind, PoolCommand, PoolNotice};

/// Interval at which the pool looks for attempts that do not move.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Pool {
    /// A pool that takes attempts back which do not move for this long.
    pub fn with_patience(patience: Duration) -> Self {
        Self { patience: Some(patience), ..Self::default() }
    }

    /// A worker reports the attempts that it runs, and how many slots others use. It can run no more than it has slots for. The pool cancels attempts of
    /// processes that have ended: their owner may have had no connection to the worker then.
    pub fn on_running(&mut self, name: &Arc<str>, running: &v1::Running, now: Duration) {
        let keys: Vec<AttemptKey> = running.attempts.iter().map(AttemptKey::from).collect();
        let Some(peer) = self.peers.get_mut(name).filter(|peer| peer.kind == PeerKind::Worker) else { return };
        let mut slots = 0_u32;
        let ages = running.running_ms.iter().map(|ms| Duration::from_millis(*ms)).chain(repeat(Duration::ZERO));
        for (key, age) in keys.iter().zip(ages) {
            let attempt = self.attempts.get_mut(key).filter(|attempt| attempt.is_assigned_to(peer.index));
            let Some(attempt) = attempt else { continue };
            let more = slots.saturating_add(attempt.task.needs.cpus.max(1));
            if more > peer.offer.slots {
                break;
            }
            slots = more;
            attempt.movement.on_running(age, now);
        }
        peer.window.on_running(slots);
        (peer.slots_of_others, peer.reported_at) = (running.slots_of_others, now);
        let (index, used) = (peer.index, self.attempts.used(peer.index).cpus);
        peer.attempts_wait =
            used > slots && self.attempts.any_assigned(index, |attempt| attempt.movement.has_waited(MAX_WAIT, now));
        // Attempts that the report does not list run only if the pool has just sent them to a free slot.
        let mut left = peer.offer.slots;
        self.attempts.for_each_assigned(peer.index, |attempt| {
            if attempt.movement.is_reported() {
                left = left.saturating_sub(attempt.task.needs.cpus.max(1));
            }
        });
        self.attempts.for_each_assigned(peer.index, |attempt| {
            if attempt.movement.is_reported() {
                return;
            }
            let cpus = attempt.task.needs.cpus.max(1);
            attempt.movement.on_not_running(cpus <= left, now);
            if attempt.movement.runs_for(now).is_some() {
                left -= cpus;
            }
        });
        let ended = keys.into_iter().filter(|key| !self.epochs.contains_key(&key.process)).collect();
        self.cancel_unwanted(name, ended);
    }

    /// Since the last tick this coordinator has not read the reports of a peer: that time is no silence of the peer.
    pub fn on_unread_reports(&mut self, name: &str, now: Duration) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.unheard += now.saturating_sub(self.last_tick);
        }
    }

    /// Recalls attempts that do not move, and takes back those that a recall did not move.
    pub(super) fn take_back_unmoved(&mut self, now: Duration) {
        let Some(patience) = self.patience else { return };
        if now.saturating_sub(self.last_movement_check) < CHECK_INTERVAL {
            return;
        }
        self.last_movement_check = now;
        let workers = self.peers.iter_mut().filter(|(_, peer)| peer.is_connected_worker());
        let mut lost: Vec<(AttemptKey, Arc<str>, LossReason)> = Vec::new();
        for (name, peer) in workers {
            let unheard = std::mem::take(&mut peer.unheard);
            let limits = MovementLimits { patience, grace: peer.offer.grace };
            let (mut recall, known) = (false, lost.len());
            self.attempts.for_each_assigned(peer.index, |attempt| {
                attempt.movement.discount(unheard, now);
                let timeout = attempt.task.job.timeout_ms.map(Duration::from_millis);
                match attempt.movement.judge(timeout, limits, now) {
                    MovementVerdict::Wait => {}
                    MovementVerdict::Recall => {
                        attempt.movement.on_recalled(now);
                        recall = true;
                    }
                    MovementVerdict::TakeBack(reason) => lost.push((attempt.task.key.clone(), name.clone(), reason)),
                }
            });
            if recall {
                self.commands.push(PoolCommand::Send(name.clone(), Order::Recall));
            }
            if lost.len() > known {
                let pause = peer.window.on_taken_back(now, patience);
                self.commands.push(PoolCommand::ReportSilent(name.clone(), lost.len() - known, pause));
            }
        }
        lost.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for (key, name, reason) in lost {
            self.attempts.remove(&key);
            // If it runs after all, it runs for nobody.
            self.send(&name, Order::Cancel(key.clone()));
            self.notify(key, PoolNotice::Lost(reason));
        }
    }
}
