//! Streams between coordinators and those who work for them: ordered, slow, and sometimes broken.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use xavantes_activity_manager::attempts::key::CoordinatorStream;
use xavantes_activity_manager::report_batch::{OutgoingReport, next_report_message};
use xavantes_process_coordinator::subtrees::hosted::Caller;
use xavantes_process_coordinator::subtrees::report_batch::{ParentReport, next_parent_message};
use xavantes_process_coordinator::workers::messages::Order;
use xavantes_process_coordinator::workers::order_batch::{next_order_message, remove_sent_programs};
use xavantes_proto::v1;

use crate::world::{Event, Task, Who, World};

/// One end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client = 0,
    Server = 1,
}

/// Something for the other end.
#[derive(Debug, Clone)]
pub enum Message {
    Order(Box<v1::WorkOrder>),
    Report(Box<v1::WorkReport>),
}

/// A part of an order that a coordinator carries out for another one.
#[derive(Debug)]
pub enum Step {
    /// Only if the stream is the newest.
    Check,
    Acknowledged(Vec<v1::AttemptId>),
    Claims(Vec<v1::Claim>),
    Job(Box<v1::Job>),
    Cancel(v1::AttemptId),
    Pause(v1::PauseOrder),
    Reply(v1::SharedReply),
}

/// A stream, as both ends see it.
#[derive(Debug)]
pub struct Stream {
    pub ends: [(Who, u32); 2],
    /// What the client calls the other end.
    pub name: Arc<str>,
    pub opened: u64,
    /// What is on its way to each end, and when the last of it arrives.
    queues: [VecDeque<Message>; 2],
    last: [u64; 2],
    /// Nothing reaches that end until then.
    stalled: [u64; 2],
    /// Nothing reaches that end any more.
    cut: [bool; 2],
    /// That end knows that it is over.
    pub closed: [bool; 2],
    breaking: bool,
    // At the client.
    pub orders: Vec<Order>,
    sent_programs: HashSet<String>,
    pub flushing: [bool; 2],
    // At the server.
    worker_reports: Vec<OutgoingReport>,
    parent_reports: Vec<ParentReport>,
    pub coordinator_stream: Option<CoordinatorStream>,
    pub parent: Option<(Caller, v1::CoordinatorHello, u64)>,
    pub steps: VecDeque<Step>,
    pub busy: bool,
}

impl World<'_> {
    pub fn latency(&mut self) -> u64 {
        match self.random.below(60) {
            0 => self.random.between(100, 900),
            1..10 => self.random.between(10, 60),
            _ => self.random.between(1, 8),
        }
    }

    pub fn reaches(&self, one: Who, other: Who) -> bool {
        let now = self.now;
        !self.partitions.iter().any(|(a, b, until)| *until > now && [(one, other), (other, one)].contains(&(*a, *b)))
    }

    pub fn open(&mut self, client: Who, server: Who, name: Arc<str>, hello: v1::CoordinatorHello) -> usize {
        let ends = [(client, self.machine(client).life), (server, self.machine(server).life)];
        self.streams.push(Stream {
            ends,
            name,
            opened: self.now,
            queues: Default::default(),
            last: [self.now; 2],
            stalled: [0; 2],
            cut: [false; 2],
            closed: [false; 2],
            breaking: false,
            orders: Vec::new(),
            sent_programs: HashSet::new(),
            flushing: [false; 2],
            worker_reports: Vec::new(),
            parent_reports: Vec::new(),
            coordinator_stream: None,
            parent: None,
            steps: VecDeque::new(),
            busy: false,
        });
        let stream = self.streams.len() - 1;
        let first = v1::WorkOrder { hello: Some(hello), ..v1::WorkOrder::default() };
        self.send(stream, Side::Server, Message::Order(Box::new(first)));
        stream
    }

    /// Sends something to an end.
    pub fn send(&mut self, stream: usize, to: Side, message: Message) {
        let arrives = self.now + self.latency();
        let it = &mut self.streams[stream];
        if it.cut[to as usize] {
            return;
        }
        it.queues[to as usize].push_back(message);
        it.last[to as usize] = arrives.max(it.last[to as usize]);
        let at = it.last[to as usize];
        self.at(at, Event::Deliver(stream, to));
    }

    pub fn order(&mut self, stream: usize, order: Order) {
        let it = &mut self.streams[stream];
        if it.closed[Side::Client as usize] {
            return;
        }
        it.orders.push(order);
        self.flush_soon(stream, Side::Client);
    }

    /// A worker reports.
    pub fn report(&mut self, stream: usize, report: OutgoingReport) {
        let it = &mut self.streams[stream];
        if it.closed[Side::Server as usize] {
            return;
        }
        it.worker_reports.push(report);
        self.flush_soon(stream, Side::Server);
    }

    /// A coordinator reports to one that delegated subtrees to it.
    pub fn report_to_parent(&mut self, stream: usize, report: ParentReport) {
        let it = &mut self.streams[stream];
        if it.closed[Side::Server as usize] {
            return;
        }
        it.parent_reports.push(report);
        self.flush_soon(stream, Side::Server);
    }

    fn flush_soon(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        if !std::mem::replace(&mut it.flushing[side as usize], true) {
            let (who, life) = it.ends[side as usize];
            let delay = if self.random.one_in(10) { self.random.below(20) } else { self.random.below(2) };
            self.at(self.now + delay, Event::Node(who, life, Task::Flush(stream, side)));
        }
    }

    /// What has gathered at an end is sent.
    pub fn flush(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        it.flushing[side as usize] = false;
        if it.closed[side as usize] {
            return;
        }
        if side == Side::Client {
            let mut orders = std::mem::take(&mut it.orders);
            remove_sent_programs(&mut orders, &mut it.sent_programs);
            while let Some(message) = next_order_message(&mut orders) {
                self.send(stream, Side::Server, Message::Order(Box::new(message)));
            }
            return;
        }
        let mut reports = std::mem::take(&mut it.worker_reports);
        let mut parent_reports = std::mem::take(&mut it.parent_reports);
        while let Some(message) = next_report_message(&mut reports) {
            self.send(stream, Side::Client, Message::Report(Box::new(message)));
        }
        while let Some(message) = next_parent_message(&mut parent_reports) {
            self.send(stream, Side::Client, Message::Report(Box::new(message)));
        }
    }

    /// Something arrives at an end.
    pub fn deliver(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        if it.stalled[side as usize] > self.now {
            let later = it.stalled[side as usize];
            return self.at(later, Event::Deliver(stream, side));
        }
        let Some(message) = it.queues[side as usize].pop_front() else { return };
        let (who, life) = it.ends[side as usize];
        let machine = self.machine(who);
        if !machine.alive || machine.life != life {
            return;
        }
        match (message, who) {
            (Message::Order(order), Who::Worker(worker)) => self.worker_takes(worker, stream, *order),
            (Message::Order(order), Who::Coordinator(c)) => self.coordinator_takes(c, stream, *order),
            (Message::Report(report), Who::Coordinator(c)) => self.on_report(c, stream, *report),
            (Message::Report(_), Who::Worker(_)) => {}
        }
    }

    pub fn cut(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        it.cut[side as usize] = true;
        it.queues[side as usize].clear();
    }

    /// A stream breaks: what is on its way may still arrive for a while, and each end notices in its own time.
    pub fn break_stream(&mut self, stream: usize, at_once: bool) {
        if std::mem::replace(&mut self.streams[stream].breaking, true) {
            return;
        }
        for side in [Side::Client, Side::Server] {
            let lingers = if at_once || self.random.one_in(2) { 0 } else { self.random.between(1, 2500) };
            let noticed = if self.random.one_in(2) { self.random.between(0, 60) } else { self.random.between(0, 3000) };
            self.streams[stream].stalled[side as usize] = self.now + self.random.below(lingers + 1);
            self.at(self.now + lingers, Event::Cut(stream, side));
            self.at(self.now + noticed, Event::Notice(stream, side));
        }
    }

    /// An end is not interested any more.
    pub fn close(&mut self, stream: usize, side: Side) {
        self.streams[stream].closed[side as usize] = true;
        self.break_stream(stream, false);
    }

    pub fn notice(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        if std::mem::replace(&mut it.closed[side as usize], true) {
            return;
        }
        let (who, life) = it.ends[side as usize];
        let machine = self.machine(who);
        if !machine.alive || machine.life != life {
            return;
        }
        self.trace(|| format!("{who:?} notices the end of stream {stream}"));
        match (side, who) {
            (Side::Client, Who::Coordinator(c)) => self.link_broke(c, stream),
            (Side::Server, Who::Worker(w)) => self.worker_disconnected(w, stream),
            _ => {}
        }
    }

    /// Streams of a node that is gone, or of two that do not reach each other.
    pub fn break_streams(&mut self, concerned: impl Fn(&Stream) -> bool, at_once: bool) {
        let broken: Vec<usize> = (0..self.streams.len())
            .filter(|stream| !self.streams[*stream].breaking && concerned(&self.streams[*stream]))
            .collect();
        broken.into_iter().for_each(|stream| self.break_stream(stream, at_once));
    }

    pub fn open_streams(&self) -> Vec<usize> {
        (0..self.streams.len()).filter(|stream| !self.streams[*stream].breaking).collect()
    }
}
