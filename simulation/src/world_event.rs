//! The events of a world, and the order in which they happen.

use std::cmp::Ordering;
use std::sync::Arc;

use xavantes_process_coordinator::process::journal::Origin;
use xavantes_proto::AttemptKey;

use crate::call_request::{CallAnswer, CallRequest, ReplyTo};
use crate::coordinator::state::AfterWrite;
use crate::simulated_machine::NodeRef;
use crate::store::StoreRefusal;
use crate::stream::Side;

/// A task of a node. It dies with the life of the node.
#[derive(Debug)]
pub enum NodeTask {
    /// Sends the messages that wait at this end of a stream.
    Flush(usize, Side),
    /// Worker: records have reached the disk.
    Persisted,
    /// Worker: an execution goes on.
    Step(u64),
    /// Worker: an execution reaches its time-out.
    TimedOut(u64),
    /// Worker: reports the attempts that run to the coordinator of a stream.
    ReportRunning(usize),
    /// Worker: it drains, and leaves when it is idle. It stops its activities at this time.
    Leave(u64),
    /// Coordinator: the pool reads its mail.
    Pool,
    /// Coordinator: the pool gets a tick.
    PoolTick,
    Roster,
    TakeOver,
    RenewLease,
    Connect(Arc<str>, u64),
    FindPlace(AttemptKey),
    /// Coordinator: the group manager answers a request for a worker of another group, or for a longer lease.
    Borrow(Option<Arc<str>>),
    /// Coordinator: stores the name and address of a borrowed worker.
    StoreLease(Arc<str>, String),
    /// Coordinator: makes sure that it still owns its processes, then uses this borrowed worker.
    ConfirmLease(Arc<str>),
    /// Coordinator: looks for subtrees that moved and have ended.
    EndMoved,
    /// Coordinator: a process reads its mail.
    Wake(Arc<str>, u64),
    /// Coordinator: a process writes its journal.
    Record(Arc<str>, u64),
    /// Coordinator: a process reaches its deadline.
    Timer(Arc<str>, u64),
    /// Coordinator: a process passes its turn on, if it has done nothing since this time.
    PassTurn(Arc<str>, u64, u64),
    /// Coordinator: cancels a held process.
    CancelHeld(Arc<str>),
    /// Coordinator: the store answers a write.
    Stored(AfterWrite, Result<(), StoreRefusal>),
    /// Coordinator: a process repeats a write.
    WriteAgain(Arc<str>, u64),
    ReportPlace(Origin, u64),
    /// Coordinator: the answer to the report of a move with this ticket.
    MoveAnswered(u64, CallAnswer),
    Discard(Arc<str>),
}

/// The next action of a user; users have numbers.
#[derive(Debug)]
pub enum UserAction {
    Submit(usize),
    Steer(usize),
    /// Retry what is held, and give up subtrees whose process is damaged.
    Rescue(usize),
    /// An answer arrives to the request with this ticket.
    Answered(u64, CallAnswer),
}

/// An event.
#[derive(Debug)]
pub enum WorldEvent {
    /// A task of a node in this life.
    Node(NodeRef, u32, NodeTask),
    /// A message arrives at this end of a stream.
    Deliver(usize, Side),
    /// No message reaches this end any more.
    Cut(usize, Side),
    /// This end notices that the stream has ended.
    NoticeEnd(usize, Side),
    /// The next write of a coordinator in this life reaches the store.
    Commit(usize, u32),
    /// A request, with the life of a frozen node that it waits for.
    Call(NodeRef, Box<CallRequest>, ReplyTo, Option<u32>),
    User(UserAction),
    Start(NodeRef),
    /// A node crashes, if it is still in this life.
    Crash(NodeRef, u32),
    Fault(Fault),
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    CrashCoordinator,
    CrashWorker,
    FreezeCoordinator,
    FreezeWorker,
    BreakStream,
    Partition,
    PartitionGroups,
    CutStore,
    DrainWorker,
    /// A worker accepts attempts from now on, and does nothing with them.
    SilenceWorker,
    /// A coordinator crashes, and its store loses records of a process.
    DamageStore,
}

impl Fault {
    pub const ALL: [Self; 11] = [
        Self::CrashCoordinator,
        Self::CrashWorker,
        Self::FreezeCoordinator,
        Self::FreezeWorker,
        Self::BreakStream,
        Self::Partition,
        Self::PartitionGroups,
        Self::CutStore,
        Self::DrainWorker,
        Self::SilenceWorker,
        Self::DamageStore,
    ];
}

/// A moment at which a crash may be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// A coordinator sends a write to its store.
    StoreWrite,
    /// The store has made a write.
    StoreCommit,
    /// Answers arrive at a coordinator.
    AnswerArrival,
    /// A worker begins to write an answer to its disk.
    AnswerWrite,
    /// An answer is on the disk of a worker.
    AnswerPersisted,
}

/// An event with its time. Events of the same time happen in the order of their numbers.
#[derive(Debug)]
pub struct ScheduledEvent {
    pub time: u64,
    pub number: u64,
    pub event: WorldEvent,
}

impl Ord for ScheduledEvent {
    /// The earliest event is the greatest, because a binary heap gives its greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ScheduledEvent {}
