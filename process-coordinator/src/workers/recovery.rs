//! Attempts whose whereabouts are not known: after a new start, a take-over, a broken connection. Without I/O, clock or threads.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use super::pool::{Effect, LOST_AFTER, Order, Peer, Pool, STOOD_STILL, Told, Unsettled};
use super::worker::{Ask, Lease, Out};
use crate::attempt::AttemptKey;
use crate::data::locations::Replicas;
use crate::handover::Placement;
use crate::handover::RecoveredAttempt;

impl Pool {
    /// A process that was kept goes on, and these attempts of it were out.
    pub fn recover(&mut self, process: &Arc<str>, epoch: u64, attempts: Vec<RecoveredAttempt>, now: Duration) {
        self.began(process.clone(), epoch);
        self.recovered.insert(process.clone());
        let mut unsettled = BTreeMap::new();
        for RecoveredAttempt { task, place, stop, paused } in attempts {
            let out = Out { stop, paused, ..Out::new(task) };
            match place {
                _ if out.task.job.subtree.is_none() => drop(unsettled.insert(out.task.key.clone(), out)),
                Some(place) => {
                    let name = self.coordinator(&place, now);
                    self.remember(&out, &place);
                    self.note(&name, Out { epoch: place.epoch, ..out }, Ask::Yes);
                }
                // It never went anywhere.
                None => self.find_place(out),
            }
        }
        // Also if nothing is out: they hear that a former coordinator does not count any more, and tell answers once more
        // that were recorded and not acknowledged.
        for (name, worker) in &self.workers {
            if worker.connected && worker.peer == Peer::Worker {
                let claim = Order::Claim(vec![v1::Claim { process: process.to_string(), epoch }]);
                self.effects.push(Effect::Order(name.clone(), claim));
            }
        }
        if !unsettled.is_empty() {
            let unsettled = Unsettled { attempts: unsettled, heard: HashSet::new(), since: now };
            self.unsettled.insert(process.clone(), unsettled);
        }
    }

    /// A subtree is at a coordinator, as far as is known.
    pub(super) fn note(&mut self, name: &Arc<str>, mut out: Out, ask: Ask) {
        let claim = self.claim(&out.task.key.process);
        let Some(worker) = self.workers.get_mut(name) else { return };
        out.ask = ask;
        worker.owes = true;
        if worker.connected && ask == Ask::Yes {
            self.effects.push(Effect::Order(name.clone(), Order::Claim(vec![claim])));
        }
        worker.has.insert(out.task.key.clone(), out);
    }

    pub(super) fn claim(&self, process: &Arc<str>) -> v1::Claim {
        v1::Claim { process: process.to_string(), epoch: self.epoch(process) }
    }

    pub(super) fn epoch(&self, process: &str) -> u64 {
        self.active.get(process).copied().unwrap_or_default()
    }

    /// A borrowed worker of a former life, which may still have something of ours.
    pub fn recall(&mut self, name: Arc<str>, address: String, now: Duration) {
        let worker = self.open(Peer::Worker, &name, address, now);
        // Long enough to hear from it; it gets nothing new.
        worker.lease = Some(Lease { until: now + LOST_AFTER, slots: 0, renewing: false });
        worker.remembered = true;
    }

    /// Another coordinator has a process: what it has out is none of our business.
    pub fn lose(&mut self, process: Arc<str>) {
        self.over(&process);
        self.foreign.insert(process);
    }

    /// A peer is connected and says what it has.
    pub fn connected(&mut self, name: &Arc<str>, hello: v1::WorkerHello, now: Duration) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        worker.connected = true;
        worker.slots = hello.slots;
        worker.queue = hello.queue;
        worker.memory = hello.memory;
        worker.gpus = hello.gpus;
        worker.tags = hello.tags.into_iter().collect();
        worker.holdings = Replicas::default();
        worker.holdings.add(hello.holds.iter().filter_map(|bytes| Digest::from_bytes(bytes)));
        worker.interpreters = hello.interpreters.into_iter().collect();
        worker.containers = hello.containers;
        worker.silent_since = None;
        worker.draining = false;
        worker.unfit.clear();
        let running: Vec<AttemptKey> = hello.running.iter().map(AttemptKey::from).collect();
        let known: HashSet<AttemptKey> =
            running.iter().cloned().chain(hello.answered.iter().map(AttemptKey::from)).collect();
        // A coordinator that began anew may take it for a former coordinator's: it is asked.
        if worker.peer == Peer::Coordinator {
            let (node, address) = (name.strip_suffix(&*format!("@{}", worker.address)), worker.address.clone());
            let node = node.unwrap_or(name).to_owned();
            for (key, out) in worker.has.iter_mut().filter(|(key, out)| !known.contains(*key) && out.ask == Ask::No) {
                out.ask = Ask::WhenRecorded;
                let place = Placement { node: node.clone(), address: address.clone(), epoch: out.epoch };
                self.effects.push(Effect::Tell(key.clone(), Told::Placed(place)));
            }
        }
        worker.adopt(name, known.iter().cloned(), &mut self.unsettled, &mut self.effects);
        worker.owes = !worker.has.is_empty() || !known.is_empty();
        // What it knows nothing of never arrived, or was lost with it.
        let lost = worker.has.iter().filter(|(key, out)| !known.contains(*key) && out.ask == Ask::No);
        let lost: Vec<AttemptKey> = lost.map(|(key, _)| key.clone()).collect();
        let mut unsure = Vec::new();
        for key in lost {
            match worker.give_back(&key) {
                // It may have crashed before it noted whose this is now: it is asked once more.
                Some(out) if out.adopted => unsure.push(Out { adopted: false, ..out }),
                _ => self.effects.push(Effect::Tell(key, Told::Lost)),
            }
        }
        // What was said since may have been lost with the connection.
        for (key, out) in &worker.has {
            match out.paused {
                // To cancel lifts a pause.
                _ if out.stop => self.effects.push(Effect::Order(name.clone(), Order::Cancel(key.clone()))),
                Some(paused) => self.effects.push(Effect::Order(name.clone(), Order::Pause(key.clone(), paused))),
                None => {}
            }
        }
        self.stop_unwanted(name, running);
        for out in unsure {
            let others = self.workers.keys().filter(|other| *other != name).cloned();
            let process = out.task.key.process.clone();
            let unsettled = self.unsettled.entry(process).or_insert_with(|| Unsettled {
                attempts: BTreeMap::new(),
                heard: others.collect(),
                since: now,
            });
            unsettled.heard.remove(name);
            unsettled.attempts.insert(out.task.key.clone(), out);
        }
        let Some(worker) = self.workers.get(name) else { return };
        let processes: BTreeSet<Arc<str>> = match worker.peer {
            Peer::Worker => self.recovered.clone(),
            Peer::Coordinator => {
                worker.has.iter().filter(|(_, out)| out.ask == Ask::Yes).map(|(key, _)| key.process.clone()).collect()
            }
        };
        if !processes.is_empty() {
            let claims = processes.iter().map(|process| self.claim(process)).collect();
            self.effects.push(Effect::Order(name.clone(), Order::Claim(claims)));
        }
        self.begin_pending(name);
    }

    /// What a worker runs that was given up meanwhile is stopped. A subtree that has moved there is still noted where it
    /// was, and what another coordinator has out is for that one to stop.
    pub(super) fn stop_unwanted(&mut self, name: &Arc<str>, running: Vec<AttemptKey>) {
        for key in running {
            let wanted = self.foreign.contains(&key.process)
                || self.workers.values().any(|worker| worker.has.contains_key(&key))
                || self.unsettled.get(&key.process).is_some_and(|unsettled| unsettled.attempts.contains_key(&key));
            if !wanted {
                self.effects.push(Effect::Order(name.clone(), Order::Cancel(key)));
            }
        }
    }

    /// A worker tells what it knows of processes whose attempts were claimed.
    pub fn known(&mut self, name: &Arc<str>, known: v1::Known) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let running: Vec<AttemptKey> = known.running.iter().map(AttemptKey::from).collect();
        let mut lost = Vec::new();
        let all = running.iter().cloned().chain(known.answered.iter().map(AttemptKey::from));
        worker.adopt(name, all, &mut self.unsettled, &mut self.effects);
        let asked: HashSet<&str> = known.processes.iter().map(String::as_str).collect();
        let answered: HashSet<AttemptKey> = known.answered.iter().map(AttemptKey::from).collect();
        for (key, out) in &mut worker.has {
            if out.ask != Ask::Yes || !asked.contains(&*key.process) {
                continue;
            }
            out.ask = Ask::No;
            if !running.contains(key) && !answered.contains(key) {
                self.effects.push(Effect::Tell(key.clone(), Told::Lost));
                lost.push(key.clone());
                continue;
            }
            match out.paused {
                _ if out.stop => self.effects.push(Effect::Order(name.clone(), Order::Cancel(key.clone()))),
                Some(paused) => self.effects.push(Effect::Order(name.clone(), Order::Pause(key.clone(), paused))),
                None => {}
            }
        }
        lost.iter().for_each(|key| drop(worker.give_back(key)));
        for process in known.processes {
            if let Some(unsettled) = self.unsettled.get_mut(&*process) {
                unsettled.heard.insert(name.clone());
            }
        }
        self.stop_unwanted(name, running);
    }

    /// While this coordinator itself stood still, nobody could be heard: that is no silence of theirs.
    pub(super) fn excuse(&mut self, now: Duration) {
        let gap = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        if gap < STOOD_STILL {
            return;
        }
        for since in self.workers.values_mut().filter_map(|worker| worker.silent_since.as_mut()) {
            *since = (*since + gap).min(now);
        }
        for unsettled in self.unsettled.values_mut() {
            unsettled.since = (unsettled.since + gap).min(now);
        }
    }

    /// What no worker has is lost: known when all have spoken, or some are silent for too long.
    pub(super) fn settle(&mut self, now: Duration) {
        let Some(grouped) = self.grouped else { return };
        let workers = self.workers.iter().filter(|(_, worker)| worker.peer == Peer::Worker);
        let workers: Vec<&Arc<str>> = workers.map(|(name, _)| name).collect();
        let effects = &mut self.effects;
        self.unsettled.retain(|_, unsettled| {
            let late = now.saturating_sub(unsettled.since.max(grouped)) > LOST_AFTER;
            let settled = late || workers.iter().all(|name| unsettled.heard.contains(*name));
            if settled {
                for (key, out) in std::mem::take(&mut unsettled.attempts) {
                    let told = if out.stop {
                        Told::Answered(v1::answer::Outcome::Cancelled(v1::Nothing {}))
                    } else {
                        Told::Lost
                    };
                    effects.push(Effect::Tell(key, told));
                }
            }
            !settled
        });
    }
}
