//! The network: streams delay messages, break, and lose what is on its way.

use std::sync::Arc;

use xavantes_activity_manager::report_batch::{OutgoingReport, next_report_message};
use xavantes_process_coordinator::subtrees::parent_report_batch::{ParentReport, next_parent_message};
use xavantes_process_coordinator::workers::order_batch::{next_order_message, remove_sent_programs};
use xavantes_process_coordinator::workers::worker_messages::Order;
use xavantes_proto::v1;

use crate::simulated_machine::NodeRef;
use crate::stream::{Side, SimStream, StreamMessage};
use crate::world::World;
use crate::world_event::{NodeTask, WorldEvent};

impl World<'_> {
    /// The time that a message takes.
    pub fn latency(&mut self) -> u64 {
        match self.random.below(60) {
            0 => self.random.between(100, 900),
            1..10 => self.random.between(10, 60),
            _ => self.random.between(1, 8),
        }
    }

    /// Can two nodes connect?
    pub fn reaches(&self, one: NodeRef, other: NodeRef) -> bool {
        let now = self.now;
        !self.partitions.iter().any(|(a, b, until)| *until > now && [(one, other), (other, one)].contains(&(*a, *b)))
    }

    /// Opens a stream, and sends the hello of its client. Gives the number of the stream.
    pub fn open(&mut self, client: NodeRef, server: NodeRef, name: Arc<str>, hello: v1::CoordinatorHello) -> usize {
        let ends = [(client, self.machine(client).life), (server, self.machine(server).life)];
        self.streams.push(SimStream::new(ends, name, self.now));
        let stream = self.streams.len() - 1;
        let first = v1::WorkOrder { hello: Some(hello), ..v1::WorkOrder::default() };
        self.send(stream, Side::Server, StreamMessage::Order(Box::new(first)));
        stream
    }

    /// Sends a message to one end.
    pub fn send(&mut self, stream: usize, to: Side, message: StreamMessage) {
        let arrives = self.now + self.latency();
        let it = &mut self.streams[stream];
        if it.cut[to as usize] {
            return;
        }
        it.queues[to as usize].push_back(message);
        it.last[to as usize] = arrives.max(it.last[to as usize]);
        let at = it.last[to as usize];
        self.at(at, WorldEvent::Deliver(stream, to));
    }

    /// A coordinator sends an order with the next flush.
    pub fn order(&mut self, stream: usize, order: Order) {
        let it = &mut self.streams[stream];
        if it.closed[Side::Client as usize] {
            return;
        }
        it.orders.push(order);
        self.flush_soon(stream, Side::Client);
    }

    /// A worker sends a report with the next flush.
    pub fn report(&mut self, stream: usize, report: OutgoingReport) {
        let it = &mut self.streams[stream];
        if it.closed[Side::Server as usize] {
            return;
        }
        it.worker_reports.push(report);
        self.flush_soon(stream, Side::Server);
    }

    /// A coordinator sends a report to the parent of a subtree with the next flush.
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
            let (node, life) = it.ends[side as usize];
            let delay = if self.random.one_in(10) { self.random.below(20) } else { self.random.below(2) };
            self.at(self.now + delay, WorldEvent::Node(node, life, NodeTask::Flush(stream, side)));
        }
    }

    /// Sends the orders or reports that wait at one end.
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
                self.send(stream, Side::Server, StreamMessage::Order(Box::new(message)));
            }
            return;
        }
        let mut reports = std::mem::take(&mut it.worker_reports);
        let mut parent_reports = std::mem::take(&mut it.parent_reports);
        while let Some(message) = next_report_message(&mut reports) {
            self.send(stream, Side::Client, StreamMessage::Report(Box::new(message)));
        }
        while let Some(message) = next_parent_message(&mut parent_reports) {
            self.send(stream, Side::Client, StreamMessage::Report(Box::new(message)));
        }
    }

    /// A message arrives at one end.
    pub fn deliver(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        if it.stalled[side as usize] > self.now {
            let later = it.stalled[side as usize];
            return self.at(later, WorldEvent::Deliver(stream, side));
        }
        let Some(message) = it.queues[side as usize].pop_front() else { return };
        let (node, life) = it.ends[side as usize];
        let machine = self.machine(node);
        if !machine.alive || machine.life != life {
            return;
        }
        match (message, node) {
            (StreamMessage::Order(order), NodeRef::Worker(worker)) => self.on_worker_order(worker, stream, *order),
            (StreamMessage::Order(order), NodeRef::Coordinator(c)) => self.on_parent_order(c, stream, *order),
            (StreamMessage::Report(report), NodeRef::Coordinator(c)) => self.on_report(c, stream, *report),
            (StreamMessage::Report(_), NodeRef::Worker(_)) => {}
        }
    }

    /// Loses all messages on their way to one end.
    pub fn cut(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        it.cut[side as usize] = true;
        it.queues[side as usize].clear();
        if side == Side::Client {
            it.silent_since = Some(self.now);
        }
    }

    /// Breaks a stream. Messages on their way may still arrive for a while, and each end notices the end later.
    pub fn break_stream(&mut self, stream: usize, at_once: bool) {
        if std::mem::replace(&mut self.streams[stream].breaking, true) {
            return;
        }
        for side in [Side::Client, Side::Server] {
            let lingers = if at_once || self.random.one_in(2) { 0 } else { self.random.between(1, 2500) };
            let noticed = if self.random.one_in(2) { self.random.between(0, 60) } else { self.random.between(0, 3000) };
            self.streams[stream].stalled[side as usize] = self.now + self.random.below(lingers + 1);
            self.at(self.now + lingers, WorldEvent::Cut(stream, side));
            self.at(self.now + noticed, WorldEvent::NoticeEnd(stream, side));
        }
    }

    /// One end closes a stream.
    pub fn close(&mut self, stream: usize, side: Side) {
        self.streams[stream].closed[side as usize] = true;
        self.break_stream(stream, false);
    }

    /// One end notices that a stream has ended.
    pub fn notice_end(&mut self, stream: usize, side: Side) {
        let it = &mut self.streams[stream];
        if std::mem::replace(&mut it.closed[side as usize], true) {
            return;
        }
        let (node, life) = it.ends[side as usize];
        let machine = self.machine(node);
        if !machine.alive || machine.life != life {
            return;
        }
        self.trace(|| format!("{node:?} notices the end of stream {stream}"));
        match (side, node) {
            (Side::Client, NodeRef::Coordinator(c)) => self.link_broke(c, stream),
            (Side::Server, NodeRef::Worker(w)) => self.worker_disconnected(w, stream),
            _ => {}
        }
    }

    /// Breaks all open streams for which `concerned` is true.
    pub fn break_streams(&mut self, concerned: impl Fn(&SimStream) -> bool, at_once: bool) {
        let broken: Vec<usize> = (0..self.streams.len())
            .filter(|stream| !self.streams[*stream].breaking && concerned(&self.streams[*stream]))
            .collect();
        broken.into_iter().for_each(|stream| self.break_stream(stream, at_once));
    }

    /// Streams that are not broken.
    pub fn open_streams(&self) -> Vec<usize> {
        (0..self.streams.len()).filter(|stream| !self.streams[*stream].breaking).collect()
    }
}
