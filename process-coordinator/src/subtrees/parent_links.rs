//! The coordinators that delegate subtrees to this one: their streams, their hosted subtrees, and the calls of shared objects
//! that go on to them. Without I/O, clock or threads: methods give the reports to send, and the streams to send them by.
//!
//! `S` is the handle of a stream to a parent's coordinator; `W` is the way back for the reply to a forwarded call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use xavantes_proto::v1;
use xavantes_proto::v1::refusal_reason;

use crate::process::journal::Origin;
use crate::subtrees::hosted_subtrees::{Arrival, Caller, HostedSubtrees};
use crate::subtrees::report_batch::ParentReport;
use xavantes_proto::AttemptKey;

/// The attempt of a parent that a process runs as its subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentAttempt {
    /// Coordinator that delegated the subtree; another one may have claimed the parent since.
    pub caller: Caller,
    /// The attempt.
    pub key: AttemptKey,
}

impl ParentAttempt {
    /// The attempt that the head of a process names.
    pub fn of(origin: &Origin) -> Option<Self> {
        let caller = Caller::parse(&origin.coordinator)?;
        Some(Self { caller, key: AttemptKey::new(&*origin.process, origin.element, origin.attempt) })
    }

    /// The origin for the head of the process; `address` is the address of the caller.
    pub fn origin(&self, address: String) -> Origin {
        let AttemptKey { process, element, attempt } = &self.key;
        let coordinator = self.caller.to_string();
        Origin { coordinator, address, process: process.to_string(), element: *element, attempt: *attempt }
    }
}

/// A report, and the stream to send it by.
#[derive(Debug)]
pub struct ParentMessage<S> {
    /// Newest stream of the coordinator.
    pub stream: S,
    /// The report.
    pub report: ParentReport,
}

/// The stream of a coordinator that has connected.
#[derive(Debug)]
pub struct NewStream<S> {
    /// Number of the stream.
    pub number: u64,
    /// First report, with the attempts that run here for the coordinator.
    pub hello: v1::WorkerHello,
    /// Reports that the coordinator may have missed.
    pub missed: Vec<ParentReport>,
    /// Stream that this one replaces.
    pub former: Option<S>,
}

/// What to do with a subtree that arrived.
#[derive(Debug)]
pub enum ArrivalDecision<S> {
    /// Start it.
    Start,
    /// Nothing: it runs already, or the coordinator does not expect it here any more.
    Ignore,
    /// Send its answer once more: it has ended.
    AnswerAgain(ParentMessage<S>),
}

/// What to do when a subtree has ended.
#[derive(Debug)]
pub enum EndDecision<S> {
    /// The parent waits for the answer; nothing to send while its coordinator is not connected.
    Answer(Option<ParentMessage<S>>),
    /// Remove the process: the parent does not wait for it.
    Discard,
}

/// What to do with a subtree for which the parent does not wait any more.
#[derive(Debug, PartialEq, Eq)]
pub enum UnwantedSubtree {
    /// Remove this process: it has ended.
    Discard(Arc<str>),
    /// Cancel this process.
    Cancel(Arc<str>),
    /// Nothing: it does not run here.
    Gone,
}

/// A call of a shared object that went on to the parent.
#[derive(Debug)]
struct ForwardedCall<W> {
    parent: Caller,
    key: AttemptKey,
    call: v1::SharedCall,
    /// Connection that waits for the reply.
    way_back: W,
    /// Ticket of the call on that connection.
    ticket: u64,
}

#[derive(Debug)]
struct ParentStream<S> {
    number: u64,
    handle: S,
}

/// All coordinators for which subtrees run here.
#[derive(Debug)]
pub struct ParentLinks<S, W> {
    hosted: HostedSubtrees,
    /// Newest stream of each coordinator.
    streams: HashMap<Caller, ParentStream<S>>,
    /// Forwarded calls by their new ticket.
    calls: BTreeMap<u64, ForwardedCall<W>>,
    /// Processes of this coordinator that it could not read yet. Each may be a subtree of any caller.
    unread: BTreeSet<Arc<str>>,
    /// Claims that wait until all processes are read, in their order.
    deferred_claims: Vec<(Caller, Vec<v1::Claim>)>,
    /// Latest number of a stream, or ticket of a call.
    last_number: u64,
}

impl<S, W> Default for ParentLinks<S, W> {
    fn default() -> Self {
        let (hosted, streams, calls) = (HostedSubtrees::default(), HashMap::new(), BTreeMap::new());
        let (unread, deferred_claims) = (BTreeSet::new(), Vec::new());
        Self { hosted, streams, calls, unread, deferred_claims, last_number: 0 }
    }
}

impl<S: Clone, W> ParentLinks<S, W> {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn message(&self, caller: &Caller, report: ParentReport) -> Option<ParentMessage<S>> {
        self.streams.get(caller).map(|stream| ParentMessage { stream: stream.handle.clone(), report })
    }

    fn calls_to<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = ParentReport> + 'a {
        let calls = self.calls.values().filter(move |call| call.parent == *caller);
        calls.map(|call| ParentReport::Call(call.call.clone()))
    }

    /// This coordinator could not read a process. Until it has, claims wait: a caller takes a subtree for lost that the
    /// answer to its claim leaves out.
    pub fn on_unread(&mut self, process: &Arc<str>) {
        self.unread.insert(process.clone());
    }

    /// A process that could not be read has been read, or is another coordinator's. Gives the reports for claims that waited,
    /// by stream.
    pub fn on_read(&mut self, process: &str) -> Vec<(S, Vec<ParentReport>)> {
        self.unread.remove(process);
        if !self.unread.is_empty() {
            return Vec::new();
        }
        let deferred = std::mem::take(&mut self.deferred_claims);
        deferred.into_iter().filter_map(|(caller, claims)| self.claim(&caller, claims)).collect()
    }

    /// A coordinator connects.
    pub fn connect(&mut self, caller: &Caller, stream: S) -> NewStream<S> {
        let (running, answers) = self.hosted.known_to(caller);
        let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
        let hello = v1::WorkerHello { running, answered, ..v1::WorkerHello::default() };
        let answers = answers.into_iter().map(|answer| ParentReport::Answer(answer.into()));
        let missed = answers.chain(self.calls_to(caller)).collect();
        // A coordinator that connects again claims again.
        self.deferred_claims.retain(|(other, _)| other != caller);
        let number = self.next_number();
        let former = self.streams.insert(caller.clone(), ParentStream { number, handle: stream });
        NewStream { number, hello, missed, former: former.map(|former| former.handle) }
    }

    /// Is this the newest stream of a coordinator? Orders of older ones are out of date.
    pub fn is_current(&self, caller: &Caller, number: u64) -> bool {
        self.streams.get(caller).is_some_and(|newest| newest.number == number)
    }

    /// A stream has ended. Its reports are sent again when the coordinator connects.
    pub fn disconnect(&mut self, caller: &Caller, number: u64) {
        if self.is_current(caller, number) {
            self.streams.remove(caller);
        }
    }

    /// A coordinator has taken over processes, or asks for its own after a restart. Gives its stream and the reports for it,
    /// in their order; nothing while some process is not read.
    pub fn claim(&mut self, caller: &Caller, claims: Vec<v1::Claim>) -> Option<(S, Vec<ParentReport>)> {
        if !self.unread.is_empty() {
            self.deferred_claims.push((caller.clone(), claims));
            return None;
        }
        let (processes, running, answers) = self.hosted.claim(caller, claims);
        for call in self.calls.values_mut() {
            if call.parent.realm == caller.realm && processes.iter().any(|process| **process == *call.key.process) {
                call.parent = caller.clone();
            }
        }
        let stream = self.streams.get(caller)?.handle.clone();
        let answered = answers.iter().filter_map(|answer| answer.id.clone()).collect();
        let mut reports = vec![ParentReport::Known(v1::Known { processes, running, answered })];
        reports.extend(answers.into_iter().map(|answer| ParentReport::Answer(answer.into())));
        reports.extend(self.calls_to(caller));
        Some((stream, reports))
    }

    /// See [`HostedSubtrees::retire`].
    pub fn retire(&mut self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        self.streams.retain(|known, _| known.node != caller.node || known.realm == caller.realm);
        self.hosted.retire(caller)
    }

    /// A subtree arrives by the stream with this number; `process` is to run it. A subtree from an older stream is ignored:
    /// the coordinator has connected again since and does not expect it here.
    pub fn arrive(
        &mut self,
        parent: &ParentAttempt,
        number: u64,
        process: &Arc<str>,
        epoch: u64,
    ) -> ArrivalDecision<S> {
        let ParentAttempt { caller, key } = parent;
        if !self.is_current(caller, number) {
            return ArrivalDecision::Ignore;
        }
        match self.hosted.arrive(caller, key, process, epoch) {
            Arrival::New => ArrivalDecision::Start,
            Arrival::Known => ArrivalDecision::Ignore,
            Arrival::Ended(answer) => match self.message(caller, ParentReport::Answer(answer)) {
                Some(message) => ArrivalDecision::AnswerAgain(message),
                None => ArrivalDecision::Ignore,
            },
        }
    }

    /// See [`HostedSubtrees::process`].
    pub fn process(&self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        self.hosted.process(caller, key)
    }

    /// See [`HostedSubtrees::running_for`].
    pub fn running_for(&self, caller: &Caller) -> Vec<(v1::AttemptId, Arc<str>)> {
        self.hosted.running_for(caller)
    }

    /// See [`HostedSubtrees::cancel`].
    pub fn cancel(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        self.hosted.cancel(caller, key)
    }

    /// Refuses a subtree, and forgets it: it may arrive again.
    pub fn refuse(&mut self, parent: &ParentAttempt, reason: refusal_reason::Kind) -> Option<ParentMessage<S>> {
        self.hosted.remove(&parent.caller, &parent.key);
        let outcome = Some(v1::answer::Outcome::Refused(v1::Refusal::permanent(reason)));
        let answer = v1::Answer { id: Some(parent.key.to_wire()), outcome, ..v1::Answer::default() };
        self.message(&parent.caller, ParentReport::Answer(answer.into()))
    }

    /// See [`HostedSubtrees::acknowledge`].
    pub fn acknowledge(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        self.hosted.acknowledge(caller, key)
    }

    /// The process was recovered here.
    pub fn restore(&mut self, parent: &ParentAttempt, process: &Arc<str>) {
        self.hosted.restore(&parent.caller, &parent.key, process);
    }

    /// The process has ended, and its journal says so.
    pub fn finish(&mut self, parent: &ParentAttempt, answer: v1::Answer) -> EndDecision<S> {
        let ParentAttempt { caller, key } = parent;
        self.calls.retain(|_, call| call.key != *key || call.parent.realm != caller.realm);
        match self.hosted.finish(caller, key, answer.clone()) {
            Some(caller) => EndDecision::Answer(self.message(&caller, ParentReport::Answer(answer.into()))),
            None => EndDecision::Discard,
        }
    }

    /// Another coordinator runs the process.
    pub fn leave(&mut self, parent: &ParentAttempt, process: &Arc<str>) {
        self.hosted.leave(&parent.caller, &parent.key, process);
    }

    /// See [`HostedSubtrees::moved`].
    pub fn moved(&self) -> Vec<Arc<str>> {
        self.hosted.moved()
    }

    /// See [`HostedSubtrees::end_moved`]. Nothing to send while the coordinator of the parent is not connected.
    pub fn end_moved(&mut self, process: &str) -> Option<ParentMessage<S>> {
        let (caller, answer) = self.hosted.end_moved(process)?;
        self.message(&caller, ParentReport::Answer(answer.into()))
    }

    /// Does the parent still wait for the subtree?
    pub fn waits(&self, parent: &ParentAttempt) -> bool {
        self.hosted.caller(&parent.caller, &parent.key).is_some()
    }

    /// The parent does not wait for the subtree any more: forgets it.
    pub fn forget(&mut self, parent: &ParentAttempt) -> UnwantedSubtree {
        let ParentAttempt { caller, key } = parent;
        let newest = self.hosted.caller(caller, key);
        let running = newest.and_then(|caller| self.hosted.process(&caller, key));
        match (self.hosted.remove(caller, key), running) {
            (Some(ended), _) => UnwantedSubtree::Discard(ended),
            (None, Some(running)) => UnwantedSubtree::Cancel(running),
            (None, None) => UnwantedSubtree::Gone,
        }
    }

    /// Forwards a call of a shared object of the parent, or of one of its ancestors.
    pub fn forward(
        &mut self,
        parent: &ParentAttempt,
        mut call: v1::SharedCall,
        way_back: W,
    ) -> Option<ParentMessage<S>> {
        let ParentAttempt { caller, key } = parent;
        let ticket = call.ticket;
        let id = call.id.take().unwrap_or_default();
        call.caller = forwarded_caller(&id, call.caller);
        call.id = Some(key.to_wire());
        call.ticket = self.next_number();
        let parent = self.hosted.caller(caller, key).unwrap_or_else(|| caller.clone());
        let message = self.message(&parent, ParentReport::Call(call.clone()));
        let forwarded_ticket = call.ticket;
        self.calls.insert(forwarded_ticket, ForwardedCall { parent, key: key.clone(), call, way_back, ticket });
        message
    }

    /// The parent replies to a forwarded call: gives the connection that waits, and the reply for it.
    pub fn reply(&mut self, reply: v1::SharedReply) -> Option<(W, v1::SharedReply)> {
        let call = self.calls.remove(&reply.ticket)?;
        Some((call.way_back, v1::SharedReply { ticket: call.ticket, ..reply }))
    }
}

/// A number for the caller of a forwarded call that is the same whenever the call is repeated.
fn forwarded_caller(id: &v1::AttemptId, caller: u64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in [id.element, u64::from(id.attempt), caller] {
        hasher.update(&part.to_le_bytes());
    }
    let mut number = [0; 8];
    number.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(number) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    type Links = ParentLinks<&'static str, &'static str>;

    fn parent(node: &str) -> ParentAttempt {
        let caller = Caller { node: node.into(), realm: "realm".into() };
        ParentAttempt { caller, key: AttemptKey::new("parent", 3, 1) }
    }

    fn call(ticket: u64) -> v1::SharedCall {
        let id = v1::AttemptId { process: "child".into(), element: 7, attempt: 2 };
        v1::SharedCall { id: Some(id), ticket, caller: 5, ..v1::SharedCall::default() }
    }

    fn forwarded(message: Option<ParentMessage<&'static str>>) -> (&'static str, v1::SharedCall) {
        match message {
            Some(ParentMessage { stream, report: ParentReport::Call(call) }) => (stream, call),
            other => panic!("no call: {other:?}"),
        }
    }

    #[test]
    fn a_repeated_call_has_the_same_caller_and_its_reply_finds_the_way_back() {
        let (mut links, parent) = (Links::default(), parent("g/a"));
        links.connect(&parent.caller, "stream");
        links.restore(&parent, &"child".into());
        let (_, first) = forwarded(links.forward(&parent, call(11), "worker"));
        let (stream, again) = forwarded(links.forward(&parent, call(12), "worker"));
        assert_eq!((stream, first.caller, first.id), ("stream", again.caller, Some(parent.key.to_wire())));
        assert_ne!((first.caller, first.ticket), (5, again.ticket));
        let reply = v1::SharedReply { ticket: again.ticket, result: None };
        let (way_back, reply) = links.reply(reply.clone()).expect("a waiting call");
        assert_eq!((way_back, reply.ticket), ("worker", 12));
        assert!(links.reply(v1::SharedReply { ticket: again.ticket, result: None }).is_none());
    }

    #[test]
    fn a_coordinator_that_claims_the_parent_gets_its_calls_and_answers() {
        let (mut links, old, new) = (Links::default(), parent("g/a"), parent("g/b"));
        links.connect(&old.caller, "old");
        links.connect(&new.caller, "new");
        links.restore(&old, &"child".into());
        links.forward(&old, call(11), "worker");
        let claim = v1::Claim { process: "parent".into(), epoch: 2 };
        let (stream, reports) = links.claim(&new.caller, vec![claim]).expect("a stream");
        assert_eq!(stream, "new");
        assert!(
            matches!(&reports[..], [ParentReport::Known(known), ParentReport::Call(_)] if known.running.len() == 1)
        );
        match links.finish(&old, v1::Answer::default()) {
            EndDecision::Answer(Some(message)) => assert_eq!(message.stream, "new"),
            other => panic!("not sent to the new coordinator: {other:?}"),
        }
    }

    #[test]
    fn subtrees_of_a_former_stream_do_not_start() {
        let (mut links, parent, process) = (Links::default(), parent("g/a"), "child".into());
        let former = links.connect(&parent.caller, "former");
        let newest = links.connect(&parent.caller, "newest");
        assert_eq!(newest.former, Some("former"));
        assert!(matches!(links.arrive(&parent, former.number, &process, 1), ArrivalDecision::Ignore));
        assert!(matches!(links.arrive(&parent, newest.number, &process, 1), ArrivalDecision::Start));
        assert!(matches!(links.arrive(&parent, newest.number, &process, 1), ArrivalDecision::Ignore));
    }

    #[test]
    fn an_unwanted_subtree_is_cancelled_while_it_runs_and_removed_afterwards() {
        let (mut links, parent) = (Links::default(), parent("g/a"));
        links.restore(&parent, &"child".into());
        assert_eq!(links.forget(&parent), UnwantedSubtree::Cancel("child".into()));
        assert!(matches!(links.finish(&parent, v1::Answer::default()), EndDecision::Discard));
        links.restore(&parent, &"child".into());
        assert!(matches!(links.finish(&parent, v1::Answer::default()), EndDecision::Answer(None)));
        assert_eq!(links.forget(&parent), UnwantedSubtree::Discard("child".into()));
        assert_eq!(links.forget(&parent), UnwantedSubtree::Gone);
    }

    #[test]
    fn a_parent_does_not_wait_for_a_moved_subtree_whose_new_coordinator_lost_the_answer() {
        let (mut links, parent) = (Links::default(), parent("g/a"));
        links.leave(&parent, &"child".into());
        let running = links.connect(&parent.caller, "stream").hello.running;
        assert_eq!((running, links.moved()), (vec![parent.key.to_wire()], vec!["child".into()]));
        match links.end_moved("child") {
            Some(ParentMessage { stream: "stream", report: ParentReport::Answer(answer) }) => {
                assert_eq!(answer.id, Some(parent.key.to_wire()));
                assert!(matches!(answer.outcome, Some(v1::answer::Outcome::Cancelled(_))));
            }
            other => panic!("no answer: {other:?}"),
        }
        assert!(links.moved().is_empty() && links.end_moved("child").is_none());
        assert_eq!(links.acknowledge(&parent.caller, &parent.key), Some("child".into()));
        assert!(links.connect(&parent.caller, "later").hello.running.is_empty());
    }

    #[test]
    fn a_claim_waits_until_all_processes_are_read() {
        let (mut links, parent) = (Links::default(), parent("g/a"));
        links.on_unread(&"child".into());
        links.connect(&parent.caller, "former");
        let claim = || vec![v1::Claim { process: "parent".into(), epoch: 2 }];
        assert!(links.claim(&parent.caller, claim()).is_none());
        links.connect(&parent.caller, "stream");
        assert!(links.claim(&parent.caller, claim()).is_none());
        links.restore(&parent, &"child".into());
        match &links.on_read("child")[..] {
            [("stream", reports)] => {
                assert!(
                    matches!(&reports[..], [ParentReport::Known(known)] if known.running == [parent.key.to_wire()])
                );
            }
            other => panic!("one answer, to the newest stream: {other:?}"),
        }
        assert!(links.on_read("child").is_empty());
    }
}
