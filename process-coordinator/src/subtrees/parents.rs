//! The coordinators that delegate subtrees to this one, and their streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use xavantes_proto::v1::refusal_reason;
use xavantes_proto::{Message, v1};

use crate::attempt::AttemptKey;
use crate::process::journal::Origin;
use crate::subtrees::hosted::{Arrival, Caller, HostedSubtrees};
use crate::workers::handle::Orders;
use crate::workers::messages::Order;

/// A report to a parent's coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    Answer(Box<v1::Answer>),
    Call(v1::SharedCall),
    Known(v1::Known),
}

impl Report {
    /// Bytes that the report takes in a message.
    pub fn size(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.encoded_len(),
            Self::Call(call) => call.encoded_len(),
            Self::Known(known) => known.encoded_len(),
        }
    }
}

/// Sends reports to a parent's coordinator. The queue is bounded by the subtrees and calls that run here.
type Reports = mpsc::UnboundedSender<Report>;

/// A call of a shared object that went on to the parent.
struct ForwardedCall {
    parent: Caller,
    key: AttemptKey,
    call: v1::SharedCall,
    /// Connection that waits for the reply.
    orders: Orders,
    /// Ticket of the call on that connection.
    ticket: u64,
}

#[derive(Default)]
struct ParentsState {
    hosted: HostedSubtrees,
    /// Newest stream of each coordinator, with its number.
    streams: HashMap<Caller, (u64, Reports)>,
    /// Forwarded calls by their new ticket.
    calls: HashMap<u64, ForwardedCall>,
}

/// All coordinators for which subtrees run here.
#[derive(Default)]
pub(crate) struct Parents {
    state: Mutex<ParentsState>,
    /// Numbers of streams and tickets of calls.
    tickets: AtomicU64,
}

/// The parent of a process that runs here.
#[derive(Clone)]
pub(crate) struct Parent {
    pub caller: Caller,
    pub key: AttemptKey,
    pub parents: Arc<Parents>,
}

impl ParentsState {
    fn report(&self, caller: &Caller, report: Report) {
        if let Some((_, stream)) = self.streams.get(caller) {
            let _ = stream.send(report);
        }
    }
}

impl Parents {
    /// A coordinator connects: gives the number of its stream, the attempts that run here for it, and the reports that it
    /// may have missed.
    pub fn connect(&self, caller: &Caller) -> (u64, v1::WorkerHello, mpsc::UnboundedReceiver<Report>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state.lock();
        let (running, answers) = state.hosted.known_to(caller);
        let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
        let hello = v1::WorkerHello { running, answered, ..v1::WorkerHello::default() };
        answers.into_iter().for_each(|answer| drop(sender.send(Report::Answer(answer.into()))));
        for call in state.calls.values().filter(|call| call.parent == *caller) {
            let _ = sender.send(Report::Call(call.call.clone()));
        }
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        state.streams.insert(caller.clone(), (number, sender));
        (number, hello, receiver)
    }

    /// Is this the newest stream of a coordinator? Orders of older ones are out of date.
    pub fn is_current(&self, caller: &Caller, number: u64) -> bool {
        self.state.lock().streams.get(caller).is_some_and(|(newest, _)| *newest == number)
    }

    /// A coordinator has taken over processes, or asks for its own after a restart.
    pub fn claim(&self, caller: &Caller, claims: Vec<v1::Claim>) {
        let mut state = self.state.lock();
        let (processes, running, answers) = state.hosted.claim(caller, claims);
        for call in state.calls.values_mut() {
            if call.parent.realm == caller.realm && processes.iter().any(|process| **process == *call.key.process) {
                call.parent = caller.clone();
            }
        }
        let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
        state.report(caller, Report::Known(v1::Known { processes, running, answered }));
        answers.into_iter().for_each(|answer| state.report(caller, Report::Answer(answer.into())));
        for call in state.calls.values().filter(|call| call.parent == *caller) {
            state.report(caller, Report::Call(call.call.clone()));
        }
    }

    /// See [`HostedSubtrees::retire`].
    pub fn retire(&self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        let mut state = self.state.lock();
        state.streams.retain(|known, _| known.node != caller.node || known.realm == caller.realm);
        state.hosted.retire(caller)
    }

    /// Notes a subtree that arrived by the stream with this number. False if it must not start: because it is known (its
    /// answer is sent again if it has ended), or because the coordinator has connected again since and does not expect it
    /// here.
    pub fn arrive(&self, caller: &Caller, number: u64, key: &AttemptKey, process: &Arc<str>, epoch: u64) -> bool {
        let mut state = self.state.lock();
        if state.streams.get(caller).is_none_or(|(newest, _)| *newest != number) {
            return false;
        }
        match state.hosted.arrive(caller, key, process, epoch) {
            Arrival::New => true,
            Arrival::Known => false,
            Arrival::Ended(answer) => {
                state.report(caller, Report::Answer(answer));
                false
            }
        }
    }

    /// See [`HostedSubtrees::process`].
    pub fn process(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.state.lock().hosted.process(caller, &AttemptKey::from(id))
    }

    /// See [`HostedSubtrees::cancel`].
    pub fn cancel(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.state.lock().hosted.cancel(caller, &AttemptKey::from(id))
    }

    /// Refuses a subtree, and forgets it: it may arrive again.
    pub fn refuse(&self, caller: &Caller, key: &AttemptKey, reason: refusal_reason::Kind) {
        let mut state = self.state.lock();
        state.hosted.remove(caller, key);
        let refusal = v1::Refusal::permanent(reason);
        let outcome = Some(v1::answer::Outcome::Refused(refusal));
        let answer = v1::Answer { id: Some(key.to_wire()), outcome, ..v1::Answer::default() };
        state.report(caller, Report::Answer(answer.into()));
    }

    /// See [`HostedSubtrees::acknowledge`].
    pub fn acknowledge(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.state.lock().hosted.acknowledge(caller, &AttemptKey::from(id))
    }

    /// Passes on the reply to a forwarded call.
    pub fn reply(&self, reply: v1::SharedReply) {
        if let Some(call) = self.state.lock().calls.remove(&reply.ticket) {
            let _ = call.orders.send(Order::Reply(v1::SharedReply { ticket: call.ticket, ..reply }));
        }
    }
}

impl Parent {
    /// The parent that the head of a process names.
    pub fn of(origin: &Origin, parents: &Arc<Parents>) -> Option<Self> {
        let caller = Caller::parse(&origin.coordinator)?;
        let key = AttemptKey::new(&*origin.process, origin.element, origin.attempt);
        Some(Self { caller, key, parents: parents.clone() })
    }

    /// The attempt of the parent that this process is.
    pub fn key(&self) -> &AttemptKey {
        &self.key
    }

    /// The process was recovered here.
    pub fn restore(&self, process: &Arc<str>) {
        self.parents.state.lock().hosted.restore(&self.caller, &self.key, process);
    }

    /// The process has ended, and its journal says so. False if the parent does not wait for it.
    pub fn finish(&self, answer: v1::Answer) -> bool {
        let mut state = self.parents.state.lock();
        state.calls.retain(|_, call| call.key != self.key || call.parent.realm != self.caller.realm);
        let caller = state.hosted.finish(&self.caller, &self.key, answer.clone());
        caller.map(|caller| state.report(&caller, Report::Answer(answer.into()))).is_some()
    }

    /// Another coordinator runs the process.
    pub fn leave(&self, process: &Arc<str>) {
        self.parents.state.lock().hosted.leave(&self.caller, &self.key, process);
    }

    /// The process that runs the subtree here.
    pub fn process(&self) -> Option<Arc<str>> {
        let state = self.parents.state.lock();
        let caller = state.hosted.caller(&self.caller, &self.key)?;
        state.hosted.process(&caller, &self.key)
    }

    /// Does the parent still wait for the subtree?
    pub fn waits(&self) -> bool {
        self.parents.state.lock().hosted.caller(&self.caller, &self.key).is_some()
    }

    /// The parent does not wait for the subtree. Gives the process, if it has ended.
    pub fn forget(&self) -> Option<Arc<str>> {
        self.parents.state.lock().hosted.remove(&self.caller, &self.key)
    }

    /// Forwards a call of a shared object of the parent, or of one of its ancestors.
    pub fn forward(&self, mut call: v1::SharedCall, orders: &Orders) {
        let ticket = call.ticket;
        let id = call.id.take().unwrap_or_default();
        // A number for the caller that is the same whenever the call is repeated.
        let mut hasher = blake3::Hasher::new();
        for part in [id.element, u64::from(id.attempt), call.caller] {
            hasher.update(&part.to_le_bytes());
        }
        let mut caller = [0; 8];
        caller.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        call.caller = u64::from_le_bytes(caller) | 1;
        call.id = Some(self.key.to_wire());
        call.ticket = self.parents.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = self.parents.state.lock();
        let parent = state.hosted.caller(&self.caller, &self.key).unwrap_or_else(|| self.caller.clone());
        state.report(&parent, Report::Call(call.clone()));
        let forwarded =
            ForwardedCall { parent, key: self.key.clone(), call: call.clone(), orders: orders.clone(), ticket };
        state.calls.insert(call.ticket, forwarded);
    }
}
