//! The coordinators that hand subtrees over, and their streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use xavantes_proto::v1::refusal_reason;
use xavantes_proto::{Message, v1};

use crate::attempt::AttemptKey;
use crate::subtrees::hosted::{Arrival, Books, Caller};
use crate::workers::connection::Orders;
use crate::workers::messages::Order;

/// Something to tell a parent's coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    Answer(Box<v1::Answer>),
    Call(v1::SharedCall),
    Known(v1::Known),
}

impl Report {
    /// How much room it takes in a message.
    pub fn size(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.encoded_len(),
            Self::Call(call) => call.encoded_len(),
            Self::Known(known) => known.encoded_len(),
        }
    }
}

/// To a parent's coordinator. What waits in it is bounded by the subtrees and calls that run here.
type Reports = mpsc::UnboundedSender<Report>;

/// A call that went on to the parent, and who waits for its answer.
struct Pending {
    parent: Caller,
    key: AttemptKey,
    call: v1::SharedCall,
    orders: Orders,
    ticket: u64,
}

#[derive(Default)]
struct Desk {
    books: Books,
    /// The newest stream of each, with its number.
    streams: HashMap<Caller, (u64, Reports)>,
    calls: HashMap<u64, Pending>,
}

/// All coordinators for which subtrees run here.
#[derive(Default)]
pub(crate) struct Parents {
    desk: Mutex<Desk>,
    tickets: AtomicU64,
}

/// The parent of a process that runs here.
#[derive(Clone)]
pub(crate) struct Parent {
    pub caller: Caller,
    pub key: AttemptKey,
    pub parents: Arc<Parents>,
}

impl Desk {
    fn tell(&self, caller: &Caller, report: Report) {
        if let Some((_, stream)) = self.streams.get(caller) {
            let _ = stream.send(report);
        }
    }
}

impl Parents {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // It is whole between any two statements, so a poisoned lock is as good as another.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A parent's coordinator connects: what runs for it here, and everything that it may have missed. The number is that
    /// of the stream.
    pub fn connect(&self, caller: &Caller) -> (u64, v1::WorkerHello, mpsc::UnboundedReceiver<Report>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut desk = self.desk();
        let (running, answers) = desk.books.of(caller);
        let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
        let hello = v1::WorkerHello { running, answered, ..v1::WorkerHello::default() };
        answers.into_iter().for_each(|answer| drop(sender.send(Report::Answer(answer.into()))));
        for pending in desk.calls.values().filter(|pending| pending.parent == *caller) {
            let _ = sender.send(Report::Call(pending.call.clone()));
        }
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        desk.streams.insert(caller.clone(), (number, sender));
        (number, hello, receiver)
    }

    /// Is this still the stream of that coordinator? What an older one brings is out of date.
    pub fn is_current(&self, caller: &Caller, number: u64) -> bool {
        self.desk().streams.get(caller).is_some_and(|(newest, _)| *newest == number)
    }

    /// A coordinator has taken processes over, or asks for them after a new start.
    pub fn claim(&self, caller: &Caller, claims: Vec<v1::Claim>) {
        let mut desk = self.desk();
        let (processes, running, answers) = desk.books.claim(caller, claims);
        for pending in desk.calls.values_mut() {
            if pending.parent.realm == caller.realm && processes.iter().any(|process| **process == *pending.key.process)
            {
                pending.parent = caller.clone();
            }
        }
        let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
        desk.tell(caller, Report::Known(v1::Known { processes, running, answered }));
        answers.into_iter().for_each(|answer| desk.tell(caller, Report::Answer(answer.into())));
        for pending in desk.calls.values().filter(|pending| pending.parent == *caller) {
            desk.tell(caller, Report::Call(pending.call.clone()));
        }
    }

    /// See [`Books::retire`].
    pub fn retire(&self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        let mut desk = self.desk();
        desk.streams.retain(|known, _| known.node != caller.node || known.realm == caller.realm);
        desk.books.retire(caller)
    }

    /// Notes a subtree that came by the stream with that number. False if it is known, in which case it was answered again
    /// if it is over; and if the coordinator has connected again, for then it was told that the subtree is not here.
    pub fn arrive(&self, caller: &Caller, number: u64, key: &AttemptKey, process: &Arc<str>, epoch: u64) -> bool {
        let mut desk = self.desk();
        if desk.streams.get(caller).is_none_or(|(newest, _)| *newest != number) {
            return false;
        }
        match desk.books.arrive(caller, key, process, epoch) {
            Arrival::New => true,
            Arrival::Runs => false,
            Arrival::Over(answer) => {
                desk.tell(caller, Report::Answer(answer));
                false
            }
        }
    }

    /// See [`Books::process`].
    pub fn process(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.desk().books.process(caller, &AttemptKey::from(id))
    }

    /// See [`Books::cancel`].
    pub fn cancel(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.desk().books.cancel(caller, &AttemptKey::from(id))
    }

    /// Refuses a subtree: it leaves no trace, and may come again.
    pub fn refuse(&self, caller: &Caller, key: &AttemptKey, reason: refusal_reason::Kind) {
        let mut desk = self.desk();
        desk.books.remove(caller, key);
        let refusal = v1::Refusal::permanent(reason);
        let outcome = Some(v1::answer::Outcome::Refused(refusal));
        let answer = v1::Answer { id: Some(key.to_wire()), outcome, ..v1::Answer::default() };
        desk.tell(caller, Report::Answer(answer.into()));
    }

    /// The parent has an answer: gives the process, which nobody needs any more.
    pub fn acknowledge(&self, caller: &Caller, id: &v1::AttemptId) -> Option<Arc<str>> {
        self.desk().books.acknowledge(caller, &AttemptKey::from(id))
    }

    pub fn reply(&self, reply: v1::SharedReply) {
        if let Some(pending) = self.desk().calls.remove(&reply.ticket) {
            let _ = pending.orders.send(Order::Reply(v1::SharedReply { ticket: pending.ticket, ..reply }));
        }
    }
}

impl Parent {
    /// The attempt that it is.
    pub fn key(&self) -> &AttemptKey {
        &self.key
    }

    /// The process goes on here.
    pub fn restore(&self, process: &Arc<str>) {
        self.parents.desk().books.restore(&self.caller, &self.key, process);
    }

    /// The process is over, and that is kept; false if nobody waits for it.
    pub fn finish(&self, answer: v1::Answer) -> bool {
        let mut desk = self.parents.desk();
        desk.calls.retain(|_, pending| pending.key != self.key || pending.parent.realm != self.caller.realm);
        let caller = desk.books.finish(&self.caller, &self.key, answer.clone());
        caller.map(|caller| desk.tell(&caller, Report::Answer(answer.into()))).is_some()
    }

    /// The process is another coordinator's now.
    pub fn leave(&self, process: &Arc<str>) {
        self.parents.desk().books.leave(&self.caller, &self.key, process);
    }

    /// The process that runs it here.
    pub fn process(&self) -> Option<Arc<str>> {
        let desk = self.parents.desk();
        let caller = desk.books.caller(&self.caller, &self.key)?;
        desk.books.process(&caller, &self.key)
    }

    /// Is it to hear something still?
    pub fn waits(&self) -> bool {
        self.parents.desk().books.caller(&self.caller, &self.key).is_some()
    }

    /// It wants to hear nothing. Gives the process, if that is over.
    pub fn forget(&self) -> Option<Arc<str>> {
        self.parents.desk().books.remove(&self.caller, &self.key)
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
        call.id = Some(self.key.to_wire());
        call.ticket = self.parents.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let mut desk = self.parents.desk();
        let parent = desk.books.caller(&self.caller, &self.key).unwrap_or_else(|| self.caller.clone());
        desk.tell(&parent, Report::Call(call.clone()));
        let pending = Pending { parent, key: self.key.clone(), call: call.clone(), orders: orders.clone(), ticket };
        desk.calls.insert(call.ticket, pending);
    }
}
