//! The peers of the pool: the nodes of the group, their connections, and the files that each of them has.

use std::collections::btree_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_proto::{AttemptKey, v1};

use super::Pool;
use super::peer::Peer;
use crate::workers::worker_messages::{Order, PeerKind, PoolCommand};

impl Pool {
    /// The peer of this name. A new peer gets a connection.
    pub(super) fn open(&mut self, kind: PeerKind, name: &Arc<str>, address: String, now: Duration) -> &mut Peer {
        match self.peers.entry(name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                self.commands.push(PoolCommand::Connect(name.clone(), kind, address.clone()));
                vacant.insert(Peer::new(kind, self.attempts.add_peer(name.clone()), address, now))
            }
        }
    }

    /// The group manager reports the local group.
    pub fn on_roster(&mut self, roster: v1::Roster, now: Duration) {
        if !roster.settling {
            self.roster_complete_since.get_or_insert(now);
            self.remove_departed(&roster);
        }
        // A draining worker may have attempts that this coordinator handed out before it restarted.
        for node in roster.workers.iter().chain(&roster.draining) {
            let name: Arc<str> = node.name.as_str().into();
            let worker = self.open(PeerKind::Worker, &name, node.address.clone(), now);
            if worker.address != node.address {
                // When the pool connects at the new address, the worker reports the attempts that it still has.
                worker.address.clone_from(&node.address);
                worker.on_disconnected(now);
                self.commands.push(PoolCommand::Disconnect(name.clone()));
                self.commands.push(PoolCommand::Connect(name, PeerKind::Worker, node.address.clone()));
            }
        }
        for node in &roster.draining {
            self.on_draining(&node.name);
        }
        self.roster = roster;
    }

    /// Removes workers of the local group that the roster does not name. A connected worker is alive whatever the roster
    /// says, and a worker with attempts is lost only after a silence.
    fn remove_departed(&mut self, roster: &v1::Roster) {
        let all = roster.workers.iter().chain(&roster.draining);
        let named: HashMap<&str, &v1::NodeDescription> = all.map(|node| (&*node.name, node)).collect();
        let (attempts, commands) = (&mut self.attempts, &mut self.commands);
        self.peers.retain(|name, peer| {
            let departed = peer.kind == PeerKind::Worker
                && peer.lease.is_none()
                && !peer.connected
                && !named.contains_key(&**name)
                && !attempts.has_assigned(peer.index);
            if departed {
                attempts.remove_peer(peer.index);
                commands.push(PoolCommand::Disconnect(name.clone()));
            }
            !departed
        });
    }

    /// A peer connected and reports what it offers and which attempts it knows.
    pub fn on_connected(&mut self, name: &Arc<str>, mut hello: v1::WorkerHello, now: Duration) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        // A worker without a connection could neither hear a recall nor answer it.
        peer.unheard += peer.silent_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        peer.on_hello(&mut hello, now);
        let (index, kind) = (peer.index, peer.kind);
        let running: Vec<AttemptKey> = hello.running.iter().map(AttemptKey::from).collect();
        let answered = hello.answered.iter().map(AttemptKey::from);
        let known: HashSet<AttemptKey> = running.iter().cloned().chain(answered).collect();
        let missing: Vec<AttemptKey> =
            self.attempts.assigned_to(index).into_iter().filter(|key| !known.contains(key)).collect();
        if kind == PeerKind::Coordinator {
            self.confirm_places(name, &missing);
        }
        self.adopt(name, index, known.iter());
        if let Some(peer) = self.peers.get_mut(name) {
            peer.owes = self.attempts.has_assigned(index) || !known.is_empty();
        }
        self.lose_missing(name, missing, now);
        // Orders of the meantime may have been lost with the connection.
        let assigned = self.attempts.assigned_to(index);
        for key in &assigned {
            self.repeat_order(name, key);
        }
        if assigned.iter().any(|key| self.attempts.get(key).is_some_and(|attempt| attempt.movement.is_recalled())) {
            self.send(name, Order::Recall);
        }
        self.cancel_unwanted(name, running);
        let processes: BTreeSet<Arc<str>> = match kind {
            PeerKind::Worker => self.recovered.clone(),
            PeerKind::Coordinator => self.asked_processes(index),
        };
        processes.iter().for_each(|process| self.claim_at(index, process));
        self.send_awaiting(index);
    }

    /// The connection to a peer broke.
    pub fn on_disconnected(&mut self, name: &str, now: Duration) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.on_disconnected(now);
        }
        self.on_subtrees_unheard(name);
    }

    /// A worker takes no new attempts.
    pub fn on_draining(&mut self, name: &str) {
        if let Some(worker) = self.peers.get_mut(name) {
            worker.draining = true;
        }
    }

    /// A worker takes no new attempts for this reason, or takes them again.
    pub fn on_impaired(&mut self, name: &str, reason: Option<v1::ImpairmentReason>) {
        if let Some(worker) = self.peers.get_mut(name) {
            worker.impaired = reason;
        }
    }

    /// A worker has these files.
    pub fn add_files(&mut self, name: &str, digests: Vec<Digest>) {
        if let Some(worker) = self.peers.get_mut(name) {
            worker.holdings.add(digests);
        }
    }

    /// A worker does not have these files, and could not fetch them.
    pub fn remove_files(&mut self, name: &str, digests: &[Digest]) {
        if let Some(worker) = self.peers.get_mut(name) {
            digests.iter().for_each(|digest| worker.holdings.remove(digest));
        }
    }

    /// Sends connected workers word that a process needs less of the files that they keep for it.
    pub fn release_files(&mut self, release: &Arc<v1::Release>) {
        let workers = self.peers.iter().filter(|(_, peer)| peer.is_connected_worker());
        let orders = workers.map(|(name, _)| PoolCommand::Send(name.clone(), Order::Release(release.clone())));
        self.commands.extend(orders);
    }
}
