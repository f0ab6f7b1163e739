//! Subtrees that a coordinator runs for other coordinators.

use std::sync::Arc;

use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::ended_summary::Summary;
use xavantes_process_coordinator::process::process_history::ProcessHistory;
use xavantes_process_coordinator::record_codec;
use xavantes_process_coordinator::subtrees::hosted_subtrees::{self, Caller};
use xavantes_process_coordinator::subtrees::parent_links::{ArrivalDecision, ParentAttempt, ParentMessage};
use xavantes_process_coordinator::subtrees::parent_order::ParentOrder;
use xavantes_process_coordinator::workers::worker_messages::Order;
use xavantes_proto::AttemptKey;
use xavantes_proto::v1;

use crate::coordinator::state::AfterWrite;
use crate::store::StoreChange;
use crate::stream::{OrderStep, ParentEnd, Side, StreamMessage};
use crate::world::World;

impl World<'_> {
    /// Sends a report to the coordinator of a parent.
    pub fn send_to_parent(&mut self, message: Option<ParentMessage<usize>>) {
        if let Some(ParentMessage { stream, report }) = message {
            self.report_to_parent(stream, report);
        }
    }

    /// An order of a parent arrives.
    pub fn on_parent_order(&mut self, c: usize, stream: usize, order: v1::WorkOrder) {
        if self.streams[stream].closed[Side::Server as usize] {
            return;
        }
        if let Some(hello) = order.hello.clone() {
            let caller = Caller::of(&hello);
            for (process, runs) in self.coordinators[c].memory.parents.retire(&caller) {
                if runs {
                    self.cancel_subtree(c, &process);
                } else {
                    self.discard(c, &process);
                }
            }
            let connected = self.coordinators[c].memory.parents.connect(&caller, stream);
            self.streams[stream].parent = Some(ParentEnd { caller, hello, number: connected.number });
            connected.former.into_iter().for_each(|former| self.close(former, Side::Server));
            let first = v1::WorkReport { hello: Some(connected.hello), ..v1::WorkReport::default() };
            self.send(stream, Side::Client, StreamMessage::Report(Box::new(first)));
            connected.missed.into_iter().for_each(|report| self.report_to_parent(stream, report));
        }
        let steps = &mut self.streams[stream].steps;
        steps.push_back(OrderStep::CheckCurrent);
        steps.extend(ParentOrder::split(order).map(OrderStep::CarryOut));
        self.serve(c, stream);
    }

    /// Carries out the orders of a parent, one after the other.
    pub fn serve(&mut self, c: usize, stream: usize) {
        let Some(parent) = self.streams[stream].parent.clone() else { return };
        while !self.streams[stream].busy
            && let Some(step) = self.streams[stream].steps.pop_front()
        {
            match step {
                OrderStep::CheckCurrent => {
                    if !self.coordinators[c].memory.parents.is_current(&parent.caller, parent.number) {
                        self.streams[stream].steps.clear();
                    }
                }
                OrderStep::CarryOut(order) => self.carry_out_parent_order(c, stream, &parent, order),
            }
        }
    }

    fn carry_out_parent_order(&mut self, c: usize, stream: usize, parent: &ParentEnd, order: ParentOrder) {
        let parents = &mut self.coordinators[c].memory.parents;
        let caller = &parent.caller;
        match order {
            // All coordinators know the only program of a world.
            ParentOrder::Program(_) => {}
            ParentOrder::Acknowledge(id) => {
                if let Some(process) = parents.acknowledge(caller, &AttemptKey::from(&id)) {
                    self.discard(c, &process);
                }
            }
            ParentOrder::Claim(claims) => {
                if let Some((stream, reports)) = parents.claim(caller, claims) {
                    reports.into_iter().for_each(|report| self.report_to_parent(stream, report));
                }
            }
            ParentOrder::Job(job) => self.accept_subtree(c, parent, stream, *job),
            ParentOrder::Cancel(id) => {
                if let Some(process) = parents.cancel(caller, &AttemptKey::from(&id)) {
                    self.cancel_subtree(c, &process);
                }
            }
            ParentOrder::Pause(pause) => {
                if let Some(process) = parents.process(caller, &AttemptKey::from(&pause.id.unwrap_or_default())) {
                    self.notify(c, &process, ProcessInput::ParentPaused(pause.paused));
                }
            }
            ParentOrder::Reply(reply) => {
                if let Some((stream, reply)) = parents.reply(reply) {
                    self.order(stream, Order::Reply(reply));
                }
            }
        }
    }

    /// Removes a subtree that has ended.
    pub fn discard(&mut self, c: usize, process: &Arc<str>) {
        let summary = Summary::new(&v1::ProcessStatus::default(), Vec::new(), &ProcessHistory::default());
        let change = StoreChange::Close(process.clone(), record_codec::encode(&summary), None);
        self.write(c, change, AfterWrite::Discarded(process.clone()));
    }

    /// A subtree of another coordinator's process arrives by a stream.
    fn accept_subtree(&mut self, c: usize, end: &ParentEnd, stream: usize, job: v1::Job) {
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        let (key, path): (_, Arc<str>) = (AttemptKey::from(&id), job.path.into());
        let name = hosted_subtrees::process_id(&end.caller, &key, &path);
        let parent = ParentAttempt { caller: end.caller.clone(), key };
        match self.coordinators[c].memory.parents.arrive(&parent, end.number, &name, job.epoch) {
            ArrivalDecision::Start => {}
            ArrivalDecision::Ignore => return,
            ArrivalDecision::AnswerAgain(message) => return self.send_to_parent(Some(message)),
        }
        let start = match hosted_subtrees::start_from(&self.tools.program, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return self.report_problem(Some(format!("a subtree does not fit: {}", unfit.0))),
        };
        let origin = parent.origin(end.hello.address.clone());
        self.streams[stream].busy = true;
        if self.start(c, name, start, Some((parent, stream, origin)), None).is_err() {
            self.report_problem(Some("a subtree does not start".into()));
        }
    }
}
