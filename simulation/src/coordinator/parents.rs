//! Subtrees that a coordinator runs for other coordinators.

use std::sync::Arc;

use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_process_coordinator::codec;
use xavantes_process_coordinator::process::history::ProcessHistory;
use xavantes_process_coordinator::process::input::ProcessInput;
use xavantes_process_coordinator::process::summary::Summary;
use xavantes_process_coordinator::subtrees::hosted::{self, Caller};
use xavantes_process_coordinator::subtrees::parent_links::{ArrivalDecision, ParentAttempt, ParentMessage};
use xavantes_process_coordinator::workers::messages::Order;
use xavantes_proto::v1;

use crate::coordinator::state::{AfterWrite, SimProcessMail};
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
        if let Some(hello) = order.hello {
            let caller =
                Caller { node: format!("{}/{}", hello.group, hello.node).into(), realm: hello.realm.as_str().into() };
            for (process, runs) in self.coordinators[c].memory.parents.retire(&caller) {
                if runs {
                    self.mail(c, &process, SimProcessMail::Input(ProcessInput::ParentCancelled));
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
        steps.push_back(OrderStep::Check);
        if !order.acknowledged.is_empty() {
            steps.push_back(OrderStep::Acknowledged(order.acknowledged));
        }
        if !order.claims.is_empty() {
            steps.push_back(OrderStep::Claims(order.claims));
        }
        steps.extend(order.jobs.into_iter().map(|job| OrderStep::Job(Box::new(job))));
        steps.extend(order.cancels.into_iter().map(OrderStep::Cancel));
        steps.extend(order.pauses.into_iter().map(OrderStep::Pause));
        steps.extend(order.replies.into_iter().map(OrderStep::Reply));
        self.serve(c, stream);
    }

    /// Carries out the orders of a parent, one after the other.
    pub fn serve(&mut self, c: usize, stream: usize) {
        let Some(ParentEnd { caller, hello, number }) = self.streams[stream].parent.clone() else { return };
        while !self.streams[stream].busy
            && let Some(step) = self.streams[stream].steps.pop_front()
        {
            let parents = &mut self.coordinators[c].memory.parents;
            match step {
                OrderStep::Check => {
                    if !parents.is_current(&caller, number) {
                        self.streams[stream].steps.clear();
                    }
                }
                OrderStep::Acknowledged(ids) => {
                    let ended: Vec<Arc<str>> =
                        ids.iter().filter_map(|id| parents.acknowledge(&caller, &AttemptKey::from(id))).collect();
                    ended.iter().for_each(|process| self.discard(c, process));
                }
                OrderStep::Claims(claims) => {
                    if let Some((stream, reports)) = parents.claim(&caller, claims) {
                        reports.into_iter().for_each(|report| self.report_to_parent(stream, report));
                    }
                }
                OrderStep::Job(job) => self.accept_subtree(c, &caller, &hello, (stream, number), *job),
                OrderStep::Cancel(id) => {
                    if let Some(process) = parents.cancel(&caller, &AttemptKey::from(&id)) {
                        self.mail(c, &process, SimProcessMail::Input(ProcessInput::ParentCancelled));
                    }
                }
                OrderStep::Pause(pause) => {
                    let process = parents.process(&caller, &AttemptKey::from(&pause.id.unwrap_or_default()));
                    if let Some(process) = process {
                        self.mail(c, &process, SimProcessMail::Input(ProcessInput::ParentPaused(pause.paused)));
                    }
                }
                OrderStep::Reply(reply) => {
                    if let Some((stream, reply)) = parents.reply(reply) {
                        self.order(stream, Order::Reply(reply));
                    }
                }
            }
        }
    }

    /// Removes a subtree that has ended.
    pub fn discard(&mut self, c: usize, process: &Arc<str>) {
        let summary = Summary::new(&v1::ProcessStatus::default(), Vec::new(), &ProcessHistory::default());
        let change = StoreChange::Close(process.clone(), codec::encode(&summary));
        self.write(c, change, AfterWrite::Discarded(process.clone()));
    }

    /// A subtree of another coordinator's process arrives by a stream with this number.
    pub fn accept_subtree(
        &mut self,
        c: usize,
        caller: &Caller,
        hello: &v1::CoordinatorHello,
        (stream, number): (usize, u64),
        job: v1::Job,
    ) {
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        let (key, path): (_, Arc<str>) = (AttemptKey::from(&id), job.path.into());
        let name = hosted::process_id(caller, &key, &path);
        let parent = ParentAttempt { caller: caller.clone(), key };
        match self.coordinators[c].memory.parents.arrive(&parent, number, &name, job.epoch) {
            ArrivalDecision::Start => {}
            ArrivalDecision::Ignore => return,
            ArrivalDecision::AnswerAgain(message) => return self.send_to_parent(Some(message)),
        }
        let start = match hosted::start_from(&self.tools.program, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return self.report_problem(Some(format!("a subtree does not fit: {}", unfit.0))),
        };
        let origin = parent.origin(hello.address.clone());
        self.streams[stream].busy = true;
        if self.start(c, name, start, Some((parent, stream, origin)), None).is_err() {
            self.report_problem(Some("a subtree does not start".into()));
        }
    }
}
