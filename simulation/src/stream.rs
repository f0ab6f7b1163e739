//! A stream between a coordinator, its client, and a worker or another coordinator, its server.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use xavantes_activity_manager::attempts::realm_attempt::CoordinatorStream;
use xavantes_activity_manager::report_batch::OutgoingReport;
use xavantes_process_coordinator::subtrees::hosted_subtrees::Caller;
use xavantes_process_coordinator::subtrees::parent_order::ParentOrder;
use xavantes_process_coordinator::subtrees::parent_report_batch::ParentReport;
use xavantes_process_coordinator::workers::worker_messages::Order;
use xavantes_proto::v1;

use crate::simulated_machine::NodeRef;

/// One end of a stream; the index of the arrays in [`SimStream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client = 0,
    Server = 1,
}

/// A message on its way to the other end.
#[derive(Debug, Clone)]
pub enum StreamMessage {
    Order(Box<v1::WorkOrder>),
    Report(Box<v1::WorkReport>),
}

/// A step in which a coordinator carries out an order of another one.
#[derive(Debug)]
pub enum OrderStep {
    /// Drop the rest, unless the stream is the newest of its coordinator.
    CheckCurrent,
    CarryOut(ParentOrder),
}

/// The coordinator at the client end, as a coordinator at the server end knows it.
#[derive(Debug, Clone)]
pub struct ParentEnd {
    pub caller: Caller,
    pub hello: v1::CoordinatorHello,
    /// Number of the stream among the streams of the server.
    pub number: u64,
}

/// A stream, as both ends see it. Arrays have an element per [`Side`].
#[derive(Debug)]
pub struct SimStream {
    /// Both nodes, and the lives in which they opened the stream.
    pub ends: [(NodeRef, u32); 2],
    /// Name that the client uses for the server.
    pub name: Arc<str>,
    pub opened: u64,
    /// Messages on their way to each end.
    pub queues: [VecDeque<StreamMessage>; 2],
    /// When the last of these messages arrives.
    pub last: [u64; 2],
    /// No message reaches that end before this time.
    pub stalled: [u64; 2],
    /// No message reaches that end any more.
    pub cut: [bool; 2],
    /// Since when no message reaches the client.
    pub silent_since: Option<u64>,
    /// That end knows that the stream has ended.
    pub closed: [bool; 2],
    pub breaking: bool,
    /// A flush of that end is scheduled.
    pub flushing: [bool; 2],
    /// Client: orders that wait for the next flush.
    pub orders: Vec<Order>,
    /// Client: digests of the programs that the server has.
    pub sent_programs: HashSet<String>,
    /// Worker: reports that wait for the next flush.
    pub worker_reports: Vec<OutgoingReport>,
    /// Worker: the stream, as the attempt table knows it.
    pub coordinator_stream: Option<CoordinatorStream>,
    /// Coordinator as server: reports that wait for the next flush.
    pub parent_reports: Vec<ParentReport>,
    /// Coordinator as server: its client.
    pub parent: Option<ParentEnd>,
    /// Coordinator as server: orders that wait to be carried out.
    pub steps: VecDeque<OrderStep>,
    /// Coordinator as server: the start of a subtree is being stored, and the next order waits for that.
    pub busy: bool,
}

impl SimStream {
    pub fn new(ends: [(NodeRef, u32); 2], name: Arc<str>, opened: u64) -> Self {
        Self {
            ends,
            name,
            opened,
            queues: Default::default(),
            last: [opened; 2],
            stalled: [0; 2],
            cut: [false; 2],
            silent_since: None,
            closed: [false; 2],
            breaking: false,
            flushing: [false; 2],
            orders: Vec::new(),
            sent_programs: HashSet::new(),
            worker_reports: Vec::new(),
            coordinator_stream: None,
            parent_reports: Vec::new(),
            parent: None,
            steps: VecDeque::new(),
            busy: false,
        }
    }
}
