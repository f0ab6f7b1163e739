//! Questions that others ask the pool: where an attempt is, why it waits, which nodes may know about an element, and which
//! have a file.

use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_model::value::MAX_HOLDERS;
use xavantes_proto::v1;

use super::Pool;
use super::peer::Peer;
use super::placement::relays;
use super::pool_attempts::PoolAttemptState;
use crate::task::Needs;
use crate::workers::worker_messages::{PeerKind, Vicinity, Whereabouts};
use xavantes_proto::AttemptKey;

impl Pool {
    /// For each attempt the peer that has it, or the reason why it waits; `None` for attempts that the pool does not have.
    pub fn whereabouts(&self, keys: &[AttemptKey]) -> Vec<Option<Whereabouts>> {
        keys.iter().map(|key| self.whereabouts_of(key)).collect()
    }

    fn whereabouts_of(&self, key: &AttemptKey) -> Option<Whereabouts> {
        let attempt = self.attempts.get(key)?;
        match *attempt.state() {
            PoolAttemptState::Assigned { peer, .. } => {
                let (name, peer) = self.peers.get_key_value(self.attempts.peer_name(peer))?;
                let silent = peer.silent_since.map(|since| self.last_tick.saturating_sub(since));
                let runs_for = attempt.movement.runs_for(self.last_tick);
                Some(Whereabouts::At { name: name.clone(), address: peer.address.clone(), silent, runs_for })
            }
            PoolAttemptState::Queued => Some(Whereabouts::Waits(self.wait_reason(&attempt.task.needs))),
            PoolAttemptState::Placing { .. } | PoolAttemptState::AwaitingConnection { .. } => {
                Some(Whereabouts::Waits(v1::wait_reason::Kind::Placing(v1::Nothing {}).into()))
            }
            PoolAttemptState::Unsettled => {
                Some(Whereabouts::Waits(v1::wait_reason::Kind::Recovering(v1::Nothing {}).into()))
            }
        }
    }

    /// Why no worker has an activity with these needs: no worker is connected, those that could run it are busy, or a
    /// requirement is unmet, of which the worker that comes closest decides.
    pub(super) fn wait_reason(&self, needs: &Needs) -> v1::WaitReason {
        use v1::wait_reason::Kind;
        let (mut busy, mut impaired, mut least) = (false, None, None);
        for (name, worker) in self.connected_workers() {
            match (worker.lacks(needs), &worker.impaired) {
                (Some(lack), _) => least = least.max(Some(lack)),
                (None, None) => busy = true,
                (None, Some(reason)) => {
                    impaired = Some(v1::ImpairedWorker { node: name.to_string(), reason: Some(reason.clone()) });
                }
            }
        }
        match (impaired, least) {
            _ if busy => Kind::WorkersBusy(v1::Nothing {}),
            (Some(worker), _) => Kind::Impaired(worker),
            (None, Some(least)) => Kind::Unmet(least.into()),
            (None, None) => Kind::NoWorker(v1::Nothing {}),
        }
        .into()
    }

    fn connected_workers(&self) -> impl Iterator<Item = (&Arc<str>, &Peer)> {
        self.peers.iter().filter(|(_, peer)| peer.is_connected_worker())
    }

    /// Nodes that may know something about an element that is not outstanding any more.
    pub fn vicinity(&self, path: &str) -> Vicinity {
        let workers = self.connected_workers().map(|(_, worker)| worker.address.clone()).collect();
        let within = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let delegated = self.delegated.iter().rev().filter(|delegated| within(&delegated.path));
        Vicinity { workers, coordinators: delegated.map(|delegated| delegated.address.clone()).collect() }
    }

    /// The subtrees of a process that other coordinators have: path of each, and address of its coordinator.
    pub fn delegated_subtrees(&self, process: &str) -> Vec<(String, String)> {
        let coordinators = self.peers.values().filter(|peer| peer.kind == PeerKind::Coordinator);
        let subtrees = coordinators.flat_map(|peer| {
            let keys = self.attempts.assigned_to(peer.index).into_iter().filter(|key| *key.process == *process);
            let attempts = keys.filter_map(|key| self.attempts.get(&key));
            attempts.map(|attempt| (attempt.task.job.path.clone(), peer.address.clone()))
        });
        subtrees.collect()
    }

    /// Addresses of connected peers that have a file, as far as the pool knows.
    pub fn holders(&self, digest: &Digest) -> Vec<String> {
        let holders = self.peers.values().filter(|peer| peer.connected && peer.holdings.has(digest));
        holders.map(|peer| peer.address.clone()).take(MAX_HOLDERS).collect()
    }

    /// Addresses of other coordinators that could fetch files.
    pub fn relays(&self) -> Vec<String> {
        relays(&self.peers).cloned().collect()
    }
}
