//! Subtrees of other coordinators' processes that run here. To their parents they are attempts, like activities; here
//! they are processes like any other, with a parent.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use xavantes_engine::Outcome;
use xavantes_model::definition::{NodeId, Program};
use xavantes_model::value::Value;
use xavantes_proto::{MAX_PART, Message, too_large, v1, value};

use crate::convert::failure;
use crate::link::{Order, Orders};
use crate::pool::{Key, key_of};

/// Something to tell a parent's coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    Answer(v1::Answer),
    Call(v1::SharedCall),
}

impl Report {
    /// How much room it takes in a message.
    pub fn size(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.encoded_len(),
            Self::Call(call) => call.encoded_len(),
        }
    }
}

/// To a parent's coordinator. What waits in it is bounded by the subtrees and calls that run here.
type Reports = mpsc::UnboundedSender<Report>;

enum Child {
    /// The process that runs it here, and whether the parent has cancelled it.
    Runs(Arc<str>, bool),
    /// The process that ran it, and its answer, kept until it was acknowledged.
    Answered(Arc<str>, Box<v1::Answer>),
}

/// A call that went on to the parent, and who waits for its answer.
struct Pending {
    parent: Arc<str>,
    call: v1::SharedCall,
    orders: Orders,
    ticket: u64,
}

#[derive(Default)]
struct Books {
    /// By the parent's coordinator and the attempt there.
    children: HashMap<(Arc<str>, Key), Child>,
    streams: HashMap<Arc<str>, Reports>,
    calls: HashMap<u64, Pending>,
}

/// All subtrees that run here for others.
#[derive(Default)]
pub(crate) struct Fosters {
    books: Mutex<Books>,
    tickets: AtomicU64,
}

/// The parent of a process that runs here.
#[derive(Clone)]
pub(crate) struct Parent {
    pub coordinator: Arc<str>,
    pub key: Key,
    pub fosters: Arc<Fosters>,
}

impl Fosters {
    fn books(&self) -> MutexGuard<'_, Books> {
        // The books are whole between any two statements, so a poisoned lock is as good as another.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A parent's coordinator connects: what runs for it here, and everything that it may have missed.
    pub fn connect(&self, coordinator: &Arc<str>) -> (v1::WorkerHello, mpsc::UnboundedReceiver<Report>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut hello = v1::WorkerHello::default();
        let mut books = self.books();
        for ((whose, key), child) in &books.children {
            if whose != coordinator {
                continue;
            }
            match child {
                Child::Runs(..) => hello.running.push(wire_id(key)),
                Child::Answered(_, answer) => {
                    hello.answered.push(wire_id(key));
                    let _ = sender.send(Report::Answer(v1::Answer::clone(answer)));
                }
            }
        }
        for pending in books.calls.values().filter(|pending| pending.parent == *coordinator) {
            let _ = sender.send(Report::Call(pending.call.clone()));
        }
        books.streams.insert(coordinator.clone(), sender);
        (hello, receiver)
    }

    /// A parent's coordinator begins a new life: what it handed over in former ones is no longer wanted. Gives the
    /// processes that run for those.
    pub fn retire(&self, name: &str, coordinator: &Arc<str>) -> Vec<Arc<str>> {
        let mut running = Vec::new();
        let mut books = self.books();
        let former = |whose: &Arc<str>| whose.starts_with(name) && whose != coordinator;
        books.streams.retain(|whose, _| !former(whose));
        books.children.retain(|(whose, _), child| {
            let former = former(whose);
            if let Child::Runs(process, _) = child
                && former
            {
                running.push(process.clone());
            }
            !former
        });
        running
    }

    /// Notes a subtree; false if it is known, in which case it was answered again if it is over.
    pub fn arrive(&self, coordinator: &Arc<str>, key: &Key, process: &Arc<str>) -> bool {
        let mut books = self.books();
        let place = (coordinator.clone(), key.clone());
        match books.children.get(&place) {
            None => {
                books.children.insert(place, Child::Runs(process.clone(), false));
                true
            }
            Some(Child::Runs(..)) => false,
            Some(Child::Answered(_, answer)) => {
                let again = Report::Answer(v1::Answer::clone(answer));
                if let Some(stream) = books.streams.get(coordinator) {
                    let _ = stream.send(again);
                }
                false
            }
        }
    }

    /// The process that runs a subtree here.
    pub fn process(&self, coordinator: &Arc<str>, id: &v1::AttemptId) -> Option<Arc<str>> {
        match self.books().children.get(&(coordinator.clone(), key_of(id))) {
            Some(Child::Runs(process, _)) => Some(process.clone()),
            _ => None,
        }
    }

    /// The process that is to be cancelled. A parent that lost the connection asks again; to cancel twice would mean
    /// more.
    pub fn cancel(&self, coordinator: &Arc<str>, id: &v1::AttemptId) -> Option<Arc<str>> {
        match self.books().children.get_mut(&(coordinator.clone(), key_of(id))) {
            Some(Child::Runs(process, cancelled @ false)) => {
                *cancelled = true;
                Some(process.clone())
            }
            _ => None,
        }
    }

    /// Refuses a subtree: it leaves no trace, and may come again.
    pub fn refuse(&self, coordinator: &Arc<str>, key: &Key, reason: &str) {
        let mut books = self.books();
        books.children.remove(&(coordinator.clone(), key.clone()));
        let refusal = v1::Refusal { reason: reason.into(), for_good: true };
        let outcome = Some(v1::answer::Outcome::Refused(refusal));
        if let Some(stream) = books.streams.get(coordinator) {
            let _ = stream.send(Report::Answer(v1::Answer { id: Some(wire_id(key)), outcome, counts: None }));
        }
    }

    /// The parent has an answer: gives the process, which nobody needs any more.
    pub fn acknowledge(&self, coordinator: &Arc<str>, id: &v1::AttemptId) -> Option<Arc<str>> {
        let mut books = self.books();
        let place = (coordinator.clone(), key_of(id));
        match books.children.get(&place) {
            Some(Child::Answered(process, _)) => {
                let process = process.clone();
                books.children.remove(&place);
                Some(process)
            }
            _ => None,
        }
    }

    pub fn reply(&self, reply: v1::SharedReply) {
        if let Some(pending) = self.books().calls.remove(&reply.ticket) {
            let _ = pending.orders.send(Order::Reply(v1::SharedReply { ticket: pending.ticket, ..reply }));
        }
    }
}

impl Parent {
    /// The process is over.
    pub fn finish(&self, process: &Arc<str>, outcome: v1::answer::Outcome, counts: v1::Counts) {
        let mut answer = v1::Answer { id: Some(wire_id(&self.key)), outcome: Some(outcome), counts: Some(counts) };
        let size = answer.encoded_len();
        if size > MAX_PART {
            let failure = v1::Failure {
                kind: v1::FailureKind::Limit.into(),
                message: too_large("its results", size),
                path: process.to_string(),
                ..v1::Failure::default()
            };
            answer.outcome = Some(v1::answer::Outcome::Failed(failure));
        }
        let mut books = self.fosters.books();
        let place = (self.coordinator.clone(), self.key.clone());
        // It is not there if nobody wants the answer any more.
        if let Some(child) = books.children.get_mut(&place) {
            *child = Child::Answered(process.clone(), Box::new(answer.clone()));
        }
        if let Some(stream) = books.streams.get(&self.coordinator) {
            let _ = stream.send(Report::Answer(answer));
        }
    }

    /// A call of an object that lives further up.
    pub fn forward(&self, mut call: v1::SharedCall, orders: &Orders) {
        let ticket = call.ticket;
        let id = call.id.take().unwrap_or_default();
        // Who calls, in a number that is the same whenever the call is repeated.
        let mut hasher = blake3::Hasher::new();
        for part in [id.element, u64::from(id.attempt), call.caller] {
            hasher.update(&part.to_le_bytes());
        }
        let mut caller = [0; 8];
        caller.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        call.caller = u64::from_le_bytes(caller) | 1;
        call.id = Some(wire_id(&self.key));
        call.ticket = self.fosters.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let mut books = self.fosters.books();
        let pending = Pending { parent: self.coordinator.clone(), call: call.clone(), orders: orders.clone(), ticket };
        books.calls.insert(call.ticket, pending);
        if let Some(stream) = books.streams.get(&self.coordinator) {
            let _ = stream.send(Report::Call(call));
        }
    }
}

fn wire_id((process, element, attempt): &Key) -> v1::AttemptId {
    v1::AttemptId { process: process.to_string(), element: *element, attempt: *attempt }
}

/// What a parent hears of the end: results in the order of the root's signature.
pub(crate) fn answer(
    program: &Program,
    process: usize,
    node: NodeId,
    outcome: &Outcome,
    results: &std::collections::BTreeMap<Arc<str>, Value>,
) -> v1::answer::Outcome {
    match outcome {
        Outcome::Completed => {
            let process = &program.processes[process];
            let signature =
                if node == NodeId::BODY { process.parameters() } else { &process.nodes[node.index()].variables[..] };
            let outs = signature.iter().filter(|variable| variable.direction.is_out());
            let nothing = Value::Null;
            let results = outs.map(|variable| value(results.get(&variable.name).unwrap_or(&nothing)));
            v1::answer::Outcome::Completed(v1::Completed { results: results.collect() })
        }
        Outcome::Failed(why) => v1::answer::Outcome::Failed(failure(why)),
        Outcome::Cancelled | Outcome::Restart => v1::answer::Outcome::Cancelled(v1::Nothing {}),
    }
}
