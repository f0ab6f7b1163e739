//! Which worker gets which queued task, what the worker learns about the files of the task, and when a worker gives back attempts
//! that wait there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::value::MAX_HOLDERS;
use xavantes_proto::{AttemptKey, v1};

use super::movement::Movement;
use super::peer::Peer;
use super::pool_attempts::{PeerIndex, PeerTable, PoolAttempt, PoolAttemptState, Queue};
use super::reservation::Reservation;
use super::short_types::{ShortTypes, type_of};
use super::{Pool, send_task};
use crate::data::locations::Need;
use crate::task::Task;
use crate::workers::worker_messages::{Order, PeerKind};

/// An attempt that has waited at a worker for longer than this goes to a free slot of another one.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);
/// Upper bound on the other coordinators that a worker asks to fetch files for it.
const MAX_RELAYS: usize = 4;

impl Pool {
    /// Sends queued tasks to workers, one task of each process in turn, and updates the share of each process.
    pub fn place_queued(&mut self, now: Duration) {
        let mut stuck = 0;
        while stuck < self.attempts.waiting_processes() && self.any_capacity(now) {
            if self.place_next(now) {
                stuck = 0;
            } else {
                stuck += 1;
            }
        }
        self.update_share(now);
    }

    /// Whether any worker may get an attempt now.
    pub(super) fn any_capacity(&self, now: Duration) -> bool {
        self.peers.values().any(|peer| peer.has_capacity(self.attempts.used(peer.index), now))
    }

    /// Gives the next process its turn. Returns whether a task of it was sent.
    fn place_next(&mut self, now: Duration) -> bool {
        let (peers, short_types, reservation) = (&self.peers, &self.short_types, self.reservation.as_ref());
        let mut chosen = None;
        let attempt = self.attempts.take_turn(|queue, table| {
            let choice = choose(queue, peers, table, short_types, reservation, now)?;
            chosen = Some((choice.name.clone(), choice.free_slots));
            Some((choice.position, choice.peer))
        });
        let (Some((name, free_slots)), Some(attempt)) = (chosen, attempt) else { return false };
        let starts = attempt.task.needs.cpus.max(1) <= free_slots;
        attempt.movement = if starts { Movement::begin_in_slot(now) } else { Movement::begin(now) };
        let task = &mut attempt.task;
        task.job.holdings = locations_for(&self.peers, &name, &task.files);
        if !task.files.is_empty() {
            let more = relays(&self.peers).filter(|relay| !task.job.relays.contains(relay));
            let more: Vec<String> = more.cloned().collect();
            task.job.relays.extend(more);
        }
        let epoch = self.epochs.get(&task.key.process).copied().unwrap_or_default();
        send_task(&mut self.commands, &name, task, epoch);
        if let Some(peer) = self.peers.get_mut(&name) {
            peer.pace.set_working(true, now);
            peer.owes = true;
        }
        true
    }

    /// Measures the pace of workers that give few answers.
    pub(super) fn measure_slow_workers(&mut self, now: Duration) {
        for peer in self.peers.values_mut().filter(|peer| peer.kind == PeerKind::Worker) {
            let works = self.attempts.has_assigned(peer.index);
            peer.pace.set_working(works, now);
            if works && peer.pace.is_slow() {
                peer.pace.count(0, peer.offer.slots);
            }
        }
    }

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
        if !reservation.is_due(now) {
            return;
        }
        let Some(attempt) = attempts.get(&reservation.key) else { return };
        let suitable = peers.values().filter(|peer| could_run(peer, &attempt.task));
        // The worker that was reserved stays reserved, so that it becomes free at last.
        let best = suitable.max_by_key(|peer| (reservation.is_for(peer), peer.free_slots(attempts.used(peer.index))));
        reservation.worker = best.map(|peer| peer.index);
    }

    /// Recalls the attempts that wait at a worker, if another worker has a free slot for one that has waited for too long.
    pub(super) fn recall_waiting(&mut self, now: Duration) {
        let is_free = |peer: &Peer| {
            self.reservation.as_ref().is_none_or(|it| !it.is_for(peer))
                && peer.has_free_slot(self.attempts.used(peer.index), now)
        };
        let free: Vec<PeerIndex> = self.peers.values().filter(|peer| is_free(peer)).map(|peer| peer.index).collect();
        if free.is_empty() || !self.peers.values().any(|peer| peer.attempts_wait) {
            return;
        }
        let mut recalled: Vec<Arc<str>> = Vec::new();
        for (name, waiting) in self.peers.iter().filter(|(_, peer)| peer.attempts_wait && peer.connected) {
            let others = self.peers.values().filter(|peer| peer.index != waiting.index && free.contains(&peer.index));
            let others: Vec<&Peer> = others.collect();
            let moves = |attempt: &PoolAttempt| {
                attempt.movement.has_waited(MAX_WAIT, now)
                    && others.iter().any(|peer| peer.fits(&attempt.task, false, self.attempts.used(peer.index), now))
            };
            if self.attempts.any_assigned(waiting.index, moves) {
                recalled.push(name.clone());
            }
        }
        for name in recalled {
            // The next report says whether attempts still wait.
            self.peers.entry(name.clone()).and_modify(|peer| peer.attempts_wait = false);
            self.send(&name, Order::Recall);
        }
    }
}

/// A task of a queue and the worker that gets it.
struct Choice<'a> {
    position: usize,
    name: &'a Arc<str>,
    peer: PeerIndex,
    /// Slots of the worker without work.
    free_slots: u32,
}

/// The first task of a queue that fits a worker, with the worker that suits it best. Tasks that fit no worker do not hold
/// up the tasks behind them.
fn choose<'a>(
    queue: Queue<'_>,
    peers: &'a BTreeMap<Arc<str>, Peer>,
    table: &PeerTable,
    short_types: &ShortTypes,
    reservation: Option<&Reservation>,
    now: Duration,
) -> Option<Choice<'a>> {
    // Activities of one type have the same needs.
    let mut unplaceable: Vec<(*const v1::Program, u32)> = Vec::new();
    for (position, task) in queue.tasks() {
        let activity_type = type_of(task);
        if unplaceable.contains(&activity_type) {
            continue;
        }
        let short = short_types.contains(activity_type);
        let allowed = peers.iter().filter(|(_, peer)| reservation.is_none_or(|it| it.allows(peer, task)));
        let fitting = allowed.filter(|(_, peer)| peer.fits(task, short, table.used(peer.index), now));
        let avoided = |name: &str| task.avoid.as_deref().is_some_and(|avoid| has_node_name(name, avoid));
        let best = fitting.max_by_key(|(name, peer)| (!avoided(name), peer.suitability(task, table.used(peer.index))));
        if let Some((name, peer)) = best {
            let free_slots = peer.free_slots(table.used(peer.index));
            return Some(Choice { position, name, peer: peer.index, free_slots });
        }
        unplaceable.push(activity_type);
    }
    None
}

/// Whether the peer of this name is the node of that name: a worker of another group is called `group/node`.
pub fn has_node_name(name: &str, node: &str) -> bool {
    name.rsplit('/').next() == Some(node)
}

/// Which other workers have the files of a task for this worker, beside those that the file references name.
fn locations_for(peers: &BTreeMap<Arc<str>, Peer>, name: &str, files: &[Need]) -> Vec<v1::Holding> {
    let mut found = Vec::new();
    for need in files {
        // Also files that the worker should have: it may have evicted them.
        let others = peers.iter().filter(|(other, _)| &***other != name).map(|(_, peer)| peer);
        let others = others.filter(|other| other.connected && other.holdings.has(&need.digest));
        let others = others.filter(|other| need.holders.iter().all(|holder| **holder != *other.address));
        let addresses: Vec<String> = others.map(|other| other.address.clone()).take(MAX_HOLDERS).collect();
        if !addresses.is_empty() {
            found.push(v1::Holding { digest: need.digest.0.to_vec(), addresses });
        }
    }
    found
}

/// Addresses of connected coordinators that have, or had, subtrees: they reach workers that others may not.
pub(super) fn relays(peers: &BTreeMap<Arc<str>, Peer>) -> impl Iterator<Item = &String> {
    let coordinators = peers.values().filter(|peer| peer.kind == PeerKind::Coordinator && peer.connected);
    coordinators.map(|peer| &peer.address).take(MAX_RELAYS)
}
