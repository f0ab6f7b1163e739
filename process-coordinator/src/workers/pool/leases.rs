//! Workers of other groups: the pool borrows them while attempts wait for slots, and lets their leases end otherwise.

use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::message_limits::{MAX_SLOTS, MAX_WAITING_NEEDS};
use xavantes_proto::v1;

use super::peer::{Peer, WorkerLease};
use super::placement::MAX_WAIT;
use super::pool_attempts::PoolAttempt;
use super::{LOST_AFTER, Pool};
use crate::task::Needs;
use crate::workers::worker_messages::{PeerKind, PoolCommand};

/// When attempts have waited for slots for this long, the pool asks other groups for workers.
const BORROW_AFTER: Duration = Duration::from_millis(300);
/// The pool asks again after this time, or at once when it got a worker and needs another one.
const BORROW_INTERVAL: Duration = Duration::from_millis(500);
/// The pool asks for a longer lease of a worker that it needs when the lease ends within this time, at the same interval.
const RENEW_BEFORE: Duration = Duration::from_secs(3);
/// The pool reconnects at this interval to a worker whose lease has ended and that may keep answers: the worker's hello
/// says what it keeps.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The pool gives such a worker up when it has not been connected for this long.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

/// A borrowed worker should be connected within this time. Later the pool does not count on it.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Upper bound on the queued attempts whose needs the pool compares.
const MAX_SEARCHED: usize = 1000;

/// Upper bound on the duration of a lease, whatever the other group says.
const MAX_LEASE: Duration = Duration::from_secs(60);

impl Pool {
    /// Another group lends a worker, or extends its lease.
    pub fn on_borrowed(&mut self, place: v1::PlaceResponse, now: Duration) {
        let Some(node) = place.node else { return };
        let name: Arc<str> = format!("{}/{}", place.group, node.name).into();
        let borrowed = self.peers.get(&name).is_some_and(|worker| worker.lease.is_some());
        let worker = self.open(PeerKind::Worker, &name, node.address.clone(), now);
        let until = now + Duration::from_millis(place.lease_ms).min(MAX_LEASE);
        let renew_at = until.saturating_sub(RENEW_BEFORE).max(now + BORROW_INTERVAL);
        worker.lease = Some(WorkerLease { until, slots: place.slots.min(MAX_SLOTS), renew_at });
        worker.lease_stored &= borrowed;
        if !worker.lease_stored {
            self.commands.push(PoolCommand::StoreLease(name, node.address));
        }
        self.next_borrow = now;
    }

    /// The lease of a worker is stored: the worker may get attempts and claims.
    pub fn on_lease_stored(&mut self, name: &str) {
        let Some(worker) = self.peers.get_mut(name) else { return };
        let index = worker.index;
        if !std::mem::replace(&mut worker.lease_stored, true) {
            self.recovered.clone().iter().for_each(|process| self.claim_at(index, process));
        }
    }

    /// Reconnects to a worker that this coordinator borrowed before it restarted, or another one before this one took over
    /// its processes: the worker may still have attempts.
    pub fn restore_lease(&mut self, name: Arc<str>, address: String, now: Duration) {
        if self.peers.contains_key(&name) {
            return;
        }
        let stored_address = address.clone();
        let worker = self.open(PeerKind::Worker, &name, address, now);
        worker.owes = true;
        // Long enough for its report; without slots the worker gets nothing new, until its group lends it again.
        worker.lease = Some(WorkerLease { until: now + LOST_AFTER, slots: 0, renew_at: now });
        // The stored lease may be that of another coordinator, which deletes it when the worker has nothing of it any more.
        // What this coordinator claims there is its own.
        worker.lease_stored = false;
        self.commands.push(PoolCommand::StoreLease(name, stored_address));
    }

    /// Slots for which attempts wait, at least: here, or at workers.
    fn missing_slots(&self, now: Duration) -> usize {
        let waiting = self.peers.values().filter(|peer| self.attempts_wait_at(peer, now)).count();
        self.attempts.queued_count().saturating_add(waiting)
    }

    /// Whether attempts have waited at a worker for too long. Its last report may be older than its last answer.
    fn attempts_wait_at(&self, peer: &Peer, now: Duration) -> bool {
        let has_waited = |attempt: &PoolAttempt| attempt.movement.has_waited(MAX_WAIT, now);
        peer.attempts_wait && self.attempts.any_assigned(peer.index, has_waited)
    }

    /// The different needs of the attempts that wait here, as far as the pool looks.
    fn waiting_needs(&self) -> Vec<Needs> {
        let mut found: Vec<Needs> = Vec::new();
        for task in self.attempts.queued().take(MAX_SEARCHED) {
            if found.len() == MAX_WAITING_NEEDS {
                break;
            }
            if !found.contains(&task.needs) {
                found.push(task.needs.clone());
            }
        }
        found
    }

    /// Slots of borrowed workers that get attempts as soon as they are connected. A worker that cannot be connected does not
    /// count for long.
    fn coming_slots(&self, now: Duration) -> usize {
        let comes = |peer: &&Peer| match peer.silent_since {
            Some(since) => now.saturating_sub(since) < CONNECT_WITHIN,
            None => !peer.lease_stored,
        };
        let leases = self.peers.values().filter(comes).filter_map(|peer| peer.lease);
        leases.filter(|lease| lease.until > now).map(|lease| lease.slots as usize).sum()
    }

    /// Asks other groups for workers while attempts wait for slots, and disconnects peers that are not needed any more.
    pub(super) fn update_leases(&mut self, now: Duration) {
        let missing = self.missing_slots(now);
        let needs = self.waiting_needs();
        let short_of_slots = missing > 0;
        let since = self.short_of_slots_since.unwrap_or(now);
        self.short_of_slots_since = short_of_slots.then_some(since);
        if missing > self.coming_slots(now)
            && self.roster.foreign_free_slots > 0
            && now.saturating_sub(since) >= BORROW_AFTER
            && now >= self.next_borrow
        {
            self.next_borrow = now + BORROW_INTERVAL;
            self.commands.push(PoolCommand::Borrow(needs.iter().map(Into::into).collect()));
        }
        let attempts_wait = self.peers.values().any(|peer| self.attempts_wait_at(peer, now));
        let (attempts, commands) = (&mut self.attempts, &mut self.commands);
        let searching = !self.searches.is_empty();
        // A process that goes on after a restart needs the borrowed workers that it had.
        let has_processes = !self.epochs.is_empty();
        self.peers.retain(|name, peer| {
            let busy = attempts.has_assigned(peer.index);
            let lease_ended = !busy && !searching && peer.lease.is_some_and(|lease| lease.until <= now);
            if lease_ended && peer.owes && peer.connected && now.saturating_sub(peer.connected_at) >= RECHECK_INTERVAL {
                peer.on_disconnected(now);
                commands.push(PoolCommand::Disconnect(name.clone()));
                commands.push(PoolCommand::Connect(name.clone(), peer.kind, peer.address.clone()));
            }
            let given_up = peer.silent_since.is_some_and(|since| now.saturating_sub(since) > GIVE_UP_AFTER);
            let unneeded = match peer.kind {
                PeerKind::Worker => lease_ended && (!peer.owes || given_up),
                PeerKind::Coordinator => {
                    !busy && !peer.connected && attempts.awaiting(peer.index).is_empty() && !peer.owes
                }
            };
            if unneeded {
                attempts.remove_peer(peer.index);
                commands.push(PoolCommand::Disconnect(name.clone()));
                if peer.lease.is_some() {
                    commands.push(PoolCommand::DeleteLease(name.clone()));
                }
                return false;
            }
            let is_needed = match peer.lease {
                // Borrowed before a restart.
                Some(WorkerLease { slots: 0, .. }) => has_processes,
                _ => attempts_wait || needs.iter().any(|needs| peer.lacks(needs).is_none()),
            };
            if let Some(lease) = &mut peer.lease
                && is_needed
                && peer.connected
                && lease.renew_at <= now
            {
                lease.renew_at = now + BORROW_INTERVAL;
                commands.push(PoolCommand::Renew(name.clone()));
            }
            true
        });
    }
}
