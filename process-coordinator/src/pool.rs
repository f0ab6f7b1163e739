//! The workers of a coordinator: who has room, who has which attempt, who is gone.
//!
//! One task owns all of it, so nothing is locked. Processes take turns, so that none starves the others.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use xavantes_proto::{MAX_PART, Message, too_large, v1};

use crate::link::{self, Context, Order, Orders, Peer};
use crate::process::Mail;

/// What an attempt is called: process, element, attempt.
pub(crate) type Key = (Arc<str>, u64, u32);

pub(crate) fn key_of(id: &v1::AttemptId) -> Key {
    (id.process.as_str().into(), id.element, id.attempt)
}

/// An attempt that wants a worker.
#[derive(Debug)]
pub(crate) struct Task {
    pub key: Key,
    pub program: Arc<v1::Program>,
    pub activity: u32,
    pub cpus: u32,
    pub tags: Vec<Arc<str>>,
    pub job: v1::Job,
}

/// What a process may have out at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Activities.
    pub room: u64,
    /// Subtrees that ask for it, and others.
    pub delegations: u64,
    pub auto_delegations: u64,
}

/// Where an attempt is.
#[derive(Debug, Clone)]
pub(crate) struct Whereabouts {
    pub name: Arc<str>,
    pub address: String,
}

/// What the pool is told.
#[derive(Debug)]
pub(crate) enum PoolMail {
    /// The group as it is now.
    Roster(v1::Roster),
    Dispatch(Task),
    /// A subtree for another coordinator.
    Delegate(Task),
    /// Which one, if there is any.
    Placed(Key, Option<v1::NodeDescription>),
    /// Slots of another group's worker, for a while.
    Borrowed(v1::PlaceResponse),
    Cancel(Key),
    Pause(Key, bool),
    /// A process began, or is over.
    Began(Arc<str>),
    Over(Arc<str>),
    Connected(Arc<str>, v1::WorkerHello, Orders),
    Disconnected(Arc<str>),
    Draining(Arc<str>),
    Answered(Arc<str>, Key),
    Refused(Arc<str>, Key, v1::Refusal),
    /// On which workers are these?
    Where(Vec<Key>, oneshot::Sender<Vec<Option<Whereabouts>>>),
}

/// A worker that is silent for so long is taken for lost, and its attempts are handed out again.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// A worker that had no room is not asked again for so long.
const FULL_FOR: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(100);
/// When work waits for so long, other groups are asked for room, and asked again.
const BORROW_AFTER: Duration = Duration::from_millis(500);
/// Subtrees that may be at other coordinators at once; each is large.
const MOST_DELEGATIONS: u64 = 64;

/// An attempt that was handed out, or is about to be, and what its process wants of it since.
struct Out {
    task: Task,
    stop: bool,
    /// Of a subtree: the last that was said.
    paused: Option<bool>,
}

struct Worker {
    peer: Peer,
    link: JoinHandle<()>,
    address: String,
    orders: Option<Orders>,
    slots: u32,
    capacity: u32,
    tags: HashSet<String>,
    /// Attempts that it has.
    has: HashMap<Key, Out>,
    used: u32,
    /// Activity types that it will never run.
    unfit: HashSet<(String, u32)>,
    draining: bool,
    full_until: Option<Instant>,
    silent_since: Option<Instant>,
    /// Of another group: until when we may use so many of its slots.
    lease: Option<(Instant, u32)>,
    /// Subtrees that wait for the connection, or for the end of a pause, since when.
    pending: Vec<(Out, Instant)>,
}

pub(crate) struct Pool {
    context: Context,
    workers: BTreeMap<Arc<str>, Worker>,
    queues: HashMap<Arc<str>, VecDeque<Task>>,
    /// Subtrees for which a coordinator is looked for.
    placing: HashMap<Key, Out>,
    /// Processes with something in their queue, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    active: HashSet<Arc<str>>,
    share: watch::Sender<Share>,
    roster: v1::Roster,
    /// Since when work waits that nobody has room for.
    waits_since: Option<Instant>,
}

impl Pool {
    pub fn new(context: Context) -> (Self, watch::Receiver<Share>) {
        let (share, shared) = watch::channel(Share::default());
        let pool = Self {
            context,
            workers: BTreeMap::new(),
            queues: HashMap::new(),
            placing: HashMap::new(),
            turns: VecDeque::new(),
            active: HashSet::new(),
            share,
            roster: v1::Roster::default(),
            waits_since: None,
        };
        (pool, shared)
    }

    pub async fn run(mut self, mut mail: mpsc::UnboundedReceiver<PoolMail>) {
        let mut look = tokio::time::interval(LOOK);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                count = mail.recv_many(&mut batch, 1024) => {
                    if count == 0 {
                        return;
                    }
                    for mail in batch.drain(..) {
                        self.take(mail).await;
                    }
                }
                _ = look.tick() => self.look().await,
            }
            self.place();
            self.tell_share();
        }
    }

    async fn take(&mut self, mail: PoolMail) {
        match mail {
            PoolMail::Roster(roster) => self.on_roster(roster).await,
            PoolMail::Dispatch(task) => self.on_dispatch(task).await,
            PoolMail::Delegate(task) => self.on_delegate(task).await,
            PoolMail::Placed(key, node) => self.on_placed(key, node).await,
            PoolMail::Borrowed(place) => self.on_borrowed(place),
            PoolMail::Cancel(key) => self.on_cancel(key).await,
            PoolMail::Pause(key, paused) => self.on_pause(key, paused),
            PoolMail::Began(process) => drop(self.active.insert(process)),
            PoolMail::Over(process) => {
                self.active.remove(&process);
                self.queues.remove(&process);
            }
            PoolMail::Connected(name, hello, orders) => self.on_connected(&name, hello, orders).await,
            PoolMail::Disconnected(name) => {
                if let Some(worker) = self.workers.get_mut(&name) {
                    worker.orders = None;
                    worker.silent_since = Some(Instant::now());
                }
            }
            PoolMail::Draining(name) => {
                if let Some(worker) = self.workers.get_mut(&name) {
                    worker.draining = true;
                }
            }
            PoolMail::Answered(name, key) => {
                if let Some(worker) = self.workers.get_mut(&name) {
                    worker.give_back(&key);
                }
            }
            PoolMail::Refused(name, key, refusal) => self.on_refused(&name, &key, &refusal).await,
            PoolMail::Where(keys, answer) => {
                let places = keys.iter().map(|key| {
                    let found = self.workers.iter().find(|(_, worker)| worker.has.contains_key(key));
                    found.map(|(name, worker)| Whereabouts { name: name.clone(), address: worker.address.clone() })
                });
                let _ = answer.send(places.collect());
            }
        }
    }

    /// A job that is too large would break the stream, and the next one, and so on.
    async fn on_dispatch(&mut self, task: Task) {
        let size = task.job.encoded_len();
        if size <= MAX_PART {
            return self.enqueue(task, false);
        }
        let failure = v1::Failure {
            kind: v1::FailureKind::Limit.into(),
            message: too_large("its parameters", size),
            ..v1::Failure::default()
        };
        self.report(task.key, v1::answer::Outcome::Failed(failure)).await;
    }

    /// Pauses or resumes a subtree. One that was not handed over yet waits here.
    fn on_pause(&mut self, key: Key, paused: bool) {
        if let Some(out) = self.placing.get_mut(&key) {
            out.paused = Some(paused);
            return;
        }
        for worker in self.workers.values_mut() {
            if let Some(out) = worker.has.get_mut(&key) {
                out.paused = Some(paused);
                if let Some(orders) = &worker.orders {
                    let _ = orders.send(Order::Pause(key, paused));
                }
                return;
            }
            if let Some((out, since)) = worker.pending.iter_mut().find(|(out, _)| out.task.key == key) {
                out.paused = Some(paused);
                *since = Instant::now();
                return worker.begin_pending();
            }
        }
    }

    fn open(&self, peer: Peer, name: &Arc<str>, address: String) -> Worker {
        Worker {
            peer,
            link: tokio::spawn(link::run(self.context.clone(), peer, name.clone(), address.clone())),
            address,
            orders: None,
            slots: 0,
            capacity: 0,
            tags: HashSet::new(),
            has: HashMap::new(),
            used: 0,
            unfit: HashSet::new(),
            draining: false,
            full_until: None,
            silent_since: None,
            lease: None,
            pending: Vec::new(),
        }
    }

    /// Looks for a coordinator for a subtree. If there is none, or if it is too large to travel, it runs here.
    async fn on_delegate(&mut self, task: Task) {
        let key = task.key.clone();
        let size = task.job.encoded_len();
        if size > MAX_PART {
            return self.refuse(key, &too_large("its variables", size)).await;
        }
        self.placing.insert(key.clone(), Out { task, stop: false, paused: None });
        let context = self.context.clone();
        tokio::spawn(async move {
            let place = context.place(v1::place_request::What::Coordinator).await;
            let _ = context.pool.send(PoolMail::Placed(key, place.and_then(|place| place.node)));
        });
    }

    /// Hands a subtree to another coordinator, at once or when the connection is there.
    async fn on_placed(&mut self, key: Key, node: Option<v1::NodeDescription>) {
        let Some(out) = self.placing.remove(&key) else { return };
        let Some(node) = node else { return self.refuse(key, "there is no other coordinator").await };
        // A node may be both a worker and a coordinator; they are reached by different streams.
        let name: Arc<str> = format!("{}@{}", node.name, node.address).into();
        if !self.workers.contains_key(&name) {
            let worker = self.open(Peer::Coordinator, &name, node.address);
            self.workers.insert(name.clone(), worker);
        }
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.pending.push((out, Instant::now()));
            worker.begin_pending();
        }
    }

    async fn refuse(&self, key: Key, reason: &str) {
        let refusal = v1::Refusal { reason: reason.into(), for_good: false };
        self.report(key, v1::answer::Outcome::Refused(refusal)).await;
    }

    fn on_borrowed(&mut self, place: v1::PlaceResponse) {
        let Some(node) = place.node else { return };
        let name: Arc<str> = format!("{}/{}", place.group, node.name).into();
        if !self.workers.contains_key(&name) {
            info!(worker = %name, slots = place.slots, "borrowed a worker of another group");
            let worker = self.open(Peer::Worker, &name, node.address);
            self.workers.insert(name.clone(), worker);
        }
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.lease = Some((Instant::now() + Duration::from_millis(place.lease_ms), place.slots));
        }
    }

    async fn on_roster(&mut self, roster: v1::Roster) {
        let all = roster.workers.iter().chain(&roster.draining);
        let named: HashMap<&str, &v1::NodeDescription> = all.map(|node| (&*node.name, node)).collect();
        let gone: Vec<Arc<str>> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.peer == Peer::Worker && worker.lease.is_none())
            .filter(|(name, worker)| match named.get(&***name) {
                Some(node) => node.address != worker.address,
                // A manager that has just begun to lead has not heard of everybody yet.
                None => !roster.settling,
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            info!(worker = %name, "worker left the group");
            self.lose(&name).await;
        }
        for node in &roster.draining {
            if let Some(worker) = self.workers.get_mut(&*node.name) {
                worker.draining = true;
            }
        }
        for node in &roster.workers {
            let name: Arc<str> = node.name.as_str().into();
            if !self.workers.contains_key(&name) {
                let worker = self.open(Peer::Worker, &name, node.address.clone());
                self.workers.insert(name, worker);
            }
        }
        self.roster = roster;
    }

    async fn on_connected(&mut self, name: &Arc<str>, hello: v1::WorkerHello, orders: Orders) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        worker.orders = Some(orders);
        worker.slots = hello.slots;
        worker.capacity = hello.slots + hello.queue;
        worker.tags = hello.tags.into_iter().collect();
        worker.silent_since = None;
        worker.draining = false;
        worker.unfit.clear();
        // What it knows nothing of never arrived, or was lost with it.
        let known: HashSet<Key> = hello.running.iter().chain(&hello.answered).map(key_of).collect();
        let lost: Vec<Key> = worker.has.keys().filter(|key| !known.contains(*key)).cloned().collect();
        for key in &lost {
            worker.give_back(key);
        }
        // What was said since may have been lost with the connection.
        if let Some(orders) = &worker.orders {
            for (key, out) in &worker.has {
                match out.paused {
                    // To cancel lifts a pause.
                    _ if out.stop => drop(orders.send(Order::Cancel(key.clone()))),
                    Some(paused) => drop(orders.send(Order::Pause(key.clone(), paused))),
                    None => {}
                }
            }
        }
        worker.begin_pending();
        self.report_lost(lost).await;
    }

    async fn on_refused(&mut self, name: &Arc<str>, key: &Key, refusal: &v1::Refusal) {
        let Some(worker) = self.workers.get_mut(name) else { return };
        let Some(task) = worker.give_back(key) else { return };
        if worker.peer == Peer::Coordinator {
            return self.report(task.key, v1::answer::Outcome::Refused(refusal.clone())).await;
        }
        if refusal.for_good {
            warn!(worker = %name, element = task.job.path, reason = refusal.reason, "refused for good");
            worker.unfit.insert((task.program.digest.clone(), task.activity));
        } else {
            worker.full_until = Some(Instant::now() + FULL_FOR);
        }
        self.enqueue(task, true);
    }

    async fn on_cancel(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(&key.0)
            && let Some(at) = queue.iter().position(|task| task.key == key)
        {
            queue.remove(at);
            return self.report(key, v1::answer::Outcome::Cancelled(v1::Nothing {})).await;
        }
        let placing = self.placing.remove(&key);
        let pending = self.workers.values_mut().find_map(|worker| {
            let at = worker.pending.iter().position(|(out, _)| out.task.key == key)?;
            Some(worker.pending.remove(at).0)
        });
        if placing.or(pending).is_some() {
            return self.report(key, v1::answer::Outcome::Cancelled(v1::Nothing {})).await;
        }
        for worker in self.workers.values_mut() {
            if let Some(out) = worker.has.get_mut(&key) {
                out.stop = true;
                if let Some(orders) = &worker.orders {
                    let _ = orders.send(Order::Cancel(key));
                }
                return;
            }
        }
    }

    fn enqueue(&mut self, task: Task, first: bool) {
        let process = task.key.0.clone();
        if !self.active.contains(&process) {
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

    /// Hands out what can be handed out, a task of each process in turn.
    fn place(&mut self) {
        let now = Instant::now();
        let mut stuck = 0;
        while stuck < self.turns.len()
            && let Some(process) = self.turns.pop_front()
        {
            let Some(queue) = self.queues.get_mut(&process) else { continue };
            let Some(task) = queue.pop_front() else { continue };
            let best = self
                .workers
                .values_mut()
                .filter(|worker| worker.fits(&task, now))
                .max_by_key(|worker| (worker.lease.is_none(), i64::from(worker.room()) - i64::from(worker.used)));
            match best {
                Some(worker) => {
                    worker.begin(Out { task, stop: false, paused: None });
                    stuck = 0;
                }
                None => {
                    queue.push_front(task);
                    stuck += 1;
                }
            }
            if !queue.is_empty() {
                self.turns.push_back(process);
            }
        }
    }

    /// Asks other groups for room when work waits; lets go what was borrowed and is not needed.
    fn borrow(&mut self) {
        let now = Instant::now();
        let waits = self.queues.values().any(|queue| !queue.is_empty());
        self.waits_since = if waits { self.waits_since.or(Some(now)) } else { None };
        let elsewhere = self.roster.foreign_free_slots > 0;
        if elsewhere && self.waits_since.is_some_and(|since| now.duration_since(since) > BORROW_AFTER) {
            self.waits_since = Some(now);
            let context = self.context.clone();
            tokio::spawn(async move {
                if let Some(place) = context.place(v1::place_request::What::Worker).await {
                    let _ = context.pool.send(PoolMail::Borrowed(place));
                }
            });
        }
        self.workers.retain(|_, worker| {
            let over = match worker.peer {
                Peer::Worker => worker.lease.is_some_and(|(until, _)| until <= now),
                Peer::Coordinator => worker.orders.is_none() && worker.pending.is_empty(),
            };
            let over = over && worker.has.is_empty();
            if over {
                worker.link.abort();
            }
            !over
        });
    }

    /// Workers that are silent for too long are lost. Other coordinators are not: cut off, they go on, and report when
    /// they are back.
    async fn look(&mut self) {
        self.borrow();
        let mut refused = Vec::new();
        for worker in self.workers.values_mut() {
            worker.pending.retain(|(out, since)| {
                let waits = out.paused == Some(true) || since.elapsed() < LOST_AFTER / 2;
                if !waits {
                    refused.push(out.task.key.clone());
                }
                waits
            });
        }
        for key in refused {
            self.refuse(key, "the coordinator is not there").await;
        }
        let lost: Vec<Arc<str>> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.silent_since.is_some_and(|since| since.elapsed() > LOST_AFTER))
            .filter(|(_, worker)| worker.peer == Peer::Worker && !worker.has.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for name in lost {
            warn!(worker = %name, "worker is silent; its attempts are handed out again");
            let Some(worker) = self.workers.get_mut(&name) else { continue };
            let keys: Vec<Key> = worker.has.drain().map(|(key, _)| key).collect();
            worker.used = 0;
            self.report_lost(keys).await;
        }
    }

    async fn lose(&mut self, name: &Arc<str>) {
        let Some(worker) = self.workers.remove(name) else { return };
        worker.link.abort();
        self.report_lost(worker.has.into_keys().collect()).await;
    }

    async fn report_lost(&self, keys: Vec<Key>) {
        for key in keys {
            if let Some(process) = self.context.processes.find(&key.0) {
                let _ = process.mail.send(Mail::Lost(key)).await;
            }
        }
    }

    async fn report(&self, key: Key, outcome: v1::answer::Outcome) {
        if let Some(process) = self.context.processes.find(&key.0) {
            let _ = process.mail.send(Mail::Answered { key, outcome, counts: None, orders: None }).await;
        }
    }

    /// How many attempts each process may have out: together somewhat more than there is room for, so that a process
    /// that cannot use its share leaves no worker idle.
    fn tell_share(&self) {
        let up = self.workers.values().filter(|worker| worker.peer == Peer::Worker);
        let up = up.filter(|worker| worker.orders.is_some() && !worker.draining);
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
        let others = u64::from(roster.other_coordinators) + u64::from(roster.foreign_coordinators);
        let share = Share {
            room,
            delegations: if others > 0 { MOST_DELEGATIONS } else { 0 },
            auto_delegations: if crowded { u64::from(roster.foreign_coordinators).min(MOST_DELEGATIONS) } else { 0 },
        };
        self.share.send_if_modified(|old| std::mem::replace(old, share) != share);
    }
}

impl Worker {
    /// How much it may have: slots and queue, of a borrowed one the slots that were lent.
    fn room(&self) -> u32 {
        self.lease.map_or(self.capacity, |(_, slots)| slots.min(self.capacity))
    }

    fn fits(&self, task: &Task, now: Instant) -> bool {
        self.orders.is_some()
            && self.peer == Peer::Worker
            && !self.draining
            && self.full_until.is_none_or(|until| until <= now)
            && self.lease.is_none_or(|(until, _)| until > now)
            && task.cpus <= self.slots
            && self.used + task.cpus <= self.room()
            && task.tags.iter().all(|tag| self.tags.contains(&**tag))
            && (self.unfit.is_empty() || !self.unfit.contains(&(task.program.digest.clone(), task.activity)))
    }

    fn begin_pending(&mut self) {
        if self.orders.is_some() {
            let (wait, begin): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.pending).into_iter().partition(|(out, _)| out.paused == Some(true));
            self.pending = wait;
            begin.into_iter().for_each(|(out, _)| self.begin(out));
        }
    }

    fn begin(&mut self, out: Out) {
        let Some(orders) = &self.orders else { return };
        let task = &out.task;
        // A link that broke in this moment tells so; then the attempt is not known to the worker, and lost.
        let _ = orders.send(Order::Program(task.program.clone()));
        let _ = orders.send(Order::Job(task.job.clone()));
        self.used += task.cpus;
        self.has.insert(task.key.clone(), out);
    }

    fn give_back(&mut self, key: &Key) -> Option<Task> {
        let task = self.has.remove(key)?.task;
        self.used = self.used.saturating_sub(task.cpus);
        Some(task)
    }
}
