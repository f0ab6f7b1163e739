//! The workers of a coordinator: who has room, who has which attempt, who is gone, and what becomes of attempts whose
//! whereabouts are not known. Without I/O, clock or threads: time is passed in, and what is to be done comes out.
//!
//! Processes take turns, so that none starves the others. Workers get so much ahead of their slots as they do in a moment,
//! so that the fast ones never wait for the wire and the slow ones leave work for others.
//!
//! | file | is about |
//! |---|---|
//! | `worker` | one worker, or another coordinator |
//! | `choice` | who gets a task |
//! | `recovery` | attempts whose whereabouts are not known |

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_model::value::MAX_HOLDERS;
use xavantes_proto::v1::refusal_reason::Kind as Refused;
use xavantes_proto::{MAX_LARGE, Message, too_large, v1};

use super::placement::{holdings, next, relays};
use super::worker::{Ask, Lease, Out, Pace, SLOW, Used, Worker};
use crate::attempt::{AttemptKey, Needs, Task};
use crate::data::locations::Holdings;
use crate::process::journal::Placement;

/// What the pool calls another coordinator.
fn peer_name(place: &Placement) -> Arc<str> {
    format!("{}@{}", place.node, place.address).into()
}

/// Who may know something of an element: addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vicinity {
    /// Workers that are connected.
    pub workers: Vec<String>,
    /// Coordinators that were handed the element, or something around it; the last one first.
    pub coordinators: Vec<String>,
}

/// What a process may have out at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Activities.
    pub room: u64,
    /// Subtrees that ask for it, and others.
    pub delegations: u64,
    /// Others.
    pub auto_delegations: u64,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An activity manager, which runs activities.
    Worker,
    /// Another coordinator, which runs subtrees.
    Coordinator,
}

/// Something for a worker.
#[derive(Debug, Clone)]
pub enum Order {
    /// A program that jobs refer to.
    Program(Arc<v1::Program>),
    /// An attempt.
    Job(Box<v1::Job>),
    /// Stop one.
    Cancel(AttemptKey),
    /// Pause a subtree, or let it go on.
    Pause(AttemptKey, bool),
    /// The answer to a call.
    Reply(v1::SharedReply),
    /// An answer was recorded.
    Acknowledge(AttemptKey),
    /// What is known of these processes?
    Claim(Vec<v1::Claim>),
    /// A process needs less of the files that are kept for it.
    Release(Arc<v1::Release>),
    /// Give back what waits.
    Recall,
}

/// Something for a process.
#[derive(Debug, Clone)]
pub enum Told {
    /// Nobody took it, or it was stopped before anybody did.
    Answered(v1::answer::Outcome),
    /// Nobody has it any more.
    Lost,
    /// There is a place for a subtree.
    Placed(Placement),
}

/// Something to be done.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Keep a connection to this peer.
    Connect(Arc<str>, Peer, String),
    /// It is not needed any more.
    Disconnect(Arc<str>),
    /// Send to a peer that is connected.
    Order(Arc<str>, Order),
    /// Tell a process.
    Tell(AttemptKey, Told),
    /// Ask which coordinator could take a subtree.
    FindPlace(AttemptKey),
    /// Ask other groups for a worker, or to keep this one.
    Borrow(Option<Arc<str>>),
    /// Remember a borrowed worker, durably, before it gets anything; [`Pool::remembered`] follows.
    Remember(Arc<str>, String),
    /// It needs not be remembered.
    Forget(Arc<str>),
}

/// What a subtree hears that tells where it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Nobody waits for it.
    Unwanted,
    /// It is being recorded.
    Noted,
    /// That, or better, is recorded.
    Known,
}

/// Where an attempt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Somebody has it.
    At {
        /// The worker or coordinator.
        name: Arc<str>,
        /// Where that is.
        address: String,
        /// Since when it is not connected.
        silent: Option<Duration>,
    },
    /// Nobody has it, for this reason.
    Waits(v1::WaitReason),
}

/// A worker that is silent for so long is taken for lost, and its attempts are handed out again.
pub const LOST_AFTER: Duration = Duration::from_secs(10);
/// Whoever does not look for so long has stood still.
pub(super) const STOOD_STILL: Duration = Duration::from_secs(1);
/// A subtree waits so long for a connection to the coordinator that is to take it.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A worker that had no room is not asked again for so long.
const FULL_FOR: Duration = Duration::from_millis(100);
/// When work waits for so long, other groups are asked for room, and asked again.
const BORROW_AFTER: Duration = Duration::from_millis(500);
/// What is borrowed and in use is asked for again when it ends so soon.
const RENEW_BEFORE: Duration = Duration::from_secs(3);
/// Subtrees that may be at other coordinators at once; each is large.
const MOST_DELEGATIONS: u64 = 64;
/// So many attempts that wait for a worker that is not there do not count as being out.
const MOST_HOPELESS: usize = 1024;
/// Places of subtrees that are remembered, for those who ask for what they wrote.
const MOST_REMEMBERED: usize = 1024;

/// Attempts of a process that was recovered: some worker may have them.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) attempts: BTreeMap<AttemptKey, Out>,
    /// The workers that told what they know.
    pub(super) heard: HashSet<Arc<str>>,
    pub(super) since: Duration,
}

/// The workers of a coordinator.
#[derive(Debug, Default)]
pub struct Pool {
    pub(super) workers: BTreeMap<Arc<str>, Worker>,
    pub(super) queues: HashMap<Arc<str>, VecDeque<Task>>,
    /// Subtrees for which a coordinator is looked for, or was found and is being recorded.
    pub(super) placing: HashMap<AttemptKey, (Out, Option<Placement>)>,
    pub(super) unsettled: BTreeMap<Arc<str>, Unsettled>,
    /// Processes with something in their queue, in the order of their turns.
    pub(super) turns: VecDeque<Arc<str>>,
    /// The processes that run here, and their epochs.
    pub(super) active: HashMap<Arc<str>, u64>,
    /// Those of them that were recovered: workers may have something of them that was handed out by others.
    pub(super) recovered: BTreeSet<Arc<str>>,
    /// Those that another coordinator has.
    pub(super) foreign: HashSet<Arc<str>>,
    pub(super) roster: v1::Roster,
    /// Since when the group is known.
    pub(super) grouped: Option<Duration>,
    pub(super) share: Share,
    /// Since when work waits that nobody has room for.
    pub(super) waits_since: Option<Duration>,
    pub(super) looked: Duration,
    pub(super) effects: Vec<Effect>,
    /// Attempts that wait for a worker that is not there.
    pub(super) hopeless: u64,
    /// Subtrees that were handed over, by path, with where they went: the newest.
    pub(super) delegated: VecDeque<(String, String)>,
}

impl Pool {
    /// What is to be done, in order.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What each process may have out.
    pub fn share(&self) -> Share {
        self.share
    }

    /// A process begins, in that epoch.
    pub fn began(&mut self, process: Arc<str>, epoch: u64) {
        self.foreign.remove(&process);
        self.active.insert(process, epoch);
    }

    /// A process is over.
    pub fn over(&mut self, process: &str) {
        self.active.remove(process);
        self.recovered.remove(process);
        self.queues.remove(process);
        self.unsettled.remove(process);
        self.placing.retain(|key, _| *key.process != *process);
        for worker in self.workers.values_mut() {
            let keys: Vec<AttemptKey> = worker.has.keys().filter(|key| *key.process == *process).cloned().collect();
            keys.iter().for_each(|key| drop(worker.give_back(key)));
            worker.pending.retain(|(out, _)| *out.task.key.process != *process);
        }
    }

    /// An activity for a worker. One that is too large to be sent fails.
    pub fn dispatch(&mut self, task: Task) {
        let size = task.job.encoded_len();
        if size <= MAX_LARGE {
            return self.enqueue(task, false);
        }
        let failure = v1::Failure {
            kind: v1::FailureKind::Limit.into(),
            message: too_large("its parameters", size),
            ..v1::Failure::default()
        };
        self.tell(task.key, Told::Answered(v1::answer::Outcome::Failed(failure)));
    }

    /// A subtree for another coordinator.
    pub fn delegate(&mut self, mut task: Task) {
        if task.job.encoded_len() > MAX_LARGE {
            task.job.recipes.clear();
        }
        let size = task.job.encoded_len();
        if size > MAX_LARGE {
            return self.refuse(task.key, Refused::TooLargeBytes(size as u64));
        }
        self.find_place(Out::new(task));
    }

    pub(super) fn find_place(&mut self, out: Out) {
        let key = out.task.key.clone();
        self.effects.push(Effect::FindPlace(key.clone()));
        self.placing.insert(key, (out, None));
    }

    /// Which coordinator takes a subtree, if there is any. That is recorded before it goes there.
    pub fn placed(&mut self, key: AttemptKey, node: Option<v1::NodeDescription>) {
        let Some((_, place)) = self.placing.get_mut(&key) else { return };
        let Some(node) = node else {
            self.placing.remove(&key);
            return self.refuse(key, Refused::NoCoordinator(v1::Nothing {}));
        };
        let found = Placement { node: node.name, address: node.address, epoch: 0 };
        *place = Some(found.clone());
        self.tell(key, Told::Placed(found));
    }

    /// It is recorded where a subtree goes: it goes there, at once or when the connection is there. One that is said to be
    /// there already is asked for.
    pub fn hand(&mut self, key: &AttemptKey, now: Duration) {
        let Some((out, Some(place))) = self.placing.remove(key) else { return self.ask(key) };
        let name = self.coordinator(&place, now);
        self.remember(&out, &place);
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.pending.push((out, now));
        }
        self.begin_pending(&name);
    }

    pub(super) fn remember(&mut self, out: &Out, place: &Placement) {
        self.delegated.push_back((out.task.job.path.clone(), place.address.clone()));
        if self.delegated.len() > MOST_REMEMBERED {
            self.delegated.pop_front();
        }
    }

    fn ask(&mut self, key: &AttemptKey) {
        let claim = self.claim(&key.process);
        for (name, worker) in &mut self.workers {
            if let Some(out) = worker.has.get_mut(key).filter(|out| out.ask == Ask::WhenRecorded) {
                out.ask = Ask::Yes;
                if worker.connected {
                    self.effects.push(Effect::Order(name.clone(), Order::Claim(vec![claim.clone()])));
                }
            }
        }
    }

    /// A subtree is somewhere else now. Where it was may be connected still, and not know yet that it has lost it. This is
    /// told again until the place is recorded.
    pub fn moved(&mut self, key: &AttemptKey, place: &Placement, now: Duration) -> Moved {
        let there = peer_name(place);
        let Some((name, worker)) = self.workers.iter_mut().find(|(_, worker)| worker.has.contains_key(key)) else {
            return Moved::Unwanted;
        };
        let Some(out) = worker.has.get_mut(key) else { return Moved::Unwanted };
        if out.epoch > place.epoch || (out.epoch == place.epoch && *name == there) {
            return if out.ask == Ask::WhenRecorded { Moved::Noted } else { Moved::Known };
        }
        let Some(out) = worker.give_back(key) else { return Moved::Unwanted };
        let name = self.coordinator(place, now);
        self.tell(key.clone(), Told::Placed(place.clone()));
        self.note(&name, Out { epoch: place.epoch, ..out }, Ask::WhenRecorded);
        Moved::Noted
    }

    /// The peer that a subtree goes to. A node may be both a worker and a coordinator; they are reached by different
    /// streams.
    pub(super) fn coordinator(&mut self, place: &Placement, now: Duration) -> Arc<str> {
        let name = peer_name(place);
        self.open(Peer::Coordinator, &name, place.address.clone(), now);
        name
    }

    pub(super) fn open(&mut self, peer: Peer, name: &Arc<str>, address: String, now: Duration) -> &mut Worker {
        let effects = &mut self.effects;
        self.workers.entry(name.clone()).or_insert_with(|| {
            effects.push(Effect::Connect(name.clone(), peer, address.clone()));
            Worker {
                peer,
                address,
                connected: false,
                slots: 0,
                queue: 0,
                memory: 0,
                gpus: 0,
                tags: HashSet::new(),
                holdings: Holdings::default(),
                interpreters: HashSet::new(),
                containers: false,
                has: BTreeMap::new(),
                used: Used::default(),
                pace: Pace::default(),
                unfit: HashSet::new(),
                draining: false,
                full_until: None,
                silent_since: Some(now),
                lease: None,
                remembered: true,
                pending: Vec::new(),
                owes: false,
            }
        })
    }

    pub(super) fn tell(&mut self, key: AttemptKey, told: Told) {
        self.effects.push(Effect::Tell(key, told));
    }

    fn refuse(&mut self, key: AttemptKey, reason: Refused) {
        let refusal = v1::Refusal::for_now(reason);
        self.tell(key, Told::Answered(v1::answer::Outcome::Refused(refusal)));
    }

    /// Another group lends a worker, or lends it longer.
    pub fn borrowed(&mut self, place: v1::PlaceResponse, now: Duration) {
        let Some(node) = place.node else { return };
        let name: Arc<str> = format!("{}/{}", place.group, node.name).into();
        let known = self.workers.contains_key(&name);
        let worker = self.open(Peer::Worker, &name, node.address.clone(), now);
        let until = now + Duration::from_millis(place.lease_ms);
        worker.lease = Some(Lease { until, slots: place.slots, renewing: false });
        if !known {
            worker.remembered = false;
            self.effects.push(Effect::Remember(name, node.address));
        }
    }

    /// A borrowed worker is remembered, and may get something.
    pub fn remembered(&mut self, name: &str) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.remembered = true;
        }
    }

    /// The group as its manager knows it now.
    pub fn roster(&mut self, roster: v1::Roster, now: Duration) {
        if !roster.settling {
            self.grouped.get_or_insert(now);
        }
        let all = roster.workers.iter().chain(&roster.draining);
        let named: HashMap<&str, &v1::NodeDescription> = all.map(|node| (&*node.name, node)).collect();
        let own = self.workers.iter().filter(|(_, worker)| worker.peer == Peer::Worker && worker.lease.is_none());
        // A manager that has just begun to lead has not heard of everybody yet. Whoever is connected is there, and who has
        // something of ours is lost only after a silence.
        let gone = own.filter(|(name, worker)| {
            !named.contains_key(&***name) && !roster.settling && !worker.connected && worker.has.is_empty()
        });
        let gone: Vec<Arc<str>> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.workers.remove(&name);
            self.effects.push(Effect::Disconnect(name));
        }
        for node in &roster.draining {
            if let Some(worker) = self.workers.get_mut(&*node.name) {
                worker.draining = true;
            }
        }
        for node in &roster.workers {
            let name: Arc<str> = node.name.as_str().into();
            let worker = self.open(Peer::Worker, &name, node.address.clone(), now);
            if worker.address != node.address {
                // It has moved, and tells there what it still has.
                worker.address.clone_from(&node.address);
                worker.connected = false;
                worker.silent_since = Some(now);
                self.effects.push(Effect::Disconnect(name.clone()));
                self.effects.push(Effect::Connect(name, Peer::Worker, node.address.clone()));
            }
        }
        self.roster = roster;
    }

    /// The connection to a peer broke.
    pub fn disconnected(&mut self, name: &str, now: Duration) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.connected = false;
            worker.silent_since = Some(now);
        }
    }

    /// A worker takes nothing new.
    pub fn draining(&mut self, name: &str) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.draining = true;
        }
    }

    /// A worker answered these.
    pub fn answered(&mut self, name: &str, keys: &[AttemptKey], now: Duration) {
        for key in keys {
            if let Some(unsettled) = self.unsettled.get_mut(&key.process) {
                unsettled.attempts.remove(key);
            }
        }
        if let Some(worker) = self.workers.get_mut(name) {
            for key in keys {
                // What it needed it had to get.
                let files = worker.give_back(key).map(|out| out.task.files).unwrap_or_default();
                worker.holdings.add(files.iter().map(|need| need.digest));
            }
            worker.pace.work(!worker.has.is_empty(), now);
            worker.pace.count(keys.len(), worker.slots);
        }
    }

    /// A worker has files.
    pub fn holds(&mut self, name: &str, digests: Vec<Digest>) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.holdings.add(digests);
        }
    }

    /// A worker does not have these, and cannot get them.
    pub fn lacks(&mut self, name: &str, digests: &[Digest]) {
        if let Some(worker) = self.workers.get_mut(name) {
            digests.iter().for_each(|digest| worker.holdings.remove(digest));
        }
    }

    /// Addresses of workers that are connected and have an object, as far as is known.
    pub fn holders(&self, digest: &Digest) -> Vec<String> {
        let up = self.workers.values().filter(|worker| worker.connected && worker.holdings.has(digest));
        up.map(|worker| worker.address.clone()).take(MAX_HOLDERS).collect()
    }

    /// Other coordinators that could fetch files.
    pub fn relays(&self) -> Vec<String> {
        relays(&self.workers).cloned().collect()
    }

    /// The parts of a process that are at other coordinators: their paths, and where they are.
    pub fn handed(&self, process: &str) -> Vec<(String, String)> {
        let there = self.workers.values().filter(|worker| worker.peer == Peer::Coordinator);
        let parts = there.flat_map(|worker| worker.has.iter().map(move |(key, out)| (key, out, &worker.address)));
        let of_it = parts.filter(|(key, ..)| *key.process == *process);
        of_it.map(|(_, out, address)| (out.task.job.path.clone(), address.clone())).collect()
    }

    /// A process needs less of the files that are kept for it.
    pub fn release(&mut self, release: &Arc<v1::Release>) {
        let up = self.workers.iter().filter(|(_, worker)| worker.connected && worker.peer == Peer::Worker);
        let orders = up.map(|(name, _)| Effect::Order(name.clone(), Order::Release(release.clone())));
        self.effects.extend(orders);
    }

    /// A worker does not take this one.
    pub fn refused(&mut self, name: &Arc<str>, key: &AttemptKey, refusal: v1::Refusal, now: Duration) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let Some(out) = worker.give_back(key) else { return };
        if worker.peer == Peer::Coordinator {
            return self.tell(key.clone(), Told::Answered(v1::answer::Outcome::Refused(refusal)));
        }
        if refusal.permanent {
            worker.unfit.insert((out.task.program.digest.clone(), out.task.job.activity));
        } else {
            worker.full_until = Some(now + FULL_FOR);
        }
        if out.stop {
            return self.tell(key.clone(), Told::Answered(v1::answer::Outcome::Cancelled(v1::Nothing {})));
        }
        self.enqueue(out.task, true);
    }

    /// An attempt is to be stopped.
    pub fn cancel(&mut self, key: AttemptKey) {
        let queued = self.queues.get_mut(&key.process).and_then(|queue| {
            let at = queue.iter().position(|task| task.key == key)?;
            queue.remove(at)
        });
        let pending = self.workers.values_mut().find_map(|worker| {
            let at = worker.pending.iter().position(|(out, _)| out.task.key == key)?;
            Some(worker.pending.remove(at))
        });
        if queued.is_some() || pending.is_some() || self.placing.remove(&key).is_some() {
            return self.tell(key, Told::Answered(v1::answer::Outcome::Cancelled(v1::Nothing {})));
        }
        let unsettled = self.unsettled.get_mut(&key.process).and_then(|unsettled| unsettled.attempts.get_mut(&key));
        if let Some(out) = unsettled {
            out.stop = true;
            return;
        }
        for (name, worker) in &mut self.workers {
            if let Some(out) = worker.has.get_mut(&key) {
                out.stop = true;
                if worker.connected {
                    self.effects.push(Effect::Order(name.clone(), Order::Cancel(key)));
                }
                return;
            }
        }
    }

    /// A subtree is to be paused, or to go on.
    pub fn pause(&mut self, key: AttemptKey, paused: bool) {
        if let Some((out, _)) = self.placing.get_mut(&key) {
            out.paused = Some(paused);
            return;
        }
        for (name, worker) in &mut self.workers {
            if let Some((out, _)) = worker.pending.iter_mut().find(|(out, _)| out.task.key == key) {
                out.paused = Some(paused);
                let name = name.clone();
                return self.begin_pending(&name);
            }
            if let Some(out) = worker.has.get_mut(&key) {
                out.paused = Some(paused);
                if worker.connected {
                    self.effects.push(Effect::Order(name.clone(), Order::Pause(key, paused)));
                }
                return;
            }
        }
    }

    /// An attempt is of no interest any more: whoever has it is to stop it, now or when it is back.
    pub fn abandon(&mut self, key: &AttemptKey) {
        self.placing.remove(key);
        if let Some(unsettled) = self.unsettled.get_mut(&key.process) {
            unsettled.attempts.remove(key);
        }
        for (name, worker) in &mut self.workers {
            worker.pending.retain(|(out, _)| out.task.key != *key);
            if worker.give_back(key).is_some() && worker.connected {
                self.effects.push(Effect::Order(name.clone(), Order::Cancel(key.clone())));
            }
        }
    }

    /// Where these attempts are, or why they are nowhere.
    pub fn whereabouts(&self, keys: &[AttemptKey]) -> Vec<Option<Whereabouts>> {
        let find = |key: &AttemptKey| {
            let found = self.workers.iter().find(|(_, worker)| worker.has.contains_key(key));
            if let Some((name, worker)) = found {
                let silent = worker.silent_since.map(|since| self.looked.saturating_sub(since));
                return Some(Whereabouts::At { name: name.clone(), address: worker.address.clone(), silent });
            }
            let task = self.queues.get(&key.process)?.iter().find(|task| task.key == *key)?;
            Some(Whereabouts::Waits(self.why(&task.needs)))
        };
        keys.iter().map(find).collect()
    }

    /// Why nobody has an attempt yet.
    fn why(&self, needs: &Needs) -> v1::WaitReason {
        use v1::wait_reason::Kind;
        let up = self.workers.values().filter(|worker| worker.peer == Peer::Worker && worker.connected);
        match up.map(|worker| worker.lacks(needs)).max_by_key(Option::is_none) {
            None => Kind::NoWorker(v1::Nothing {}),
            Some(None) => Kind::WorkersBusy(v1::Nothing {}),
            Some(Some(_)) => {
                let up = self.workers.values().filter(|worker| worker.peer == Peer::Worker && worker.connected);
                let least = up.filter_map(|worker| worker.lacks(needs)).max();
                least.map_or(Kind::NoWorker(v1::Nothing {}), |lack| Kind::Unmet(lack.into()))
            }
        }
        .into()
    }

    /// Who may know something of an element that is not out any more.
    pub fn vicinity(&self, path: &str) -> Vicinity {
        let workers = self.workers.values().filter(|worker| worker.peer == Peer::Worker && worker.connected);
        let workers = workers.map(|worker| worker.address.clone()).collect();
        let within = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let delegated = self.delegated.iter().rev().filter(|(root, _)| within(root));
        Vicinity { workers, coordinators: delegated.map(|(_, address)| address.clone()).collect() }
    }

    fn enqueue(&mut self, task: Task, first: bool) {
        let process = task.key.process.clone();
        if !self.active.contains_key(&process) {
            return;
        }
        let queue = self.queues.entry(process.clone()).or_default();
        if queue.is_empty() && !self.turns.contains(&process) {
            self.turns.push_back(process);
        }
        if first {
            queue.push_front(task);
        } else {
            queue.push_back(task);
        }
    }

    /// Hands out what can be handed out, a task of each process in turn, and tells processes how much they may have out.
    pub fn place(&mut self, now: Duration) {
        let mut stuck = 0;
        while stuck < self.turns.len()
            && let Some(process) = self.turns.pop_front()
        {
            let Some(queue) = self.queues.get_mut(&process) else { continue };
            match next(queue, &self.workers, now) {
                Some((name, mut task)) => {
                    task.job.holdings = holdings(&self.workers, &name, &task.files);
                    if !task.files.is_empty() {
                        let more = relays(&self.workers).filter(|relay| !task.job.relays.contains(relay));
                        let more: Vec<String> = more.cloned().collect();
                        task.job.relays.extend(more);
                    }
                    let epoch = self.active.get(&process).copied().unwrap_or_default();
                    if let Some(worker) = self.workers.get_mut(&name) {
                        worker.pace.work(true, now);
                        worker.begin(&name, Out::new(task), epoch, &mut self.effects);
                    }
                    stuck = 0;
                }
                None => stuck += 1,
            }
            if !queue.is_empty() {
                self.turns.push_back(process);
            }
        }
        self.tell_share(now);
    }

    /// How many attempts wait that no worker in sight could ever run, up to a bound.
    fn hopeless(&self) -> u64 {
        let up = || self.workers.values().filter(|worker| worker.peer == Peer::Worker && worker.connected);
        let mut known: HashMap<(*const v1::Program, u32), bool> = HashMap::new();
        let waiting = self.queues.values().flatten().filter(|task| {
            let kind = (Arc::as_ptr(&task.program), task.job.activity);
            *known.entry(kind).or_insert_with(|| up().all(|worker| worker.lacks(&task.needs).is_some()))
        });
        waiting.take(MOST_HOPELESS).count() as u64
    }

    pub(super) fn begin_pending(&mut self, name: &Arc<str>) {
        let Some(worker) = self.workers.get_mut(name).filter(|worker| worker.connected) else { return };
        let (wait, begin): (Vec<_>, Vec<_>) =
            std::mem::take(&mut worker.pending).into_iter().partition(|(out, _)| out.paused == Some(true));
        worker.pending = wait;
        for (out, _) in begin {
            let epoch = self.active.get(&out.task.key.process).copied().unwrap_or_default();
            worker.begin(name, out, epoch, &mut self.effects);
        }
    }

    /// Looks after what time changes; to be called several times a second.
    pub fn look(&mut self, now: Duration) {
        self.excuse(now);
        self.settle(now);
        self.borrow(now);
        self.take_back(now);
        let mut refused = Vec::new();
        for worker in self.workers.values_mut() {
            worker.pending.retain(|(out, since)| {
                let waits = out.paused == Some(true) || now.saturating_sub(*since) < CONNECT_WITHIN;
                if !waits {
                    refused.push(out.task.key.clone());
                }
                waits
            });
        }
        refused.into_iter().for_each(|key| self.refuse(key, Refused::CoordinatorUnreachable(v1::Nothing {})));
        // Workers that are silent for too long are lost. Other coordinators are not: cut off, they go on, and report when
        // they are back.
        for worker in self.workers.values_mut().filter(|worker| worker.peer == Peer::Worker) {
            if worker.silent_since.is_some_and(|since| now.saturating_sub(since) > LOST_AFTER) {
                worker.used = Used::default();
                std::mem::take(&mut worker.has)
                    .into_keys()
                    .for_each(|key| self.effects.push(Effect::Tell(key, Told::Lost)));
            }
        }
    }

    /// What waits at a worker that has become slow is wanted back, if others have nothing to do.
    fn take_back(&mut self, now: Duration) {
        let waits = self.queues.values().any(|queue| !queue.is_empty());
        let free = |worker: &Worker| worker.has_room(now) && worker.used.cpus < worker.slots;
        let free = !waits && self.workers.values().any(free);
        for (name, worker) in &mut self.workers {
            let works = !worker.has.is_empty();
            worker.pace.work(works, now);
            if worker.peer == Peer::Coordinator || !works || worker.pace.busy < SLOW {
                continue;
            }
            worker.pace.count(0, worker.slots);
            if free && worker.connected && worker.used.cpus > worker.slots {
                self.effects.push(Effect::Order(name.clone(), Order::Recall));
            }
        }
    }

    /// Asks other groups for room when work waits; lets go what was borrowed and is not needed.
    fn borrow(&mut self, now: Duration) {
        let waits = self.queues.values().any(|queue| !queue.is_empty());
        self.waits_since = if waits { self.waits_since.or(Some(now)) } else { None };
        let elsewhere = self.roster.foreign_free_slots > 0;
        if elsewhere && self.waits_since.is_some_and(|since| now.saturating_sub(since) > BORROW_AFTER) {
            self.waits_since = Some(now);
            self.effects.push(Effect::Borrow(None));
        }
        let effects = &mut self.effects;
        let unsettled = !self.unsettled.is_empty();
        self.workers.retain(|name, worker| {
            let over = match worker.peer {
                Peer::Worker => worker.lease.is_some_and(|lease| lease.until <= now) && !unsettled,
                Peer::Coordinator => !worker.connected && worker.pending.is_empty() && !worker.owes,
            };
            let over = over && worker.has.is_empty();
            if over {
                effects.push(Effect::Disconnect(name.clone()));
                if worker.lease.is_some() {
                    effects.push(Effect::Forget(name.clone()));
                }
            } else if let Some(lease) = &mut worker.lease
                && lease.slots > 0
                && waits
                && !lease.renewing
                && lease.until <= now + RENEW_BEFORE
            {
                lease.renewing = true;
                effects.push(Effect::Borrow(Some(name.clone())));
            }
            !over
        });
    }

    /// How many attempts each process may have out: together somewhat more than there is room for, so that a process
    /// that cannot use its share leaves no worker idle.
    fn tell_share(&mut self, now: Duration) {
        let up = self.workers.values().filter(|worker| worker.peer == Peer::Worker);
        let up = up.filter(|worker| worker.connected && !worker.draining);
        let total: u64 = up.map(|worker| u64::from(worker.room())).sum();
        let roster = &self.roster;
        // By the rule of the grid what need not go stays, unless the own group has no free worker and others have.
        let crowded = roster.free_slots == 0 && roster.foreign_free_slots > 0;
        // Then so much more may wait here: for what waits, workers are borrowed.
        let total = if crowded { total + u64::from(roster.foreign_free_slots) } else { total };
        let room = match (total, self.active.len() as u64) {
            (0, _) => 0,
            (total, 0 | 1) => total,
            (total, active) => (2 * total / active).clamp(1, total),
        };
        // What waits for a worker that is not there must not keep the rest from being handed out.
        if self.workers.values().any(|worker| worker.has_room(now)) {
            self.hopeless = self.hopeless();
        }
        let room = room + self.hopeless;
        // Small changes of a large share are not worth telling.
        let room = if room.abs_diff(self.share.room) * 8 < self.share.room { self.share.room } else { room };
        let others = u64::from(roster.other_coordinators) + u64::from(roster.foreign_coordinators);
        self.share = Share {
            room,
            delegations: if others > 0 { MOST_DELEGATIONS } else { 0 },
            auto_delegations: if crowded { u64::from(roster.foreign_coordinators).min(MOST_DELEGATIONS) } else { 0 },
        };
    }
}
