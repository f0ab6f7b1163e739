//! One worker, or another coordinator, as the pool knows it: what it offers, which files it has, and how well it suits a
//! task. The attempts that it has, and the resources that they use, are in the attempt table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use super::pace::Pace;
use super::pool_attempts::{PeerIndex, PoolAttempt, PoolAttemptState, UsedResources};
use super::window::Window;
use crate::data::locations::Replicas;
use crate::task::{Needs, Task};
use crate::workers::worker_messages::PeerKind;

/// A worker gets as many attempts ahead of its slots as it answers in this time.
const AHEAD_TIME: Duration = Duration::from_millis(100);
/// Attempts of short types ahead for each slot of a worker whose pace is not known yet.
const INITIAL_AHEAD_PER_SLOT: u32 = 8;

/// Upper bound on the time that a worker says it gives programs to end.
const MAX_GRACE: Duration = Duration::from_secs(3600);

/// The right to use some slots of a worker of another group.
#[derive(Debug, Clone, Copy)]
pub struct WorkerLease {
    pub until: Duration,
    pub slots: u32,
    /// When the pool asks for a longer lease, if it needs one.
    pub renew_at: Duration,
}

/// What a peer offers, as its hello says.
#[derive(Debug, Default)]
pub struct Offer {
    pub slots: u32,
    /// Attempts that the worker takes ahead of its slots.
    pub queue: u32,
    pub memory: u64,
    pub gpus: u32,
    pub tags: HashSet<String>,
    pub interpreters: HashSet<String>,
    pub containers: bool,
    /// Time that programs get to end when the worker stops them.
    pub grace: Duration,
}

/// A worker or another coordinator.
#[derive(Debug)]
pub struct Peer {
    pub kind: PeerKind,
    /// Position of the peer in the attempt table.
    pub index: PeerIndex,
    pub address: String,
    pub connected: bool,
    /// Since when the peer has not been connected.
    pub silent_since: Option<Duration>,
    pub offer: Offer,
    /// Files that the peer has, as far as the pool knows.
    pub holdings: Replicas,
    pub pace: Pace,
    /// How much the worker may have at once.
    pub window: Window,
    /// Slots that attempts of other coordinators had when the worker last reported.
    pub slots_of_others: u32,
    /// When the worker last reported what it runs.
    pub reported_at: Duration,
    /// According to the last report, attempts have waited at the worker for too long.
    pub attempts_wait: bool,
    /// Time for which this coordinator did not read the reports of the peer, since the pool last looked for attempts that do
    /// not move.
    pub unheard: Duration,
    /// Why the worker takes no new attempts for now.
    pub impaired: Option<v1::ImpairmentReason>,
    /// Activity types that the worker refuses permanently: digest of the program, number of the activity.
    pub unfit: HashSet<(String, u32)>,
    /// The worker takes no new attempts.
    pub draining: bool,
    /// Until when the pool sends nothing, because the worker refused an attempt.
    pub full_until: Option<Duration>,
    /// Present for workers of other groups.
    pub lease: Option<WorkerLease>,
    /// The lease, if any, is stored. A worker whose lease is not stored gets no attempts.
    pub lease_stored: bool,
    /// The peer may have attempts of this coordinator, or answers that it does not know to be recorded.
    pub owes: bool,
    /// When the peer connected last.
    pub connected_at: Duration,
    /// Claims that were sent by this connection and have no answer yet, by process.
    unanswered_claims: HashMap<Arc<str>, u32>,
}

/// A requirement that a worker does not meet. Ordered from the hardest to meet to the easiest.
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

/// How well a worker suits a task, compared field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suitability {
    /// The worker has free slots for the task: no slot stays free while the task waits behind a busy one.
    free_slot: bool,
    /// The worker belongs to the local group.
    local_group: bool,
    /// Bytes that need not move to the worker.
    bytes_present: u64,
    free_capacity: i64,
}

impl Peer {
    /// A peer that is not connected yet.
    pub fn new(kind: PeerKind, index: PeerIndex, address: String, now: Duration) -> Self {
        Self {
            kind,
            index,
            address,
            connected: false,
            silent_since: Some(now),
            offer: Offer::default(),
            holdings: Replicas::default(),
            pace: Pace::default(),
            window: Window::default(),
            slots_of_others: 0,
            reported_at: now,
            attempts_wait: false,
            unheard: Duration::ZERO,
            impaired: None,
            unfit: HashSet::new(),
            draining: false,
            full_until: None,
            lease: None,
            lease_stored: true,
            owes: false,
            connected_at: now,
            unanswered_claims: HashMap::new(),
        }
    }

    /// The peer connects and says what it offers and which files it has.
    pub fn on_hello(&mut self, hello: &mut v1::WorkerHello, now: Duration) {
        self.connected = true;
        self.connected_at = now;
        self.silent_since = None;
        self.offer = Offer {
            slots: hello.slots,
            queue: hello.queue,
            memory: hello.memory,
            gpus: hello.gpus,
            tags: std::mem::take(&mut hello.tags).into_iter().collect(),
            interpreters: std::mem::take(&mut hello.interpreters).into_iter().collect(),
            containers: hello.containers,
            grace: Duration::from_millis(hello.grace_ms).min(MAX_GRACE),
        };
        self.holdings = Replicas::default();
        self.holdings.add(hello.holds.iter().filter_map(|bytes| Digest::from_bytes(bytes)));
        self.draining = false;
        self.impaired = None;
        (self.slots_of_others, self.attempts_wait) = (0, false);
        self.unfit.clear();
        self.unanswered_claims.clear();
    }

    /// A claim of this process was sent to the peer.
    pub fn on_claim_sent(&mut self, process: &Arc<str>) {
        *self.unanswered_claims.entry(process.clone()).or_default() += 1;
    }

    /// The peer answered a claim of this process. True if the answer is to the latest claim: an answer to an earlier one
    /// leaves out what the peer got since.
    pub fn on_claim_answered(&mut self, process: &str) -> bool {
        match self.unanswered_claims.get_mut(process) {
            Some(unanswered) if *unanswered > 1 => {
                *unanswered -= 1;
                false
            }
            Some(_) => self.unanswered_claims.remove(process).is_some(),
            None => false,
        }
    }

    /// Whether the peer may call shared objects for an attempt. A subtree may have moved without the pool knowing, and after a
    /// recovery any worker may have an attempt.
    pub fn may_speak_for(&self, attempt: Option<&PoolAttempt>) -> bool {
        attempt.is_some_and(|attempt| match attempt.state() {
            PoolAttemptState::Assigned { peer, .. } => {
                *peer == self.index || (self.kind == PeerKind::Coordinator && attempt.task.job.subtree.is_some())
            }
            PoolAttemptState::Unsettled => true,
            PoolAttemptState::Queued
            | PoolAttemptState::Placing { .. }
            | PoolAttemptState::AwaitingConnection { .. } => false,
        })
    }

    /// The connection to the peer broke, or has to be opened at another address.
    pub fn on_disconnected(&mut self, now: Duration) {
        self.connected = false;
        self.silent_since = Some(now);
    }

    pub fn is_connected_worker(&self) -> bool {
        self.connected && self.kind == PeerKind::Worker
    }

    /// How well the worker suits a task that fits.
    pub fn suitability(&self, task: &Task, used: &UsedResources) -> Suitability {
        let bytes_present = match task.files.is_empty() {
            true => 0,
            false => self.holdings.bytes(&self.address, &task.files),
        };
        Suitability {
            free_slot: task.needs.cpus.max(1) <= self.free_slots(used),
            local_group: self.lease.is_none(),
            bytes_present,
            free_capacity: i64::from(self.capacity()) - i64::from(used.cpus),
        }
    }

    /// How many slots' worth of attempts the worker may have: its slots and what it answers in a moment; for a borrowed
    /// worker the slots of the lease. Never more than its window.
    pub fn capacity(&self) -> u32 {
        self.offered_capacity().min(self.window.slots())
    }

    fn offered_capacity(&self) -> u32 {
        let slots = self.slots();
        if self.lease.is_some() {
            return slots;
        }
        let ahead = self.pace.expected_in(AHEAD_TIME).unwrap_or(slots.saturating_mul(INITIAL_AHEAD_PER_SLOT));
        slots.saturating_add(ahead.min(self.offer.queue))
    }

    /// The slots that this coordinator may use: all, or those of the lease.
    pub fn slots(&self) -> u32 {
        self.lease.map_or(self.offer.slots, |lease| lease.slots.min(self.offer.slots))
    }

    /// Slots without work, of this or any other coordinator, as far as the pool knows.
    pub fn free_slots(&self, used: &UsedResources) -> u32 {
        let unoccupied = self.offer.slots.saturating_sub(self.slots_of_others);
        self.slots().min(unoccupied).saturating_sub(used.cpus)
    }

    /// Whether the worker has a free slot that this coordinator may use now.
    pub fn has_free_slot(&self, used: &UsedResources, now: Duration) -> bool {
        self.has_capacity(used, now) && self.free_slots(used) > 0
    }

    /// Whether the worker may get any attempt now.
    pub fn has_capacity(&self, used: &UsedResources, now: Duration) -> bool {
        self.is_connected_worker()
            && !self.draining
            && self.impaired.is_none()
            && self.window.is_open(now)
            && self.lease_stored
            && self.full_until.is_none_or(|until| until <= now)
            && self.lease.is_none_or(|lease| lease.until > now)
            && used.cpus < self.capacity()
    }

    /// Whether the worker may get this task now. A task that is not short gets a slot of its own.
    pub fn fits(&self, task: &Task, short: bool, used: &UsedResources, now: Duration) -> bool {
        let needs = &task.needs;
        self.has_capacity(used, now)
            && self.lacks(needs).is_none()
            && self.has_room_for(needs.cpus, short, used.cpus)
            && used.memory.saturating_add(needs.memory) <= self.offer.memory
            && used.gpus.saturating_add(needs.gpus) <= self.offer.gpus
            && (self.unfit.is_empty() || !self.unfit.contains(&(task.program.digest.clone(), task.job.activity)))
    }

    /// Whether this number of slots fits beside those in use. An activity that is larger than the window of the worker gets it
    /// for itself.
    fn has_room_for(&self, slots: u32, short: bool, used: u32) -> bool {
        let capacity = if used == 0 { self.offered_capacity() } else { self.capacity() };
        let capacity = if short { capacity } else { capacity.min(self.slots()) };
        used.saturating_add(slots) <= capacity
    }

    /// The first requirement that keeps the worker from ever running an activity with these needs.
    pub fn lacks(&self, needs: &Needs) -> Option<Lack> {
        let offer = &self.offer;
        if let Some(language) = needs.language.as_ref().filter(|language| !offer.interpreters.contains(&***language)) {
            return Some(Lack::Interpreter(language.clone()));
        }
        if let Some(tag) = needs.tags.iter().find(|tag| !offer.tags.contains(&***tag)) {
            return Some(Lack::Tag(tag.clone()));
        }
        match () {
            () if needs.container && !offer.containers => Some(Lack::Containers),
            () if needs.gpus > offer.gpus => Some(Lack::Gpus(needs.gpus)),
            () if needs.memory > offer.memory => Some(Lack::Memory(needs.memory)),
            () if needs.cpus > offer.slots => Some(Lack::Slots(needs.cpus)),
            () => None,
        }
    }
}
