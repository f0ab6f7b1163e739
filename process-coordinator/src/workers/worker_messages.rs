//! What the pool exchanges with the rest of the coordinator: commands to carry out, orders to peers, notices to
//! processes, and answers to questions about attempts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::v1;

use crate::handover::SubtreePlace;
use xavantes_proto::AttemptKey;

/// The role of the node at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerKind {
    /// An activity manager, which runs activities.
    Worker,
    /// Another coordinator, which runs subtrees.
    Coordinator,
}

/// Something that the dispatcher carries out for the pool.
#[derive(Debug, Clone)]
pub enum PoolCommand {
    /// Open a connection to the peer of this name at this address, and reopen it when it breaks.
    Connect(Arc<str>, PeerKind, String),
    /// Close the connection to this peer.
    Disconnect(Arc<str>),
    /// Send an order to a connected peer.
    Send(Arc<str>, Order),
    /// Notify the process of an attempt.
    Notify(AttemptKey, PoolNotice),
    /// Ask the group manager for a coordinator that takes this subtree; [`Pool::on_place_found`] follows. With the groups that
    /// lend workers which have nothing to do.
    ///
    /// [`Pool::on_place_found`]: super::pool::Pool::on_place_found
    FindPlace(AttemptKey, Vec<String>),
    /// Ask other groups for a worker that meets one of these needs; [`Pool::on_borrowed`] follows.
    ///
    /// [`Pool::on_borrowed`]: super::pool::Pool::on_borrowed
    Borrow(Vec<v1::ActivityNeeds>),
    /// Ask another group for a longer lease of this worker; [`Pool::on_borrowed`] follows.
    ///
    /// [`Pool::on_borrowed`]: super::pool::Pool::on_borrowed
    Renew(Arc<str>),
    /// Store the name and address of a borrowed worker before it gets work; [`Pool::on_lease_stored`] follows.
    ///
    /// [`Pool::on_lease_stored`]: super::pool::Pool::on_lease_stored
    StoreLease(Arc<str>, String),
    /// Delete the stored name of a borrowed worker.
    DeleteLease(Arc<str>),
    /// Tell a process where its activities are.
    ReportLoad(Arc<str>, PoolLoad),
    /// Report that the pool took this number of attempts back from a worker, which gets nothing for this time.
    ReportSilent(Arc<str>, usize, Duration),
}

/// A message to a peer.
#[derive(Debug, Clone)]
pub enum Order {
    /// A program that jobs refer to.
    Program(Arc<v1::Program>),
    /// An attempt to run.
    Job(Box<v1::Job>),
    /// Stop an attempt.
    Cancel(AttemptKey),
    /// Pause (`true`) or resume (`false`) a subtree.
    Pause(AttemptKey, bool),
    /// The answer to a call of a shared object.
    Reply(v1::SharedReply),
    /// The coordinator has recorded the answer of this attempt.
    Acknowledge(AttemptKey),
    /// This coordinator owns these processes; the peer reports which of their attempts it knows.
    Claim(Vec<v1::Claim>),
    /// A process no longer needs some files that the worker keeps for it.
    Release(Arc<v1::Release>),
    /// Refuse the attempts that have not started yet.
    Recall,
}

/// What the pool reports to the process of an attempt.
#[derive(Debug, Clone)]
pub enum PoolNotice {
    /// The attempt ended without a worker: it was refused, cancelled in time, or too large to send.
    Answered(v1::answer::Outcome),
    /// No peer has the attempt any more.
    Lost(LossReason),
    /// The subtree has a place, which the process records before the pool sends the subtree there.
    Placed(SubtreePlace),
    /// The coordinator of a subtree reports what the subtree is doing.
    Subtree(Box<v1::SubtreeStatus>),
}

/// Why the pool takes an attempt for lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossReason {
    /// The worker that had it was not connected for [`LOST_AFTER`](super::pool::LOST_AFTER).
    WorkerSilent,
    /// The worker that should have it connected again and does not know it.
    UnknownToWorker,
    /// The coordinator that should have the subtree does not know it.
    UnknownToCoordinator,
    /// After a recovery, no worker reported it.
    Unclaimed,
    /// The worker that has it is connected, but neither runs nor answers it.
    NotMoving,
    /// The worker that has it should have stopped it long ago.
    Overdue,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkerSilent => "its worker was silent for too long",
            Self::UnknownToWorker => "its worker does not know it any more",
            Self::UnknownToCoordinator => "the coordinator of its subtree does not know it",
            Self::Unclaimed => "no worker claimed it after the recovery",
            Self::NotMoving => "its worker neither runs nor answers it",
            Self::Overdue => "its worker did not stop it in time",
        })
    }
}

/// How the pool takes the report that a subtree runs at another coordinator now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveOutcome {
    /// No process waits for the subtree.
    Unwanted,
    /// The process is recording the new place.
    Recording,
    /// The process has recorded this place, or a later one.
    Recorded,
}

/// Where an attempt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// A peer has it.
    At {
        /// Name of the worker or coordinator.
        name: Arc<str>,
        /// Address of that peer.
        address: String,
        /// For how long the peer has not been connected.
        silent: Option<Duration>,
        /// For how long the peer has run it, as far as known; nothing if it waits there for a slot.
        runs_for: Option<Duration>,
    },
    /// It is queued, for this reason.
    Waits(v1::WaitReason),
}

/// Where the activities of one process are that this coordinator has handed out. Those that are missing wait for a worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolLoad {
    /// Activities that a slot of a worker runs.
    pub running: u64,
    /// Activities that wait at a worker for a slot.
    pub queued: u64,
    /// If there are neither: why the activities wait.
    pub wait_reason: Option<v1::WaitReason>,
}

/// Addresses of nodes that may know something about an element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vicinity {
    /// Connected workers.
    pub workers: Vec<String>,
    /// Coordinators that got the element or an ancestor of it, the latest first.
    pub coordinators: Vec<String>,
}

/// Upper bounds on the outstanding attempts of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Activities.
    pub room: u64,
    /// Subtrees in total.
    pub delegations: u64,
    /// Subtrees that the process type does not ask to delegate.
    pub auto_delegations: u64,
}
