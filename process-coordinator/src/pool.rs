//! The workers of a coordinator: who has room, who has which attempt, who is gone, and what becomes of attempts whose
//! whereabouts are not known. Without I/O, clock or threads: time is passed in, and what is to be done comes out.
//!
//! Processes take turns, so that none starves the others. Workers get so much ahead of their slots as they do in a moment,
//! so that the fast ones never wait for the wire and the slow ones leave work for others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::definition::{ActivityCode, ActivityType, Requires};
use xavantes_model::digest::Digest;
use xavantes_model::value::MOST_HOLDERS;
use xavantes_proto::{MAX_LARGE, Message, too_large, v1};

use crate::driver::Recovered;
use crate::holdings::{Holdings, Need};
use crate::journal::Placement;

/// What an attempt is called: process, element, attempt.
pub type Key = (Arc<str>, u64, u32);

/// An attempt by its wire name.
pub fn key_of(id: &v1::AttemptId) -> Key {
    (id.process.as_str().into(), id.element, id.attempt)
}

/// The wire name of an attempt.
pub fn wire_id((process, element, attempt): &Key) -> v1::AttemptId {
    v1::AttemptId { process: process.to_string(), element: *element, attempt: *attempt }
}

/// What the pool calls another coordinator.
fn peer_name(place: &Placement) -> Arc<str> {
    format!("{}@{}", place.node, place.address).into()
}

/// An attempt that wants a worker, or another coordinator.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its name.
    pub key: Key,
    /// The program that its activity is of.
    pub program: Arc<v1::Program>,
    /// What its worker must have.
    pub needs: Needs,
    /// Files that it needs.
    pub files: Vec<Need>,
    /// Another worker is better: it failed there.
    pub avoid: Option<Arc<str>>,
    /// What is sent.
    pub job: v1::Job,
}

/// What a worker must have to run an activity. A subtree needs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Slots.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
    /// What it must be tagged with.
    pub tags: Vec<Arc<str>>,
    /// The language that it must have an interpreter for.
    pub language: Option<Arc<str>>,
    /// It must run containers.
    pub container: bool,
}

impl Needs {
    /// Of an activity of this type.
    pub fn of(activity: &ActivityType) -> Self {
        let Requires { cpus, memory, gpus, ref tags, .. } = activity.requires;
        let container = activity.launch.image.is_some();
        let language = match &activity.code {
            // An image has its own.
            ActivityCode::Interpreter { language, .. } if !container => Some(language.clone()),
            _ => None,
        };
        Self { cpus, memory, gpus, tags: tags.clone(), language, container }
    }
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
    Cancel(Key),
    /// Pause a subtree, or let it go on.
    Pause(Key, bool),
    /// The answer to a call.
    Reply(v1::SharedReply),
    /// An answer was recorded.
    Acknowledge(Key),
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
    Tell(Key, Told),
    /// Ask which coordinator could take a subtree.
    FindPlace(Key),
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
    Waits(String),
}

/// A worker that is silent for so long is taken for lost, and its attempts are handed out again.
pub const LOST_AFTER: Duration = Duration::from_secs(10);
/// Whoever does not look for so long has stood still.
const STOOD_STILL: Duration = Duration::from_secs(1);
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
/// So many other coordinators are asked at most to fetch files for a worker.
const MOST_RELAYS: usize = 4;
/// A worker has so much ahead as it does in this time.
const AHEAD: Duration = Duration::from_millis(100);
/// How fast a worker is, is measured over such times, and so many answers for each of its slots: they may come all at once.
const PACE_OVER: Duration = Duration::from_millis(5);
const PACE_ANSWERS: u32 = 4;
/// Before that is known it has so much ahead for each slot.
const FIRST_AHEAD: u32 = 8;
/// If they do not come for so long it is slow. Then what waits at it is wanted back when others have room, so often.
const SLOW: Duration = Duration::from_secs(1);

/// An attempt that was handed out, or is about to be, and what its process wants of it since.
#[derive(Debug, Clone)]
struct Out {
    task: Task,
    stop: bool,
    /// Of a subtree: the last that was said.
    paused: Option<bool>,
    ask: Ask,
    /// It was handed out by a former coordinator, or in a former life.
    adopted: bool,
    /// Of a subtree: the epoch of it where it is noted.
    epoch: u64,
}

/// Of a subtree: whether it is known to be where it is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// It is.
    No,
    /// Whoever has it is asked when the place is recorded. That fails if another coordinator has the process by now, which
    /// must not lose the subtree to this one.
    WhenRecorded,
    /// Whoever has it was not asked yet, or did not answer.
    Yes,
}

impl Out {
    fn new(task: Task) -> Self {
        Self { task, stop: false, paused: None, ask: Ask::No, adopted: false, epoch: 0 }
    }
}

/// How many answers a worker gives in a second, while it has something to do.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Since when it has something to do, or it was last looked how long that is.
    since: Option<Duration>,
    /// For so long it had something to do, and gave so many answers meanwhile.
    busy: Duration,
    answers: u32,
    rate: Option<f64>,
}

impl Pace {
    /// It has something to do, or nothing.
    fn work(&mut self, works: bool, now: Duration) {
        self.busy += self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.since = works.then_some(now);
    }

    /// It has so many slots, and has given so many answers.
    fn count(&mut self, answers: usize, slots: u32) {
        self.answers = self.answers.saturating_add(answers as u32);
        let enough = self.answers >= slots.saturating_mul(PACE_ANSWERS) && self.busy >= PACE_OVER;
        if enough || self.busy >= SLOW {
            self.rate = Some(f64::from(self.answers) / self.busy.as_secs_f64());
            (self.busy, self.answers) = (Duration::ZERO, 0);
        }
    }
}

/// Until when we may use so many slots of a worker of another group.
#[derive(Debug, Clone, Copy)]
struct Lease {
    until: Duration,
    slots: u32,
    /// It was asked for longer.
    renewing: bool,
}

#[derive(Debug)]
struct Worker {
    peer: Peer,
    address: String,
    connected: bool,
    slots: u32,
    queue: u32,
    memory: u64,
    gpus: u32,
    tags: HashSet<String>,
    /// Files that it has.
    holdings: Holdings,
    interpreters: HashSet<String>,
    containers: bool,
    /// Attempts that it has.
    has: BTreeMap<Key, Out>,
    used: Used,
    pace: Pace,
    /// Activity types that it will never run.
    unfit: HashSet<(String, u32)>,
    draining: bool,
    full_until: Option<Duration>,
    silent_since: Option<Duration>,
    /// Of another group.
    lease: Option<Lease>,
    /// A borrowed one that is not remembered yet gets nothing.
    remembered: bool,
    /// Subtrees that wait for the connection, or for the end of a pause, since when.
    pending: Vec<(Out, Duration)>,
    /// Of a coordinator: it may have something of ours, or keep answers that it does not know to be recorded.
    owes: bool,
}

/// What the attempts that a worker has take of it.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    cpus: u32,
    memory: u64,
    gpus: u32,
}

impl Used {
    fn add(&mut self, needs: &Needs) {
        self.cpus += needs.cpus;
        self.memory = self.memory.saturating_add(needs.memory);
        self.gpus += needs.gpus;
    }

    fn subtract(&mut self, needs: &Needs) {
        self.cpus = self.cpus.saturating_sub(needs.cpus);
        self.memory = self.memory.saturating_sub(needs.memory);
        self.gpus = self.gpus.saturating_sub(needs.gpus);
    }
}

/// What a worker does not have. Those that are hardest to get come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Interpreter(Arc<str>),
    Tag(Arc<str>),
    Containers,
    Gpus(u32),
    Memory(u64),
    Slots(u32),
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interpreter(language) => write!(f, "has an interpreter for {language:?}"),
            Self::Tag(tag) => write!(f, "is tagged {tag:?}"),
            Self::Containers => write!(f, "runs containers"),
            Self::Gpus(count) => write!(f, "has {count} GPUs"),
            Self::Memory(bytes) => write!(f, "has {:.1} MiB of memory", *bytes as f64 / f64::from(1 << 20)),
            Self::Slots(count) => write!(f, "has {count} slots"),
        }
    }
}

/// Attempts of a process that was recovered: some worker may have them.
#[derive(Debug)]
struct Unsettled {
    attempts: BTreeMap<Key, Out>,
    /// The workers that told what they know.
    heard: HashSet<Arc<str>>,
    since: Duration,
}

/// The workers of a coordinator.
#[derive(Debug, Default)]
pub struct Pool {
    workers: BTreeMap<Arc<str>, Worker>,
    queues: HashMap<Arc<str>, VecDeque<Task>>,
    /// Subtrees for which a coordinator is looked for, or was found and is being recorded.
    placing: HashMap<Key, (Out, Option<Placement>)>,
    unsettled: BTreeMap<Arc<str>, Unsettled>,
    /// Processes with something in their queue, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// The processes that run here, and their epochs.
    active: HashMap<Arc<str>, u64>,
    /// Those of them that were recovered: workers may have something of them that was handed out by others.
    recovered: BTreeSet<Arc<str>>,
    /// Those that another coordinator has.
    foreign: HashSet<Arc<str>>,
    roster: v1::Roster,
    /// Since when the group is known.
    grouped: Option<Duration>,
    share: Share,
    /// Since when work waits that nobody has room for.
    waits_since: Option<Duration>,
    looked: Duration,
    effects: Vec<Effect>,
    /// Attempts that wait for a worker that is not there.
    hopeless: u64,
    /// Subtrees that were handed over, by path, with where they went: the newest.
    delegated: VecDeque<(String, String)>,
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

    /// A process that was kept goes on, and these attempts of it were out.
    pub fn recover(&mut self, process: &Arc<str>, epoch: u64, attempts: Vec<Recovered>, now: Duration) {
        self.began(process.clone(), epoch);
        self.recovered.insert(process.clone());
        let mut unsettled = BTreeMap::new();
        for Recovered { task, place, stop, paused } in attempts {
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
    fn note(&mut self, name: &Arc<str>, mut out: Out, ask: Ask) {
        let claim = self.claim(&out.task.key.0);
        let Some(worker) = self.workers.get_mut(name) else { return };
        out.ask = ask;
        worker.owes = true;
        if worker.connected && ask == Ask::Yes {
            self.effects.push(Effect::Order(name.clone(), Order::Claim(vec![claim])));
        }
        worker.has.insert(out.task.key.clone(), out);
    }

    fn claim(&self, process: &Arc<str>) -> v1::Claim {
        v1::Claim { process: process.to_string(), epoch: self.epoch(process) }
    }

    fn epoch(&self, process: &str) -> u64 {
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

    /// A process is over.
    pub fn over(&mut self, process: &str) {
        self.active.remove(process);
        self.recovered.remove(process);
        self.queues.remove(process);
        self.unsettled.remove(process);
        self.placing.retain(|key, _| *key.0 != *process);
        for worker in self.workers.values_mut() {
            let keys: Vec<Key> = worker.has.keys().filter(|key| *key.0 == *process).cloned().collect();
            keys.iter().for_each(|key| drop(worker.give_back(key)));
            worker.pending.retain(|(out, _)| *out.task.key.0 != *process);
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
            return self.refuse(task.key, &too_large("its variables", size));
        }
        self.find_place(Out::new(task));
    }

    fn find_place(&mut self, out: Out) {
        let key = out.task.key.clone();
        self.effects.push(Effect::FindPlace(key.clone()));
        self.placing.insert(key, (out, None));
    }

    /// Which coordinator takes a subtree, if there is any. That is recorded before it goes there.
    pub fn placed(&mut self, key: Key, node: Option<v1::NodeDescription>) {
        let Some((_, place)) = self.placing.get_mut(&key) else { return };
        let Some(node) = node else {
            self.placing.remove(&key);
            return self.refuse(key, "there is no other coordinator");
        };
        let found = Placement { node: node.name, address: node.address, epoch: 0 };
        *place = Some(found.clone());
        self.tell(key, Told::Placed(found));
    }

    /// It is recorded where a subtree goes: it goes there, at once or when the connection is there. One that is said to be
    /// there already is asked for.
    pub fn hand(&mut self, key: &Key, now: Duration) {
        let Some((out, Some(place))) = self.placing.remove(key) else { return self.ask(key) };
        let name = self.coordinator(&place, now);
        self.remember(&out, &place);
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.pending.push((out, now));
        }
        self.begin_pending(&name);
    }

    fn remember(&mut self, out: &Out, place: &Placement) {
        self.delegated.push_back((out.task.job.path.clone(), place.address.clone()));
        if self.delegated.len() > MOST_REMEMBERED {
            self.delegated.pop_front();
        }
    }

    fn ask(&mut self, key: &Key) {
        let claim = self.claim(&key.0);
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
    pub fn moved(&mut self, key: &Key, place: &Placement, now: Duration) -> Moved {
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
    fn coordinator(&mut self, place: &Placement, now: Duration) -> Arc<str> {
        let name = peer_name(place);
        self.open(Peer::Coordinator, &name, place.address.clone(), now);
        name
    }

    fn open(&mut self, peer: Peer, name: &Arc<str>, address: String, now: Duration) -> &mut Worker {
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

    fn tell(&mut self, key: Key, told: Told) {
        self.effects.push(Effect::Tell(key, told));
    }

    fn refuse(&mut self, key: Key, reason: &str) {
        let refusal = v1::Refusal { reason: reason.into(), for_good: false };
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

    /// A peer is connected and says what it has.
    pub fn connected(&mut self, name: &Arc<str>, hello: v1::WorkerHello, now: Duration) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        worker.connected = true;
        worker.slots = hello.slots;
        worker.queue = hello.queue;
        worker.memory = hello.memory;
        worker.gpus = hello.gpus;
        worker.tags = hello.tags.into_iter().collect();
        worker.holdings = Holdings::default();
        worker.holdings.add(hello.holds.iter().filter_map(|bytes| Digest::from_bytes(bytes)));
        worker.interpreters = hello.interpreters.into_iter().collect();
        worker.containers = hello.containers;
        worker.silent_since = None;
        worker.draining = false;
        worker.unfit.clear();
        let running: Vec<Key> = hello.running.iter().map(key_of).collect();
        let known: HashSet<Key> = running.iter().cloned().chain(hello.answered.iter().map(key_of)).collect();
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
        let lost: Vec<Key> = lost.map(|(key, _)| key.clone()).collect();
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
            let process = out.task.key.0.clone();
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
                worker.has.iter().filter(|(_, out)| out.ask == Ask::Yes).map(|(key, _)| key.0.clone()).collect()
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
    fn stop_unwanted(&mut self, name: &Arc<str>, running: Vec<Key>) {
        for key in running {
            let wanted = self.foreign.contains(&key.0)
                || self.workers.values().any(|worker| worker.has.contains_key(&key))
                || self.unsettled.get(&key.0).is_some_and(|unsettled| unsettled.attempts.contains_key(&key));
            if !wanted {
                self.effects.push(Effect::Order(name.clone(), Order::Cancel(key)));
            }
        }
    }

    /// A worker tells what it knows of processes whose attempts were claimed.
    pub fn known(&mut self, name: &Arc<str>, known: v1::Known) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let running: Vec<Key> = known.running.iter().map(key_of).collect();
        let mut lost = Vec::new();
        let all = running.iter().cloned().chain(known.answered.iter().map(key_of));
        worker.adopt(name, all, &mut self.unsettled, &mut self.effects);
        let asked: HashSet<&str> = known.processes.iter().map(String::as_str).collect();
        let answered: HashSet<Key> = known.answered.iter().map(key_of).collect();
        for (key, out) in &mut worker.has {
            if out.ask != Ask::Yes || !asked.contains(&*key.0) {
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
    pub fn answered(&mut self, name: &str, keys: &[Key], now: Duration) {
        for key in keys {
            if let Some(unsettled) = self.unsettled.get_mut(&key.0) {
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
        up.map(|worker| worker.address.clone()).take(MOST_HOLDERS).collect()
    }

    /// Other coordinators that could fetch files.
    pub fn relays(&self) -> Vec<String> {
        relays(&self.workers).cloned().collect()
    }

    /// The parts of a process that are at other coordinators: their paths, and where they are.
    pub fn handed(&self, process: &str) -> Vec<(String, String)> {
        let there = self.workers.values().filter(|worker| worker.peer == Peer::Coordinator);
        let parts = there.flat_map(|worker| worker.has.iter().map(move |(key, out)| (key, out, &worker.address)));
        let of_it = parts.filter(|(key, ..)| *key.0 == *process);
        of_it.map(|(_, out, address)| (out.task.job.path.clone(), address.clone())).collect()
    }

    /// A process needs less of the files that are kept for it.
    pub fn release(&mut self, release: &Arc<v1::Release>) {
        let up = self.workers.iter().filter(|(_, worker)| worker.connected && worker.peer == Peer::Worker);
        let orders = up.map(|(name, _)| Effect::Order(name.clone(), Order::Release(release.clone())));
        self.effects.extend(orders);
    }

    /// A worker does not take this one.
    pub fn refused(&mut self, name: &Arc<str>, key: &Key, refusal: v1::Refusal, now: Duration) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let Some(out) = worker.give_back(key) else { return };
        if worker.peer == Peer::Coordinator {
            return self.tell(key.clone(), Told::Answered(v1::answer::Outcome::Refused(refusal)));
        }
        if refusal.for_good {
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
    pub fn cancel(&mut self, key: Key) {
        let queued = self.queues.get_mut(&key.0).and_then(|queue| {
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
        let unsettled = self.unsettled.get_mut(&key.0).and_then(|unsettled| unsettled.attempts.get_mut(&key));
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
    pub fn pause(&mut self, key: Key, paused: bool) {
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
    pub fn abandon(&mut self, key: &Key) {
        self.placing.remove(key);
        if let Some(unsettled) = self.unsettled.get_mut(&key.0) {
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
    pub fn whereabouts(&self, keys: &[Key]) -> Vec<Option<Whereabouts>> {
        let find = |key: &Key| {
            let found = self.workers.iter().find(|(_, worker)| worker.has.contains_key(key));
            if let Some((name, worker)) = found {
                let silent = worker.silent_since.map(|since| self.looked.saturating_sub(since));
                return Some(Whereabouts::At { name: name.clone(), address: worker.address.clone(), silent });
            }
            let task = self.queues.get(&key.0)?.iter().find(|task| task.key == *key)?;
            Some(Whereabouts::Waits(self.why(&task.needs)))
        };
        keys.iter().map(find).collect()
    }

    /// Why nobody has an attempt yet.
    fn why(&self, needs: &Needs) -> String {
        let up = self.workers.values().filter(|worker| worker.peer == Peer::Worker && worker.connected);
        match up.map(|worker| worker.lacks(needs)).max_by_key(Option::is_none) {
            None => "there is no worker in sight".into(),
            Some(None) => "all workers that could run it are busy".into(),
            Some(Some(_)) => {
                let up = self.workers.values().filter(|worker| worker.peer == Peer::Worker && worker.connected);
                let least = up.filter_map(|worker| worker.lacks(needs)).max();
                least.map_or_else(String::new, |lack| format!("no worker in sight {lack}"))
            }
        }
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
        let process = task.key.0.clone();
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

    fn begin_pending(&mut self, name: &Arc<str>) {
        let Some(worker) = self.workers.get_mut(name).filter(|worker| worker.connected) else { return };
        let (wait, begin): (Vec<_>, Vec<_>) =
            std::mem::take(&mut worker.pending).into_iter().partition(|(out, _)| out.paused == Some(true));
        worker.pending = wait;
        for (out, _) in begin {
            let epoch = self.active.get(&out.task.key.0).copied().unwrap_or_default();
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
        refused.into_iter().for_each(|key| self.refuse(key, "the coordinator is not there"));
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

    /// While this coordinator itself stood still, nobody could be heard: that is no silence of theirs.
    fn excuse(&mut self, now: Duration) {
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
    fn settle(&mut self, now: Duration) {
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

/// Who has the files of a task that goes to that worker, and is not named by the references themselves.
fn holdings(workers: &BTreeMap<Arc<str>, Worker>, name: &str, files: &[Need]) -> Vec<v1::Holding> {
    let mut found = Vec::new();
    for need in files {
        // Also if it should have them itself: it may have let go of them.
        let others = workers.iter().filter(|(other, _)| &***other != name).map(|(_, worker)| worker);
        let others = others.filter(|other| other.connected && other.holdings.has(&need.digest));
        let others = others.filter(|other| need.holders.iter().all(|holder| **holder != *other.address));
        let addresses: Vec<String> = others.map(|other| other.address.clone()).take(MOST_HOLDERS).collect();
        if !addresses.is_empty() {
            found.push(v1::Holding { digest: need.digest.0.to_vec(), addresses });
        }
    }
    found
}

/// Coordinators that have, or had, subtrees: they reach workers that others may not.
fn relays(workers: &BTreeMap<Arc<str>, Worker>) -> impl Iterator<Item = &String> {
    let there = workers.values().filter(|worker| worker.peer == Peer::Coordinator && worker.connected);
    there.map(|worker| &worker.address).take(MOST_RELAYS)
}

/// Is this the worker that calls itself so? Those of other groups are called by these, too.
fn is_called(name: &str, own: &str) -> bool {
    name.rsplit('/').next() == Some(own)
}

/// Takes the first task out of a queue that some worker has room for: what waits for a worker that is not there does not
/// hold up the rest.
fn next(queue: &mut VecDeque<Task>, workers: &BTreeMap<Arc<str>, Worker>, now: Duration) -> Option<(Arc<str>, Task)> {
    if !workers.values().any(|worker| worker.has_room(now)) {
        return None;
    }
    // Activities of one type need the same.
    let mut hopeless: Vec<(*const v1::Program, u32)> = Vec::new();
    for at in 0..queue.len() {
        let task = &queue[at];
        let kind = (Arc::as_ptr(&task.program), task.job.activity);
        if hopeless.contains(&kind) {
            continue;
        }
        let fitting = workers.iter().filter(|(_, worker)| worker.fits(task, now));
        let avoided = |name: &str| task.avoid.as_deref().is_some_and(|avoid| is_called(name, avoid));
        if let Some((name, _)) = fitting.max_by_key(|(name, worker)| (!avoided(name), worker.worth(task))) {
            let name = name.clone();
            return Some((name, queue.remove(at)?));
        }
        hopeless.push(kind);
    }
    None
}

impl Worker {
    /// How well it suits a task that it can take: one of the own group first; of those with a free slot the one to which
    /// fewest bytes must move, so that no slot stays free for the sake of files; then the one with most room.
    fn worth(&self, task: &Task) -> (bool, bool, u64, i64) {
        let (free, bytes) = match task.files.is_empty() {
            true => (false, 0),
            false => (self.used.cpus + task.needs.cpus <= self.slots, self.holdings.bytes(&self.address, &task.files)),
        };
        (self.lease.is_none(), free, bytes, i64::from(self.room()) - i64::from(self.used.cpus))
    }

    /// How much it may have: its slots and what it does in a moment; of a borrowed one the slots that were lent.
    fn room(&self) -> u32 {
        if let Some(lease) = self.lease {
            return lease.slots.min(self.slots);
        }
        let ahead = match self.pace.rate {
            Some(rate) => (rate * AHEAD.as_secs_f64()) as u32,
            None => self.slots.saturating_mul(FIRST_AHEAD),
        };
        self.slots + ahead.min(self.queue)
    }

    /// May it get anything now?
    fn has_room(&self, now: Duration) -> bool {
        self.connected
            && self.peer == Peer::Worker
            && !self.draining
            && self.remembered
            && self.full_until.is_none_or(|until| until <= now)
            && self.lease.is_none_or(|lease| lease.until > now)
            && self.used.cpus < self.room()
    }

    fn fits(&self, task: &Task, now: Duration) -> bool {
        self.has_room(now)
            && self.lacks(&task.needs).is_none()
            && self.used.cpus + task.needs.cpus <= self.room()
            && self.used.memory.saturating_add(task.needs.memory) <= self.memory
            && self.used.gpus.saturating_add(task.needs.gpus) <= self.gpus
            && (self.unfit.is_empty() || !self.unfit.contains(&(task.program.digest.clone(), task.job.activity)))
    }

    /// What it would need to have to run this at all.
    fn lacks(&self, needs: &Needs) -> Option<Lack> {
        if let Some(language) = needs.language.as_ref().filter(|language| !self.interpreters.contains(&***language)) {
            return Some(Lack::Interpreter(language.clone()));
        }
        if let Some(tag) = needs.tags.iter().find(|tag| !self.tags.contains(&***tag)) {
            return Some(Lack::Tag(tag.clone()));
        }
        match () {
            () if needs.container && !self.containers => Some(Lack::Containers),
            () if needs.gpus > self.gpus => Some(Lack::Gpus(needs.gpus)),
            () if needs.memory > self.memory => Some(Lack::Memory(needs.memory)),
            () if needs.cpus > self.slots => Some(Lack::Slots(needs.cpus)),
            () => None,
        }
    }

    fn begin(&mut self, name: &Arc<str>, out: Out, epoch: u64, effects: &mut Vec<Effect>) {
        let task = &out.task;
        // A link that broke in this moment tells so; then the attempt is not known to the worker, and lost.
        effects.push(Effect::Order(name.clone(), Order::Program(task.program.clone())));
        let job = v1::Job { epoch, ..task.job.clone() };
        effects.push(Effect::Order(name.clone(), Order::Job(Box::new(job))));
        self.used.add(&task.needs);
        self.owes = true;
        self.has.insert(task.key.clone(), out);
    }

    /// It has these: what was looked for is found.
    fn adopt(
        &mut self,
        name: &Arc<str>,
        keys: impl Iterator<Item = Key>,
        unsettled: &mut BTreeMap<Arc<str>, Unsettled>,
        effects: &mut Vec<Effect>,
    ) {
        for key in keys {
            let found = unsettled.get_mut(&key.0).and_then(|unsettled| unsettled.attempts.remove(&key));
            let Some(out) = found else { continue };
            if out.stop {
                effects.push(Effect::Order(name.clone(), Order::Cancel(key.clone())));
            }
            self.used.add(&out.task.needs);
            self.has.insert(key, Out { adopted: true, ..out });
        }
    }

    fn give_back(&mut self, key: &Key) -> Option<Out> {
        let out = self.has.remove(key)?;
        self.used.subtract(&out.task.needs);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest([number; 32])
    }

    /// Workers by name, with slots and with objects that they have.
    fn pool(workers: &[(&str, u32, &[u8])]) -> Pool {
        let mut pool = Pool::default();
        let address = |name: &str| format!("{name}:1");
        let node = |name: &str| v1::NodeDescription { name: name.into(), address: address(name), ..Default::default() };
        let workers_known = workers.iter().map(|(name, ..)| node(name)).collect();
        pool.roster(v1::Roster { workers: workers_known, ..v1::Roster::default() }, Duration::ZERO);
        for (name, slots, holds) in workers {
            let holds = holds.iter().map(|number| digest(*number).0.to_vec()).collect();
            let hello = v1::WorkerHello { slots: *slots, queue: 100, holds, ..v1::WorkerHello::default() };
            pool.connected(&Arc::from(*name), hello, Duration::ZERO);
        }
        pool.began("p".into(), 1);
        pool.effects();
        pool
    }

    fn task(element: u64, files: &[(u8, u64)]) -> Task {
        let need = |(number, size): &(u8, u64)| Need { digest: digest(*number), size: *size, holders: Vec::new() };
        let key: Key = ("p".into(), element, 1);
        let job = v1::Job { id: Some(wire_id(&key)), ..v1::Job::default() };
        let files = files.iter().map(need).collect();
        Task { key, program: Arc::default(), needs: Needs { cpus: 1, ..Needs::default() }, files, avoid: None, job }
    }

    /// Who gets these, in order, and whom they are told to ask.
    fn placed(pool: &mut Pool, tasks: Vec<Task>) -> Vec<(String, Vec<String>)> {
        tasks.into_iter().for_each(|task| pool.dispatch(task));
        pool.place(Duration::ZERO);
        let jobs = pool.effects().into_iter().filter_map(|effect| match effect {
            Effect::Order(name, Order::Job(job)) => {
                let told = job.holdings.iter().flat_map(|holding| holding.addresses.clone()).collect();
                Some((name.to_string(), told))
            }
            _ => None,
        });
        jobs.collect()
    }

    fn names(placed: &[(String, Vec<String>)]) -> Vec<&str> {
        placed.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_task_goes_where_most_of_its_bytes_are() {
        let workers: &[(&str, u32, &[u8])] = &[("a", 8, &[]), ("b", 1, &[1, 2]), ("c", 1, &[3])];
        for (files, expected) in [
            (&[(1, 10)][..], "b"),
            (&[(3, 10)][..], "c"),
            // Bytes count, not files.
            (&[(1, 1), (2, 1), (3, 3)][..], "c"),
            // Who has nothing of it, or if there is nothing to have: most room.
            (&[(9, 10)][..], "a"),
            (&[][..], "a"),
        ] {
            assert_eq!(names(&placed(&mut pool(workers), vec![task(1, files)])), [expected], "{files:?}");
        }
    }

    #[test]
    fn what_failed_at_a_worker_is_tried_at_another_one_if_there_is_room() {
        let failed = |element| Task { avoid: Some("a".into()), ..task(element, &[(1, 10)]) };
        let workers: &[(&str, u32, &[u8])] = &[("a", 8, &[1]), ("b", 1, &[])];
        assert_eq!(names(&placed(&mut pool(workers), vec![failed(1)])), ["b"]);
        assert_eq!(names(&placed(&mut pool(&workers[..1]), vec![failed(1)])), ["a"]);
        assert!(is_called("g/a", "a") && !is_called("b", "a"));
    }

    #[test]
    fn no_slot_stays_free_for_the_sake_of_files() {
        let mut pool = pool(&[("a", 1, &[]), ("b", 1, &[1])]);
        let tasks = (1..=4).map(|element| task(element, &[(1, 10)])).collect();
        let placed = placed(&mut pool, tasks);
        // The third and fourth wait where the file is, and who does not have it is told who does.
        assert_eq!(names(&placed)[..3], ["b", "a", "b"]);
        assert_eq!(placed[1].1, ["b:1"]);
        assert!(placed[0].1.is_empty());
    }

    #[test]
    fn fast_workers_get_more_ahead_and_slow_ones_give_it_back() {
        let ms = Duration::from_millis;
        let key = |element: u64| -> Key { ("p".into(), element, 1) };
        let given = |pool: &mut Pool, now: Duration| {
            pool.place(now);
            let orders = pool.effects().into_iter();
            orders.filter(|effect| matches!(effect, Effect::Order(_, Order::Job(_)))).count()
        };
        let mut pool = pool(&[("a", 2, &[])]);
        (1..=1000).for_each(|element| pool.dispatch(task(element, &[])));
        assert_eq!(given(&mut pool, ms(0)), 18, "nothing is known of it");
        // Both slots answer at once after long: that is slow.
        for wave in 0..8 {
            pool.answered("a", &[key(1 + 2 * wave), key(2 + 2 * wave)], ms(5000 * (wave + 1)));
            assert_eq!(given(&mut pool, ms(5000 * (wave + 1))), 0);
        }
        pool.answered("a", &[key(17), key(18)], ms(45_000));
        assert_eq!(given(&mut pool, ms(45_000)), 2);
        // Two in two milliseconds, again and again, with some time in which it has nothing to do.
        let waves = (0..10).map(|wave| {
            let (now, first) = (ms(46_000 + 10 * wave), 19 + 2 * wave);
            pool.answered("a", &[key(first), key(first + 1)], now);
            given(&mut pool, now + ms(8))
        });
        assert!(waves.max() > Some(50));
        // Now it takes long, and another one comes.
        pool.queues.clear();
        pool.roster(
            v1::Roster {
                workers: ["a", "b"]
                    .map(|name| v1::NodeDescription {
                        name: name.into(),
                        address: format!("{name}:1"),
                        ..Default::default()
                    })
                    .into(),
                ..v1::Roster::default()
            },
            ms(46_200),
        );
        let hello = v1::WorkerHello { slots: 2, queue: 100, ..v1::WorkerHello::default() };
        pool.connected(&Arc::from("b"), hello, ms(46_200));
        let mut recalls = |from: u64, to: u64| {
            (from..to).step_by(100).for_each(|now| pool.look(ms(now)));
            let all = pool.effects();
            all.iter().filter(|effect| matches!(effect, Effect::Order(name, Order::Recall) if **name == *"a")).count()
        };
        assert_eq!(recalls(46_200, 47_000), 0, "it has not been slow for long");
        assert_eq!(recalls(47_000, 47_500), 1);
    }

    #[test]
    fn who_worked_with_a_file_has_it() {
        let mut pool = pool(&[("a", 1, &[]), ("b", 2, &[])]);
        assert_eq!(names(&placed(&mut pool, vec![task(1, &[(1, 10)])])), ["b"]);
        pool.answered("b", &[("p".into(), 1, 1)], Duration::ZERO);
        pool.holds("a", vec![digest(2)]);
        assert_eq!((pool.holders(&digest(1)), pool.holders(&digest(2))), (vec!["b:1".into()], vec!["a:1".into()]));
        assert_eq!(names(&placed(&mut pool, vec![task(2, &[(2, 10)])])), ["a"]);
        pool.lacks("b", &[digest(1)]);
        pool.disconnected("a", Duration::ZERO);
        assert!(pool.holders(&digest(1)).is_empty() && pool.holders(&digest(2)).is_empty());
    }
}
