//! A simulated worker: the attempt table of the product, a disk for answers, and running activities.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use xavantes_activity_manager::attempts::admission::Resources;
use xavantes_activity_manager::attempts::realm_attempt::RealmAttempt;
use xavantes_activity_manager::attempts::table::AttemptTable;
use xavantes_proto::v1;

use crate::machine::Machine;

/// An activity that is ready to run.
#[derive(Debug)]
pub struct SimJob {
    pub key: RealmAttempt,
    pub path: String,
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
    pub fails: bool,
    /// Upper bound on the time between two steps.
    pub pace: u64,
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
}

/// A worker.
#[derive(Debug)]
pub struct SimWorker {
    pub machine: Machine,
    pub slots: u32,
    pub queue: u32,
    /// Unacknowledged answers, with the coordinators that get them.
    pub disk: BTreeMap<RealmAttempt, (Arc<str>, Arc<v1::Answer>)>,
    pub memory: WorkerMemory,
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
        }
    }
}

impl SimWorker {
    pub fn new(machine: Machine, slots: u32, queue: u32) -> Self {
        Self { machine, slots, queue, disk: BTreeMap::new(), memory: WorkerMemory::new(slots, queue) }
    }

    pub fn write(&mut self, record: DiskRecord) {
        match record {
            DiskRecord::Answer(key, owner, answer) => drop(self.disk.insert(key, (owner, answer))),
            DiskRecord::Forgotten(key) => drop(self.disk.remove(&key)),
        }
    }
}
