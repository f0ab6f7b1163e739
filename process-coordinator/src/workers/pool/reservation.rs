//! Room for activities that take several slots. Small activities would take each slot that becomes free, and a large one would
//! wait for as long as there are small ones. So the pool reserves a worker for a large activity that has waited for a while.

use std::time::Duration;

use xavantes_proto::AttemptKey;

use super::peer::Peer;
use super::pool_attempts::PeerIndex;
use crate::task::Task;

/// The pool reserves a worker for a large activity that has waited for this long.
const RESERVE_AFTER: Duration = Duration::from_secs(2);

/// The large activity that has waited longest, and the worker that gets nothing else.
#[derive(Debug)]
pub struct Reservation {
    pub key: AttemptKey,
    pub since: Duration,
    pub worker: Option<PeerIndex>,
}

impl Reservation {
    /// Whether this worker may get this task.
    pub fn allows(&self, peer: &Peer, task: &Task) -> bool {
        self.worker != Some(peer.index) || self.key == task.key
    }

    /// Whether the activity has waited long enough for the pool to reserve a worker.
    pub fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= RESERVE_AFTER
    }

    /// Whether this worker waits for a large activity.
    pub fn is_for(&self, peer: &Peer) -> bool {
        self.worker == Some(peer.index)
    }
}
