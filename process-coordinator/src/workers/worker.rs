//! One worker, or another coordinator, as the pool knows it: what it has, what it can do, how fast it is. Without I/O, clock
//! or threads.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::v1;

use super::pool::{Effect, Order, Peer, Unsettled};
use crate::attempt::{AttemptKey, Needs, Task};
use crate::data::locations::Replicas;

/// A worker has so much ahead as it does in this time.
const AHEAD: Duration = Duration::from_millis(100);
/// How fast a worker is, is measured over such times, and so many answers for each of its slots: they may come all at once.
const PACE_OVER: Duration = Duration::from_millis(5);
const PACE_ANSWERS: u32 = 4;
/// Before that is known it has so much ahead for each slot.
const FIRST_AHEAD: u32 = 8;
/// If they do not come for so long it is slow. Then what waits at it is wanted back when others have room, so often.
pub const SLOW: Duration = Duration::from_secs(1);

/// An attempt that was handed out, or is about to be, and what its process wants of it since.
#[derive(Debug, Clone)]
pub struct Out {
    pub task: Task,
    pub stop: bool,
    /// Of a subtree: the last that was said.
    pub paused: Option<bool>,
    pub ask: Ask,
    /// It was handed out by a former coordinator, or in a former life.
    pub adopted: bool,
    /// Of a subtree: the epoch of it where it is noted.
    pub epoch: u64,
}

/// Of a subtree: whether it is known to be where it is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// It is.
    No,
    /// Whoever has it is asked when the place is recorded. That fails if another coordinator has the process by now, which
    /// must not lose the subtree to this one.
    WhenRecorded,
    /// Whoever has it was not asked yet, or did not answer.
    Yes,
}

impl Out {
    pub fn new(task: Task) -> Self {
        Self { task, stop: false, paused: None, ask: Ask::No, adopted: false, epoch: 0 }
    }
}

/// How many answers a worker gives in a second, while it has something to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Since when it has something to do, or it was last looked how long that is.
    pub since: Option<Duration>,
    /// For so long it had something to do, and gave so many answers meanwhile.
    pub busy: Duration,
    pub answers: u32,
    pub rate: Option<f64>,
}

impl Pace {
    /// It has something to do, or nothing.
    pub fn work(&mut self, works: bool, now: Duration) {
        self.busy += self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.since = works.then_some(now);
    }

    /// It has so many slots, and has given so many answers.
    pub fn count(&mut self, answers: usize, slots: u32) {
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
pub struct Lease {
    pub until: Duration,
    pub slots: u32,
    /// It was asked for longer.
    pub renewing: bool,
}

#[derive(Debug)]
pub struct Worker {
    pub peer: Peer,
    pub address: String,
    pub connected: bool,
    pub slots: u32,
    pub queue: u32,
    pub memory: u64,
    pub gpus: u32,
    pub tags: HashSet<String>,
    /// Files that it has.
    pub holdings: Replicas,
    pub interpreters: HashSet<String>,
    pub containers: bool,
    /// Attempts that it has.
    pub has: BTreeMap<AttemptKey, Out>,
    pub used: Used,
    pub pace: Pace,
    /// Activity types that it will never run.
    pub unfit: HashSet<(String, u32)>,
    pub draining: bool,
    pub full_until: Option<Duration>,
    pub silent_since: Option<Duration>,
    /// Of another group.
    pub lease: Option<Lease>,
    /// A borrowed one that is not remembered yet gets nothing.
    pub remembered: bool,
    /// Subtrees that wait for the connection, or for the end of a pause, since when.
    pub pending: Vec<(Out, Duration)>,
    /// Of a coordinator: it may have something of ours, or keep answers that it does not know to be recorded.
    pub owes: bool,
}

/// What the attempts that a worker has take of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    pub cpus: u32,
    pub memory: u64,
    pub gpus: u32,
}

impl Used {
    pub fn add(&mut self, needs: &Needs) {
        self.cpus += needs.cpus;
        self.memory = self.memory.saturating_add(needs.memory);
        self.gpus += needs.gpus;
    }

    pub fn subtract(&mut self, needs: &Needs) {
        self.cpus = self.cpus.saturating_sub(needs.cpus);
        self.memory = self.memory.saturating_sub(needs.memory);
        self.gpus = self.gpus.saturating_sub(needs.gpus);
    }
}

/// A requirement that a worker does not meet. The order is that of how hard it is to meet, hardest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    Interpreter(Arc<str>),
    Tag(Arc<str>),
    Containers,
    Gpus(u32),
    Memory(u64),
    Slots(u32),
}

impl From<Lack> for v1::Requirement {
    fn from(lack: Lack) -> Self {
        use v1::requirement::Kind;
        match lack {
            Lack::Interpreter(language) => Kind::Interpreter(language.to_string()),
            Lack::Tag(tag) => Kind::Tag(tag.to_string()),
            Lack::Containers => Kind::Containers(v1::Nothing {}),
            Lack::Gpus(count) => Kind::Gpus(count),
            Lack::Memory(bytes) => Kind::MemoryBytes(bytes),
            Lack::Slots(count) => Kind::Slots(count),
        }
        .into()
    }
}

impl Worker {
    /// How well it suits a task that it can take: one of the own group first; of those with a free slot the one to which
    /// fewest bytes must move, so that no slot stays free for the sake of files; then the one with most room.
    pub fn worth(&self, task: &Task) -> (bool, bool, u64, i64) {
        let (free, bytes) = match task.files.is_empty() {
            true => (false, 0),
            false => (self.used.cpus + task.needs.cpus <= self.slots, self.holdings.bytes(&self.address, &task.files)),
        };
        (self.lease.is_none(), free, bytes, i64::from(self.room()) - i64::from(self.used.cpus))
    }

    /// How much it may have: its slots and what it does in a moment; of a borrowed one the slots that were lent.
    pub fn room(&self) -> u32 {
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
    pub fn has_room(&self, now: Duration) -> bool {
        self.connected
            && self.peer == Peer::Worker
            && !self.draining
            && self.remembered
            && self.full_until.is_none_or(|until| until <= now)
            && self.lease.is_none_or(|lease| lease.until > now)
            && self.used.cpus < self.room()
    }

    pub fn fits(&self, task: &Task, now: Duration) -> bool {
        self.has_room(now)
            && self.lacks(&task.needs).is_none()
            && self.used.cpus + task.needs.cpus <= self.room()
            && self.used.memory.saturating_add(task.needs.memory) <= self.memory
            && self.used.gpus.saturating_add(task.needs.gpus) <= self.gpus
            && (self.unfit.is_empty() || !self.unfit.contains(&(task.program.digest.clone(), task.job.activity)))
    }

    /// What it would need to have to run this at all.
    pub fn lacks(&self, needs: &Needs) -> Option<Lack> {
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

    pub fn begin(&mut self, name: &Arc<str>, out: Out, epoch: u64, effects: &mut Vec<Effect>) {
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
    pub fn adopt(
        &mut self,
        name: &Arc<str>,
        keys: impl Iterator<Item = AttemptKey>,
        unsettled: &mut BTreeMap<Arc<str>, Unsettled>,
        effects: &mut Vec<Effect>,
    ) {
        for key in keys {
            let found = unsettled.get_mut(&key.process).and_then(|unsettled| unsettled.attempts.remove(&key));
            let Some(out) = found else { continue };
            if out.stop {
                effects.push(Effect::Order(name.clone(), Order::Cancel(key.clone())));
            }
            self.used.add(&out.task.needs);
            self.has.insert(key, Out { adopted: true, ..out });
        }
    }

    pub fn give_back(&mut self, key: &AttemptKey) -> Option<Out> {
        let out = self.has.remove(key)?;
        self.used.subtract(&out.task.needs);
        Some(out)
    }
}
