//! Room for activities that take several slots. Small activities would take each slot that becomes free, and a large one would
//! wait for as long as there are small ones. So the pool reserves a worker for a large activity that has waited for a while.

use std::time::Duration;

use xavantes_proto::AttemptKey;

use super::Pool;
use super::peer::Peer;
use super::pool_attempts::{PeerIndex, PoolAttemptState};
use crate::task::Task;

/// The pool reserves a worker for a large activity that has waited for this long.
const RESERVE_AFTER: Duration = Duration::from_secs(2);

/// The large activity that has waited longest, and the worker that gets nothing else.
#[derive(Debug)]
pub struct Reservation {
    key: AttemptKey,
    since: Duration,
    worker: Option<PeerIndex>,
}

impl Reservation {
    /// Whether this worker may get this task.
    pub fn allows(&self, peer: &Peer, task: &Task) -> bool {
        self.worker != Some(peer.index) || self.key == task.key
    }

    /// Whether this worker waits for a large activity.
    pub fn is_for(&self, peer: &Peer) -> bool {
        self.worker == Some(peer.index)
    }
}

impl Pool {
    /// Reserves a worker for the large activity that has waited longest, and gives up a reservation that is not needed.
    pub(super) fn update_reservation(&mut self, now: Duration) {
        let (attempts, peers) = (&self.attempts, &self.peers);
        let is_queued =
            |key: &AttemptKey| attempts.get(key).is_some_and(|attempt| *attempt.state() == PoolAttemptState::Queued);
        let could_run = |peer: &Peer, task: &Task| {
            peer.is_connected_worker() && !peer.draining && peer.lease.is_none() && peer.lacks(&task.needs).is_none()
        };
        self.reservation = self.reservation.take().filter(|it| is_queued(&it.key));
        let Some(reservation) = &mut self.reservation else {
            let mut large = attempts.first_queued().map(|(_, task)| task).filter(|task| task.needs.cpus > 1);
            let waiting = large.find(|task| peers.values().any(|peer| could_run(peer, task)));
            let key = waiting.map(|task| task.key.clone());
            self.reservation = key.map(|key| Reservation { key, since: now, worker: None });
            return;
        };
        if now.saturating_sub(reservation.since) < RESERVE_AFTER {
            return;
        }
        let Some(attempt) = attempts.get(&reservation.key) else { return };
        let suitable = peers.values().filter(|peer| could_run(peer, &attempt.task));
        // The worker that was reserved stays reserved, so that it becomes free at last.
        let best = suitable.max_by_key(|peer| (reservation.is_for(peer), peer.free_slots(attempts.used(peer.index))));
        reservation.worker = best.map(|peer| peer.index);
    }
}
