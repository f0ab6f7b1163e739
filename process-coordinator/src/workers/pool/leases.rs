//! Workers of other groups: the pool borrows them while attempts are queued, and lets their leases end otherwise.

use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::message_limits::MAX_SLOTS;
use xavantes_proto::v1;

use super::peer::WorkerLease;
use super::{LOST_AFTER, Pool};
use crate::workers::worker_messages::{PeerKind, PoolCommand};

/// When attempts have been queued for this long, the pool asks other groups for workers, again and again.
const BORROW_AFTER: Duration = Duration::from_millis(500);
/// The pool asks for a longer lease of a worker that it needs when the lease ends within this time.
const RENEW_BEFORE: Duration = Duration::from_secs(3);
/// The pool reconnects at this interval to a worker whose lease has ended and that may keep answers: the worker's hello
/// says what it keeps.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The pool gives such a worker up when it has not been connected for this long.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

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
        worker.lease = Some(WorkerLease { until, slots: place.slots.min(MAX_SLOTS), renewing: false });
        worker.lease_stored &= borrowed;
        if !worker.lease_stored {
            self.commands.push(PoolCommand::StoreLease(name, node.address));
        }
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
        worker.lease = Some(WorkerLease { until: now + LOST_AFTER, slots: 0, renewing: false });
        // The stored lease may be that of another coordinator, which deletes it when the worker has nothing of it any more.
        // What this coordinator claims there is its own.
        worker.lease_stored = false;
        self.commands.push(PoolCommand::StoreLease(name, stored_address));
    }

    /// Asks other groups for workers while attempts are queued, and disconnects peers that are not needed any more.
    pub(super) fn update_leases(&mut self, now: Duration) {
        let queued = self.attempts.waiting_processes() > 0;
        self.queued_since = if queued { self.queued_since.or(Some(now)) } else { None };
        let foreign_capacity = self.roster.foreign_free_slots > 0;
        if foreign_capacity && self.queued_since.is_some_and(|since| now.saturating_sub(since) > BORROW_AFTER) {
            self.queued_since = Some(now);
            self.commands.push(PoolCommand::Borrow(None));
        }
        let (attempts, commands) = (&mut self.attempts, &mut self.commands);
        let searching = !self.searches.is_empty();
        // A process that goes on after a restart needs the borrowed workers that it had.
        let asks_restored = !self.epochs.is_empty() && now.saturating_sub(self.restored_asked) > BORROW_AFTER;
        if asks_restored {
            self.restored_asked = now;
        }
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
            if let Some(lease) = &mut peer.lease {
                let wants_more = match lease.slots {
                    0 => asks_restored && peer.connected,
                    _ => queued && !lease.renewing && lease.until <= now + RENEW_BEFORE,
                };
                if wants_more {
                    lease.renewing = true;
                    commands.push(PoolCommand::Borrow(Some(name.clone())));
                }
            }
            true
        });
    }
}
