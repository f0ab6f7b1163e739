//! A simulated worker: the attempt table of the product, a disk for answers, and running activities.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use xavantes_activity_manager::attempts::admission::Resources;
use xavantes_activity_manager::attempts::attempt_table::AttemptTable;
use xavantes_activity_manager::attempts::realm_attempt::RealmAttempt;
use xavantes_proto::v1;

use crate::simulated_machine::SimulatedNode;

/// What an activity does beside its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    /// Fails at times.
    Work,
    /// Does not end at times.
    Endless,
    /// Fails often, and is held then.
    Fragile,
    /// Fails only if a call of it fails.
    Sturdy,
}

impl ActivityKind {
    /// The kind of the activity type of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "Limited" | "Endless" => Self::Endless,
            "Fragile" => Self::Fragile,
            "Sturdy" => Self::Sturdy,
            _ => Self::Work,
        }
    }
}

/// An activity that is ready to run.
#[derive(Debug)]
pub struct SimJob {
    pub key: RealmAttempt,
    pub path: String,
    pub kind: ActivityKind,
    /// Upper bound on its duration.
    pub timeout_ms: Option<u64>,
    /// First parameter.
    pub number: i64,
    /// Shared objects among the parameters: a counter and a log.
    pub objects: [Option<v1::SharedReference>; 2],
}

/// An activity that runs.
#[derive(Debug)]
pub struct RunningActivity {
    pub job: Arc<SimJob>,
    /// Calls that were answered.
    pub calls: u64,
    /// Ticket of the call that waits for a reply.
    pub ticket: Option<u64>,
    pub stop: bool,
    pub timed_out: bool,
    pub fails: bool,
    /// It does not end before it is stopped.
    pub hangs: bool,
    /// Upper bound on the time between two steps.
    pub pace: u64,
    pub began: u64,
}

/// A record for the disk.
#[derive(Debug)]
pub enum DiskRecord {
    /// The answer of an attempt, with the coordinator that gets it.
    Answer(RealmAttempt, Arc<str>, Arc<v1::Answer>),
    Forgotten(RealmAttempt),
}

/// The part of a worker that a crash erases.
#[derive(Debug)]
pub struct WorkerMemory {
    pub table: AttemptTable<Arc<SimJob>>,
    /// Stream of each coordinator.
    pub outboxes: BTreeMap<Arc<str>, usize>,
    /// Digests of known programs.
    pub programs: BTreeSet<String>,
    pub writes: VecDeque<DiskRecord>,
    /// How many of the writes are under way.
    pub writing: usize,
    /// By the number of the execution.
    pub running: BTreeMap<u64, RunningActivity>,
    /// It takes no new attempts, and leaves when it is idle.
    pub draining: bool,
}

/// A worker.
#[derive(Debug)]
pub struct SimWorker {
    pub machine: SimulatedNode,
    pub slots: u32,
    pub queue: u32,
    /// Unacknowledged answers, with the coordinators that get them.
    pub disk: BTreeMap<RealmAttempt, (Arc<str>, Arc<v1::Answer>)>,
    pub memory: WorkerMemory,
    /// It does nothing with its attempts, even after a restart.
    pub silent: bool,
}

impl WorkerMemory {
    pub fn new(slots: u32, queue: u32) -> Self {
        Self {
            table: AttemptTable::new(Resources::slots(slots), queue as usize),
            outboxes: BTreeMap::new(),
            programs: BTreeSet::new(),
            writes: VecDeque::new(),
            writing: 0,
            running: BTreeMap::new(),
            draining: false,
        }
    }
}

impl SimWorker {
    pub fn new(machine: SimulatedNode, slots: u32, queue: u32) -> Self {
        Self { machine, slots, queue, disk: BTreeMap::new(), memory: WorkerMemory::new(slots, queue), silent: false }
    }

    pub fn write(&mut self, record: DiskRecord) {
        match record {
            DiskRecord::Answer(key, owner, answer) => drop(self.disk.insert(key, (owner, answer))),
            DiskRecord::Forgotten(key) => drop(self.disk.remove(&key)),
        }
    }
}
