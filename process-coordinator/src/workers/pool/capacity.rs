//! How many attempts each process may have outstanding.

use std::collections::HashMap;
use std::time::Duration;

use xavantes_proto::v1;

use super::Pool;
use super::pool_attempts::PoolAttemptState;
use super::short_types::type_of;
use crate::workers::worker_messages::{PeerKind, Share};

/// Upper bound on the subtrees that a process may have at other coordinators, because each of them is large.
const MAX_DELEGATIONS: u64 = 64;
/// Upper bound on the unplaceable attempts that do not count as outstanding, because each takes memory; and on those whose
/// worker is not known.
const MAX_UNPLACEABLE: usize = 1024;
/// A change of the share by less than one part in this many is not worth a notification.
const SHARE_TOLERANCE: u64 = 8;

impl Pool {
    /// Recomputes the share of each process. All shares together exceed the capacity of the workers, so that a process
    /// that does not use its share leaves no worker idle.
    pub(super) fn update_share(&mut self, now: Duration) {
        let workers = self.peers.values().filter(|peer| peer.kind == PeerKind::Worker);
        let available = workers.filter(|worker| worker.connected && !worker.draining);
        let (mut capacity, mut slots) = (0_u64, 0_u64);
        for worker in available {
            capacity = capacity.saturating_add(worker.capacity().into());
            slots = slots.saturating_add(worker.slots().into());
        }
        let roster = &self.roster;
        // Work stays in the local group unless this group has no free worker and another group has one. The share changes with
        // this, so a group counts as full at ticks only, however often its last slot changes hands between them.
        let crowded = self.was_full && roster.foreign_free_slots > 0 && !self.has_free_local_slot(now);
        let foreign = if crowded { u64::from(roster.foreign_free_slots) } else { 0 };
        // A backlog in the queue of the pool: a free slot gets an attempt at once, and the pool knows that it needs more slots.
        let total = capacity.saturating_add(slots.max(foreign));
        let room = match (total, self.epochs.len() as u64) {
            (0, _) => 0,
            (total, 0 | 1) => total,
            (total, processes) => (2 * total / processes).clamp(1, total),
        };
        // Attempts that wait for a worker that is not there must not keep others from being dispatched.
        if self.any_capacity(now) {
            self.unplaceable = self.count_unplaceable();
        }
        // Nobody knows yet which of the attempts before a restart are lost. Workers begin others meanwhile.
        let room = if total == 0 { room } else { room + self.count_unsettled() };
        let room = room + self.unplaceable;
        let former = self.share.room;
        let room = if room.abs_diff(former) * SHARE_TOLERANCE < former { former } else { room };
        let coordinators = u64::from(roster.other_coordinators) + u64::from(roster.foreign_coordinators);
        self.share = Share {
            room,
            delegations: if coordinators > 0 { MAX_DELEGATIONS } else { 0 },
            auto_delegations: if crowded { u64::from(roster.foreign_coordinators).min(MAX_DELEGATIONS) } else { 0 },
        };
    }

    /// The number of attempts whose worker is not known, up to [`MAX_UNPLACEABLE`].
    fn count_unsettled(&self) -> u64 {
        let attempts = self.searches.keys().flat_map(|process| self.attempts.of_process(process));
        let unsettled = attempts.filter(|attempt| *attempt.state() == PoolAttemptState::Unsettled);
        unsettled.take(MAX_UNPLACEABLE).count() as u64
    }

    /// Whether a worker of the local group has a free slot.
    pub(super) fn has_free_local_slot(&self, now: Duration) -> bool {
        let mut local = self.peers.values().filter(|peer| peer.lease.is_none());
        local.any(|peer| peer.has_free_slot(self.attempts.used(peer.index), now))
    }

    /// The number of queued attempts that no connected worker can ever run, up to [`MAX_UNPLACEABLE`].
    fn count_unplaceable(&self) -> u64 {
        let workers = || self.peers.values().filter(|peer| peer.is_connected_worker());
        let mut known: HashMap<(*const v1::Program, u32), bool> = HashMap::new();
        let unplaceable = self.attempts.queued().filter(|task| {
            *known.entry(type_of(task)).or_insert_with(|| workers().all(|worker| worker.lacks(&task.needs).is_some()))
        });
        unplaceable.take(MAX_UNPLACEABLE).count() as u64
    }
}
