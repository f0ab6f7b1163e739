//! A simulated coordinator: its memory, its writes, and the pure cores of the product in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use xavantes_process_coordinator::handover::SubtreePlace;
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::effect::{EffectBatch, ProcessEffect};
use xavantes_process_coordinator::process::ended_summary::Summary;
use xavantes_process_coordinator::process::journal::{Head, Origin};
use xavantes_process_coordinator::process::memory_budget::{Memory, ProcessMemory};
use xavantes_process_coordinator::subtrees::parent_links::{ParentAttempt, ParentLinks};
use xavantes_process_coordinator::workers::peer_report::ProcessAnswers;
use xavantes_process_coordinator::workers::pool::Pool;
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::Share;
use xavantes_proto::AttemptKey;
use xavantes_proto::v1;

use crate::call_request::ReplyTo;
use crate::simulated_machine::SimulatedNode;
use crate::state_budgets::Budgets;
use crate::store::{StoreChange, StoreSession};

/// The driver of a process. Connections are numbers of streams.
pub type SimDriver = Driver<usize, ReplyTo>;
/// An input of a process.
pub type SimInput = ProcessInput<usize, ReplyTo>;
/// An effect of a process.
pub type SimEffect = ProcessEffect<usize, ReplyTo>;

/// Mail for the pool.
#[derive(Debug)]
pub enum SimPoolMail {
    Input(PoolInput),
    /// Answers and calls of a peer, which go on to their processes afterwards.
    Reported(Box<SimReport>),
    Moved(AttemptKey, SubtreePlace, ReplyTo),
    /// With the stream of the peer.
    Connected(Arc<str>, v1::WorkerHello, usize),
    /// With the time since which no message of the peer could arrive.
    Disconnected(Arc<str>, u64),
}

/// Answers and calls that a peer sent by a stream.
#[derive(Debug)]
pub struct SimReport {
    pub peer: Arc<str>,
    pub stream: usize,
    pub answered: Vec<AttemptKey>,
    pub answers: Vec<ProcessAnswers<usize, ReplyTo>>,
    pub calls: Vec<v1::SharedCall>,
}

/// Mail for a process.
#[derive(Debug)]
pub enum SimProcessMail {
    Input(SimInput),
    /// With the stream that waits for the reply.
    Called(v1::SharedCall, usize),
}

/// A connection that the pool wants.
#[derive(Debug)]
pub struct SimLink {
    pub number: u64,
    pub address: String,
    /// Pause before the next attempt to connect.
    pub pause: u64,
    /// Stream that the link opened.
    pub stream: Option<usize>,
    /// Stream for the orders of the pool, once the peer has said hello.
    pub orders: Option<usize>,
}

/// A process that runs at a coordinator.
#[derive(Debug)]
pub struct SimRunner {
    pub number: u64,
    pub driver: SimDriver,
    pub head: Head,
    /// Clock of the engine when the process began to run here.
    pub engine_began: u64,
    /// Clock of the machine when the process began to run here.
    pub machine_began: Duration,
    pub parent: Option<ParentAttempt>,
    pub mail: VecDeque<SimProcessMail>,
    /// A task that reads the mail is scheduled.
    pub awake: bool,
    /// The share of the pool has changed.
    pub share_changed: bool,
    /// Answers that the process took since its last record.
    pub taken: Vec<AttemptKey>,
    /// EffectBatch that is being written, and the answers that it records.
    pub writing: Option<(EffectBatch<usize, ReplyTo>, Vec<AttemptKey>)>,
    /// Summary that is being written.
    pub ending: Option<Summary>,
    /// Time of the next timer.
    pub timer: u64,
    pub memory: ProcessMemory,
    /// It has run, here or before.
    pub begun: bool,
    /// It waits for memory.
    pub waits: bool,
    /// When it last did something while it had the turn to go on without memory; 0 if it has not had the turn.
    pub last_work: u64,
}

impl SimRunner {
    pub fn new(
        number: u64,
        driver: SimDriver,
        head: Head,
        (engine_began, machine_began): (u64, Duration),
        parent: Option<ParentAttempt>,
        (memory, begun): (Arc<Memory>, bool),
    ) -> Self {
        Self {
            number,
            driver,
            head,
            engine_began,
            machine_began,
            parent,
            mail: VecDeque::new(),
            awake: false,
            share_changed: true,
            taken: Vec::new(),
            writing: None,
            ending: None,
            timer: u64::MAX,
            memory: ProcessMemory::new(memory, begun),
            begun,
            waits: false,
            last_work: 0,
        }
    }

    /// The engine's clock when the machine's shows `clock`.
    pub fn engine_clock(&self, clock: Duration) -> u64 {
        self.engine_began + clock.saturating_sub(self.machine_began).as_millis() as u64
    }
}

/// The part of a coordinator that a crash erases.
#[derive(Debug, Default)]
pub struct CoordinatorMemory {
    pub budgets: Budgets,
    pub pool: Pool,
    pub pool_mail: VecDeque<SimPoolMail>,
    /// A task that reads the mail of the pool is scheduled.
    pub pool_awake: bool,
    pub share: Share,
    pub links: BTreeMap<Arc<str>, SimLink>,
    pub runners: BTreeMap<Arc<str>, SimRunner>,
    /// Processes of other coordinators, and the answers that arrived here for them, with their streams.
    pub foreign: BTreeMap<Arc<str>, Vec<(usize, AttemptKey)>>,
    /// Those of them of which workers run attempts for this coordinator.
    pub foreign_running: BTreeSet<Arc<str>>,
    /// Those of them that no coordinator runs, because they are damaged or exceed the budget.
    pub held: BTreeSet<Arc<str>>,
    /// Claimed processes that could not be read yet.
    pub unread: Vec<Arc<str>>,
    pub parents: ParentLinks<usize, usize>,
    /// Reports of moves that wait for an answer, by ticket: the origin of the subtree, and its epoch.
    pub move_reports: BTreeMap<u64, (Origin, u64)>,
}

/// A write on its way to the store.
#[derive(Debug)]
pub struct PendingStoreWrite {
    pub change: StoreChange,
    pub after: AfterWrite,
}

/// What the answer to a write is about.
#[derive(Debug)]
pub enum AfterWrite {
    Started(Box<StartingProcess>),
    Recorded(Arc<str>, u64),
    Closed(Arc<str>, u64),
    /// An ended process runs again.
    Reopened(Arc<str>, ReplyTo),
    /// The subtree is closed, and the store may forget it.
    Discarded(Arc<str>),
    Forgotten(Arc<str>),
    /// A borrowed worker may get attempts.
    LeaseStored(Arc<str>, String),
    LeaseDeleted,
    /// A held process was cancelled.
    HeldCancelled(Arc<str>),
}

/// A process that starts when the store has it.
#[derive(Debug)]
pub struct StartingProcess {
    pub id: Arc<str>,
    pub driver: SimDriver,
    pub head: Head,
    /// With the stream that the subtree arrived by.
    pub parent: Option<(ParentAttempt, usize)>,
    pub reply: Option<ReplyTo>,
}

/// A coordinator.
#[derive(Debug)]
pub struct SimCoordinator {
    pub machine: SimulatedNode,
    /// Number of its store.
    pub store: usize,
    pub session: StoreSession,
    pub store_cut_until: u64,
    pub writes: VecDeque<PendingStoreWrite>,
    /// Time of the last commit.
    pub last_commit: u64,
    pub memory: CoordinatorMemory,
}

impl SimCoordinator {
    pub fn new(machine: SimulatedNode, store: usize) -> Self {
        Self {
            machine,
            store,
            session: StoreSession::default(),
            store_cut_until: 0,
            writes: VecDeque::new(),
            last_commit: 0,
            memory: CoordinatorMemory::default(),
        }
    }
}
