//! [`ParentLinks`] behind a lock, with channels as streams: the coordinators that delegate subtrees to this one.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use xavantes_proto::v1;
use xavantes_proto::v1::refusal_reason;

use crate::process::journal::Origin;
use crate::subtrees::hosted_subtrees::Caller;
use crate::subtrees::parent_links::{
    ArrivalDecision, EndDecision, ParentAttempt, ParentLinks, ParentMessage, UnwantedSubtree,
};
use crate::subtrees::report_batch::ParentReport;
use crate::workers::handle::Orders;
use crate::workers::worker_messages::Order;
use xavantes_proto::AttemptKey;

/// Sends reports to a parent's coordinator. The queue is bounded by the subtrees and calls that run here.
type Reports = mpsc::UnboundedSender<ParentReport>;

/// All coordinators for which subtrees run here.
#[derive(Default)]
pub(crate) struct Parents(Mutex<ParentLinks<Reports, Orders>>);

/// The parent of a process that runs here.
#[derive(Clone)]
pub(crate) struct Parent {
    pub attempt: ParentAttempt,
    pub parents: Arc<Parents>,
}

/// Sends a report. Reports to a broken stream are sent again when the coordinator connects.
fn send(message: Option<ParentMessage<Reports>>) {
    if let Some(ParentMessage { stream, report }) = message {
        let _ = stream.send(report);
    }
}

impl Parents {
    /// A coordinator connects: gives the number of its stream, the attempts that run here for it, and the reports that it
    /// may have missed.
    pub fn connect(&self, caller: &Caller) -> (u64, v1::WorkerHello, mpsc::UnboundedReceiver<ParentReport>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut links = self.0.lock();
        let stream = links.connect(caller, sender.clone());
        stream.missed.into_iter().for_each(|report| drop(sender.send(report)));
        (stream.number, stream.hello, receiver)
    }

    /// See [`ParentLinks::is_current`].
    pub fn is_current(&self, caller: &Caller, number: u64) -> bool {
        self.0.lock().is_current(caller, number)
    }

    /// See [`ParentLinks::disconnect`].
    pub fn disconnect(&self, caller: &Caller, number: u64) {
        self.0.lock().disconnect(caller, number);
    }

    /// See [`ParentLinks::claim`].
    pub fn claim(&self, caller: &Caller, claims: Vec<v1::Claim>) {
        let mut links = self.0.lock();
        if let Some((stream, reports)) = links.claim(caller, claims) {
            reports.into_iter().for_each(|report| drop(stream.send(report)));
        }
    }

    /// See [`ParentLinks::retire`].
    pub fn retire(&self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        self.0.lock().retire(caller)
    }

    /// See [`ParentLinks::arrive`]. True if the subtree is to start.
    pub fn arrive(&self, parent: &ParentAttempt, number: u64, process: &Arc<str>, epoch: u64) -> bool {
        let mut links = self.0.lock();
        match links.arrive(parent, number, process, epoch) {
            ArrivalDecision::Start => true,
            ArrivalDecision::Ignore => false,
            ArrivalDecision::AnswerAgain(message) => {
                send(Some(message));
                false
            }
        }
    }

    /// See [`ParentLinks::process`].
    pub fn process(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.0.lock().process(caller, &AttemptKey::from(id))
    }

    /// See [`ParentLinks::running_for`].
    pub fn running_for(&self, caller: &Caller) -> Vec<(v1::AttemptId, Arc<str>)> {
        self.0.lock().running_for(caller)
    }

    /// See [`ParentLinks::cancel`].
    pub fn cancel(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.0.lock().cancel(caller, &AttemptKey::from(id))
    }

    /// See [`ParentLinks::acknowledge`].
    pub fn acknowledge(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.0.lock().acknowledge(caller, &AttemptKey::from(id))
    }

    /// See [`ParentLinks::on_unread`].
    pub fn on_unread(&self, process: &Arc<str>) {
        self.0.lock().on_unread(process);
    }

    /// See [`ParentLinks::on_read`].
    pub fn on_read(&self, process: &str) {
        let mut links = self.0.lock();
        for (stream, reports) in links.on_read(process) {
            reports.into_iter().for_each(|report| drop(stream.send(report)));
        }
    }

    /// See [`ParentLinks::moved`].
    pub fn moved(&self) -> Vec<Arc<str>> {
        self.0.lock().moved()
    }

    /// See [`ParentLinks::end_moved`].
    pub fn end_moved(&self, process: &str) {
        let mut links = self.0.lock();
        send(links.end_moved(process));
    }

    /// Passes on the reply to a forwarded call.
    pub fn reply(&self, reply: v1::SharedReply) {
        if let Some((orders, reply)) = self.0.lock().reply(reply) {
            let _ = orders.send(Order::Reply(reply));
        }
    }
}

impl Parent {
    /// The parent that the head of a process names.
    pub fn of(origin: &Origin, parents: &Arc<Parents>) -> Option<Self> {
        Some(Self { attempt: ParentAttempt::of(origin)?, parents: parents.clone() })
    }

    /// The attempt of the parent that this process is.
    pub fn key(&self) -> &AttemptKey {
        &self.attempt.key
    }

    /// See [`ParentLinks::refuse`].
    pub fn refuse(&self, reason: refusal_reason::Kind) {
        let mut links = self.parents.0.lock();
        send(links.refuse(&self.attempt, reason));
    }

    /// See [`ParentLinks::restore`].
    pub fn restore(&self, process: &Arc<str>) {
        self.parents.0.lock().restore(&self.attempt, process);
    }

    /// See [`ParentLinks::finish`]. False if the parent does not wait for the answer.
    pub fn finish(&self, answer: v1::Answer) -> bool {
        let mut links = self.parents.0.lock();
        match links.finish(&self.attempt, answer) {
            EndDecision::Answer(message) => {
                send(message);
                true
            }
            EndDecision::Discard => false,
        }
    }

    /// See [`ParentLinks::leave`].
    pub fn leave(&self, process: &Arc<str>) {
        self.parents.0.lock().leave(&self.attempt, process);
    }

    /// See [`ParentLinks::waits`].
    pub fn waits(&self) -> bool {
        self.parents.0.lock().waits(&self.attempt)
    }

    /// See [`ParentLinks::forget`].
    pub fn forget(&self) -> UnwantedSubtree {
        self.parents.0.lock().forget(&self.attempt)
    }

    /// See [`ParentLinks::forward`].
    pub fn forward(&self, call: v1::SharedCall, orders: &Orders) {
        let mut links = self.parents.0.lock();
        send(links.forward(&self.attempt, call, orders.clone()));
    }
}
