//! What is known of every attempt from its arrival until its answer was acknowledged, whose it is, and what follows from
//! what happens. Pure: whoever keeps the books does the [`Deed`]s that they ask for, in their order.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::v1::refusal_reason;
use xavantes_proto::{Epochs, v1};

use crate::admission::{Admission, Room, Verdict};

/// What an attempt is called. Realms know nothing of each other's processes, so only with the realm is it unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the process is kept in.
    pub realm: Arc<str>,
    /// The process.
    pub process: Arc<str>,
    /// The element in it.
    pub element: u64,
    /// Attempts of one element count from 1.
    pub attempt: u32,
}

impl Key {
    /// As it came from a coordinator of that realm.
    pub fn new(realm: &Arc<str>, id: &v1::AttemptId) -> Self {
        let process = id.process.as_str().into();
        Self { realm: realm.clone(), process, element: id.element, attempt: id.attempt }
    }

    /// For the wire.
    pub fn id(&self) -> v1::AttemptId {
        v1::AttemptId { process: self.process.to_string(), element: self.element, attempt: self.attempt }
    }

    /// An answer to it.
    pub fn answer(&self, outcome: Outcome) -> v1::Answer {
        v1::Answer { id: Some(self.id()), outcome: Some(outcome), ..v1::Answer::default() }
    }
}

/// A connection of a coordinator. As soon as it connects again, nothing that comes by the former one counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The coordinator: its group and node.
    pub coordinator: Arc<str>,
    /// What it keeps its processes in.
    pub realm: Arc<str>,
    number: u64,
}

impl Stream {
    /// What an attempt is called that it speaks of.
    pub fn key(&self, id: &v1::AttemptId) -> Key {
        Key::new(&self.realm, id)
    }
}

/// What a coordinator must know that has just connected.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Welcome {
    /// Attempts of it that run or wait, or whose answers are being kept.
    pub running: Vec<v1::AttemptId>,
    /// Attempts of it whose answers follow.
    pub answered: Vec<v1::AttemptId>,
}

/// Something to tell a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// An attempt is over, or was not taken.
    Answer(Arc<v1::Answer>),
    /// A running attempt calls a shared object.
    Call(Arc<v1::SharedCall>),
    /// What is known of processes that it claimed.
    Known(v1::Known),
    /// Nothing new is taken any more.
    Draining,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed<J> {
    /// The attempt begins; its end is told by [`Books::finish`].
    Begin(J),
    /// The attempt shall end soon.
    Stop(J),
    /// Goes to the coordinator that is connected by that name.
    Tell(Arc<str>, Report),
    /// The answer to an attempt of that coordinator is to be kept; when it is safe, that is told by [`Books::kept`].
    Keep(Key, Arc<str>, Arc<v1::Answer>),
    /// What was kept of an attempt is not needed any more.
    Forget(Key),
}

/// An attempt that could run here.
#[derive(Debug, Clone)]
pub struct Ready<J> {
    /// What it takes.
    pub needs: Room,
    /// What is given back when it shall begin or stop.
    pub job: J,
}

#[derive(Debug, Clone)]
enum State<J> {
    Waiting(J),
    Running(J),
    /// Runs, or its answer is being kept, but nobody wants to know.
    Disowned,
    /// Over; it is answered when the answer is safe.
    Saving(Arc<v1::Answer>),
    /// Over and answered; the answer is kept until it was acknowledged.
    Answered(Arc<v1::Answer>),
}

#[derive(Debug, Clone)]
struct Attempt<J> {
    /// The coordinator that handed it out, or spoke for its process last.
    owner: Arc<str>,
    needs: Room,
    state: State<J>,
}

/// The books of an activity manager. The same happenings in the same order lead to the same deeds in the same order.
///
/// While a coordinator is connected, all attempts that it owns are of the realm that it connected with.
#[derive(Debug, Clone)]
pub struct Books<J> {
    admission: Admission<Key>,
    attempts: BTreeMap<Key, Attempt<J>>,
    /// The newest stream of each coordinator that is connected.
    streams: BTreeMap<Arc<str>, u64>,
    /// Of processes that were claimed.
    epochs: Epochs,
    /// Calls of shared objects without a reply, by ticket.
    calls: BTreeMap<u64, (Key, Arc<v1::SharedCall>)>,
    last_stream: u64,
    last_ticket: u64,
}

impl<J: Clone> Books<J> {
    /// Of a manager with so much room, and so many attempts that may wait for it.
    pub fn new(room: Room, queue: usize) -> Self {
        Self {
            admission: Admission::new(room, queue),
            attempts: BTreeMap::new(),
            streams: BTreeMap::new(),
            epochs: Epochs::default(),
            calls: BTreeMap::new(),
            last_stream: 0,
            last_ticket: 0,
        }
    }

    /// An answer that was kept before these books were begun.
    pub fn restore(&mut self, key: Key, owner: Arc<str>, answer: Arc<v1::Answer>) {
        self.attempts.insert(key, Attempt { owner, needs: Room::default(), state: State::Answered(answer) });
    }

    /// A coordinator connects; the deeds are done after it was welcomed. What it handed out in another realm is stopped
    /// and forgotten.
    pub fn connect(&mut self, coordinator: &Arc<str>, realm: &Arc<str>) -> (Stream, Welcome, Vec<Deed<J>>) {
        let mut deeds = self.retire(coordinator, realm);
        self.last_stream += 1;
        self.streams.insert(coordinator.clone(), self.last_stream);
        let mut welcome = Welcome::default();
        for (key, attempt) in self.attempts.iter().filter(|(_, attempt)| attempt.owner == *coordinator) {
            describe(key, attempt, &mut welcome, &mut deeds);
        }
        deeds.extend(self.calls_of(coordinator, |_| true));
        if self.admission.is_draining() {
            deeds.push(Deed::Tell(coordinator.clone(), Report::Draining));
        }
        let stream = Stream { coordinator: coordinator.clone(), realm: realm.clone(), number: self.last_stream };
        (stream, welcome, deeds)
    }

    /// A connection is no more. What runs goes on.
    pub fn disconnect(&mut self, stream: &Stream) {
        if self.is_current(stream) {
            self.streams.remove(&stream.coordinator);
        }
    }

    /// True until it is no more, or the coordinator has connected again.
    pub fn is_current(&self, stream: &Stream) -> bool {
        self.streams.get(&stream.coordinator) == Some(&stream.number)
    }

    fn retire(&mut self, coordinator: &Arc<str>, realm: &Arc<str>) -> Vec<Deed<J>> {
        let mut deeds = Vec::new();
        let admission = &mut self.admission;
        self.attempts.retain(|key, attempt| {
            if attempt.owner != *coordinator || key.realm == *realm {
                return true;
            }
            match std::mem::replace(&mut attempt.state, State::Disowned) {
                State::Waiting(_) => {
                    admission.withdraw(|other| other == key);
                    return false;
                }
                State::Running(job) => deeds.push(Deed::Stop(job)),
                State::Answered(_) => {
                    deeds.push(Deed::Forget(key.clone()));
                    return false;
                }
                State::Saving(_) | State::Disowned => {}
            }
            true
        });
        // One that needs much and waited in front may have held up others.
        let next = self.admission.admit();
        deeds.extend(self.begin(next));
        deeds
    }

    /// A coordinator speaks for these processes of its realm from now on, unless another one does since.
    pub fn claim(&mut self, stream: &Stream, claims: Vec<v1::Claim>) -> Vec<Deed<J>> {
        if !self.is_current(stream) {
            return Vec::new();
        }
        let claims = claims.into_iter().filter(|it| self.epochs.claim(&stream.realm, &it.process, it.epoch));
        let processes: Vec<String> = claims.map(|claim| claim.process).collect();
        let (mut found, mut answers) = (Welcome::default(), Vec::new());
        let wanted: HashSet<&str> = processes.iter().map(String::as_str).collect();
        let claimed = |key: &Key| key.realm == stream.realm && wanted.contains(&*key.process);
        for (key, attempt) in self.attempts.iter_mut().filter(|(key, _)| claimed(key)) {
            answers.extend(hand_over(key, attempt, &stream.coordinator));
            describe(key, attempt, &mut found, &mut answers);
        }
        answers.extend(self.calls_of(&stream.coordinator, claimed));
        let known = v1::Known { processes, running: found.running, answered: found.answered };
        let mut deeds = vec![Deed::Tell(stream.coordinator.clone(), Report::Known(known))];
        deeds.append(&mut answers);
        deeds
    }

    /// Calls of attempts of a coordinator that is connected, once more.
    fn calls_of(&self, owner: &Arc<str>, which: impl Fn(&Key) -> bool) -> Vec<Deed<J>> {
        let calls = self.calls.values().filter(|(caller, _)| self.listener(caller) == Some(owner) && which(caller));
        calls.map(|(_, call)| Deed::Tell(owner.clone(), Report::Call(call.clone()))).collect()
    }

    /// A job arrives, with what it needs here or why it cannot run here. One of an earlier epoch is of a coordinator that
    /// has lost the process: it will hear of that from the repository.
    pub fn arrive(
        &mut self,
        stream: &Stream,
        key: Key,
        epoch: u64,
        ready: Result<Ready<J>, v1::Refusal>,
    ) -> Vec<Deed<J>> {
        if !self.is_current(stream) || !self.epochs.counts(&key.realm, &key.process, epoch) {
            return Vec::new();
        }
        let owner = &stream.coordinator;
        let tell = |outcome| vec![Deed::Tell(owner.clone(), Report::Answer(Arc::new(key.answer(outcome))))];

        match self.attempts.get_mut(&key) {
            Some(Attempt { state: State::Disowned, .. }) => {
                let reason = refusal_reason::Kind::StillStopping(v1::Nothing {});
                return tell(Outcome::Refused(v1::Refusal::for_now(reason)));
            }
            Some(attempt) => {
                let former = attempt.owner.clone();
                let mut deeds = Vec::from_iter(hand_over(&key, attempt, owner));
                if let State::Answered(answer) = &attempt.state {
                    deeds.push(Deed::Tell(owner.clone(), Report::Answer(answer.clone())));
                } else if former != *owner {
                    deeds.extend(self.calls_of(owner, |caller| *caller == key));
                }
                return deeds;
            }
            None => {}
        }
        // One that is refused leaves no trace: it may come again.
        let Ready { needs, job } = match ready {
            Ok(ready) => ready,
            Err(refusal) => return tell(Outcome::Refused(refusal)),
        };
        let (state, deeds) = match self.admission.arrive(key.clone(), needs) {
            Verdict::Refuse(reason) => return tell(Outcome::Refused(v1::Refusal::for_now(reason))),
            Verdict::Never(reason) => return tell(Outcome::Refused(v1::Refusal::permanent(reason))),
            Verdict::Wait => (State::Waiting(job), Vec::new()),
            Verdict::Run => (State::Running(job.clone()), vec![Deed::Begin(job)]),
        };
        self.attempts.insert(key, Attempt { owner: owner.clone(), needs, state });
        deeds
    }

    /// An attempt is to be stopped, and answered when it has stopped.
    pub fn cancel(&mut self, stream: &Stream, id: &v1::AttemptId) -> Vec<Deed<J>> {
        let key = stream.key(id);
        let Some(attempt) = self.owned(stream, &key) else { return Vec::new() };
        match &attempt.state {
            State::Running(job) => vec![Deed::Stop(job.clone())],
            State::Waiting(_) => {
                let answer = Arc::new(key.answer(Outcome::Cancelled(v1::Nothing {})));
                attempt.state = State::Saving(answer.clone());
                let mut deeds = vec![Deed::Keep(key.clone(), attempt.owner.clone(), answer)];
                self.admission.withdraw(|other| *other == key);
                let next = self.admission.admit();
                deeds.extend(self.begin(next));
                deeds
            }
            _ => Vec::new(),
        }
    }

    /// The coordinator has recorded an answer.
    pub fn acknowledge(&mut self, stream: &Stream, id: &v1::AttemptId) -> Vec<Deed<J>> {
        let key = stream.key(id);
        match self.owned(stream, &key) {
            Some(Attempt { state: State::Answered(_), .. }) => {
                self.attempts.remove(&key);
                vec![Deed::Forget(key)]
            }
            _ => Vec::new(),
        }
    }

    /// An attempt, if the coordinator at the other end of this stream may decide about it.
    fn owned(&mut self, stream: &Stream, key: &Key) -> Option<&mut Attempt<J>> {
        let current = self.is_current(stream);
        self.attempts.get_mut(key).filter(|attempt| current && attempt.owner == stream.coordinator)
    }

    /// A running attempt has come to its end.
    pub fn finish(&mut self, key: &Key, answer: v1::Answer) -> Vec<Deed<J>> {
        let Some(attempt) = self.attempts.get_mut(key) else { return Vec::new() };
        let needs = attempt.needs;
        let mut deeds = Vec::new();
        match attempt.state {
            State::Running(_) => {
                let answer = Arc::new(answer);
                attempt.state = State::Saving(answer.clone());
                deeds.push(Deed::Keep(key.clone(), attempt.owner.clone(), answer));
            }
            State::Disowned => drop(self.attempts.remove(key)),
            _ => return deeds,
        }
        let next = self.admission.leave(needs);
        deeds.extend(self.begin(next));
        deeds
    }

    /// The turn of these has come.
    fn begin(&mut self, admitted: Vec<Key>) -> Vec<Deed<J>> {
        let mut deeds = Vec::with_capacity(admitted.len());
        for key in admitted {
            if let Some(attempt) = self.attempts.get_mut(&key)
                && let State::Waiting(job) = &attempt.state
            {
                let job = job.clone();
                attempt.state = State::Running(job.clone());
                deeds.push(Deed::Begin(job));
            }
        }
        deeds
    }

    /// The answer to an attempt is safe now, so its coordinator may hear of it.
    pub fn kept(&mut self, key: &Key) -> Vec<Deed<J>> {
        let Some(attempt) = self.attempts.get_mut(key) else { return Vec::new() };
        match &attempt.state {
            State::Saving(answer) => {
                let answer = answer.clone();
                attempt.state = State::Answered(answer.clone());
                let connected = self.streams.contains_key(&attempt.owner);
                connected.then(|| Deed::Tell(attempt.owner.clone(), Report::Answer(answer))).into_iter().collect()
            }
            State::Disowned => {
                self.attempts.remove(key);
                vec![Deed::Forget(key.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// A running attempt calls a shared object: gives the ticket of the call.
    pub fn call(&mut self, key: &Key, mut call: v1::SharedCall) -> (u64, Vec<Deed<J>>) {
        self.last_ticket += 1;
        call.ticket = self.last_ticket;
        let call = Arc::new(call);
        let deeds = match self.listener(key) {
            Some(owner) => vec![Deed::Tell(owner.clone(), Report::Call(call.clone()))],
            None => Vec::new(),
        };
        self.calls.insert(self.last_ticket, (key.clone(), call));
        (self.last_ticket, deeds)
    }

    /// A call was replied to: true if that counts.
    pub fn reply(&mut self, stream: &Stream, ticket: u64) -> bool {
        let Some((key, _)) = self.calls.get(&ticket) else { return false };
        let key = key.clone();
        self.owned(stream, &key).is_some() && self.calls.remove(&ticket).is_some()
    }

    /// Nobody waits for the reply to a call any more.
    pub fn abandon(&mut self, ticket: u64) {
        self.calls.remove(&ticket);
    }

    /// The coordinator that hears now what a running attempt has to say.
    pub fn listener(&self, key: &Key) -> Option<&Arc<str>> {
        let attempt = self.attempts.get(key).filter(|attempt| matches!(attempt.state, State::Running(_)))?;
        Some(&attempt.owner).filter(|owner| self.streams.contains_key(*owner))
    }

    /// A coordinator wants back what waits here for it: others have room.
    pub fn recall(&mut self, stream: &Stream) -> Vec<Deed<J>> {
        let waits = |attempt: &Attempt<J>| matches!(attempt.state, State::Waiting(_));
        let mine = self.attempts.iter().filter(|(_, it)| it.owner == stream.coordinator && waits(it));
        let keys: BTreeSet<Key> = mine.map(|(key, _)| key.clone()).collect();
        self.admission.withdraw(|key| keys.contains(key));
        let mut deeds = Vec::new();
        for key in keys {
            self.attempts.remove(&key);
            let refusal = v1::Refusal::for_now(refusal_reason::Kind::Recalled(v1::Nothing {}));
            let answer = Arc::new(key.answer(Outcome::Refused(refusal)));
            deeds.push(Deed::Tell(stream.coordinator.clone(), Report::Answer(answer)));
        }
        deeds
    }

    /// Nothing new is taken from now on; what waits is handed back.
    pub fn drain(&mut self) -> Vec<Deed<J>> {
        let tell = |coordinator: &Arc<str>| Deed::Tell(coordinator.clone(), Report::Draining);
        let mut deeds: Vec<_> = self.streams.keys().map(tell).collect();
        for key in self.admission.drain() {
            let refusal = v1::Refusal::for_now(refusal_reason::Kind::Draining(v1::Nothing {}));
            if let Some(attempt) = self.attempts.remove(&key)
                && self.streams.contains_key(&attempt.owner)
            {
                let answer = Arc::new(key.answer(Outcome::Refused(refusal)));
                deeds.push(Deed::Tell(attempt.owner, Report::Answer(answer)));
            }
        }
        deeds
    }

    /// Everything that runs is to be stopped.
    pub fn stop_all(&self) -> Vec<Deed<J>> {
        let jobs = self.attempts.values().filter_map(|attempt| match &attempt.state {
            State::Running(job) => Some(Deed::Stop(job.clone())),
            _ => None,
        });
        jobs.collect()
    }

    /// Slots in use, and attempts that wait for one.
    pub fn load(&self) -> (u32, usize) {
        self.admission.load()
    }

    /// True if some answers are not safe yet.
    pub fn is_saving(&self) -> bool {
        self.attempts.values().any(|attempt| matches!(attempt.state, State::Saving(_)))
    }
}

fn describe<J>(key: &Key, attempt: &Attempt<J>, found: &mut Welcome, deeds: &mut Vec<Deed<J>>) {
    match &attempt.state {
        State::Waiting(_) | State::Running(_) | State::Saving(_) => found.running.push(key.id()),
        State::Answered(answer) => {
            found.answered.push(key.id());
            deeds.push(Deed::Tell(attempt.owner.clone(), Report::Answer(answer.clone())));
        }
        State::Disowned => {}
    }
}

/// The attempt is that coordinator's from now on. A kept answer is kept once more, so that this is known after a restart.
fn hand_over<J>(key: &Key, attempt: &mut Attempt<J>, owner: &Arc<str>) -> Option<Deed<J>> {
    if attempt.owner == *owner || matches!(attempt.state, State::Disowned) {
        return None;
    }
    attempt.owner = owner.clone();
    match &attempt.state {
        State::Saving(answer) | State::Answered(answer) => Some(Deed::Keep(key.clone(), owner.clone(), answer.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Deeds = Vec<Deed<&'static str>>;

    fn id(process: &str, element: u64) -> v1::AttemptId {
        v1::AttemptId { process: process.into(), element, attempt: 1 }
    }

    fn key(realm: &str, process: &str, element: u64) -> Key {
        Key::new(&realm.into(), &id(process, element))
    }

    fn connect(books: &mut Books<&'static str>, coordinator: &str, realm: &str) -> (Stream, Welcome, Deeds) {
        books.connect(&coordinator.into(), &realm.into())
    }

    /// A job of process `p` that needs one slot.
    fn arrive(books: &mut Books<&'static str>, stream: &Stream, element: u64, job: &'static str) -> Deeds {
        books.arrive(stream, stream.key(&id("p", element)), 1, Ok(Ready { needs: Room::slots(1), job }))
    }

    fn claim(epoch: u64) -> Vec<v1::Claim> {
        vec![v1::Claim { process: "p".into(), epoch }]
    }

    fn done(key: &Key) -> v1::Answer {
        key.answer(Outcome::Completed(v1::Completed::default()))
    }

    fn tell(to: &str, answer: v1::Answer) -> Deed<&'static str> {
        Deed::Tell(to.into(), Report::Answer(Arc::new(answer)))
    }

    fn keep(key: &Key, owner: &str, answer: v1::Answer) -> Deed<&'static str> {
        Deed::Keep(key.clone(), owner.into(), Arc::new(answer))
    }

    fn known(to: &str, running: &[v1::AttemptId], answered: &[v1::AttemptId]) -> Deed<&'static str> {
        let (running, answered) = (running.to_vec(), answered.to_vec());
        Deed::Tell(to.into(), Report::Known(v1::Known { processes: vec!["p".into()], running, answered }))
    }

    /// Books with an attempt of process `p` that is answered.
    fn answered(books: &mut Books<&'static str>, stream: &Stream, element: u64) -> Key {
        let key = stream.key(&id("p", element));
        assert_eq!(arrive(books, stream, element, "job"), [Deed::Begin("job")]);
        assert_eq!(books.finish(&key, done(&key)), [keep(&key, &stream.coordinator, done(&key))]);
        assert_eq!(books.kept(&key), [tell(&stream.coordinator, done(&key))]);
        key
    }

    #[test]
    fn an_answer_is_told_when_it_is_kept_and_forgotten_when_it_is_acknowledged() {
        let mut books = Books::new(Room::slots(1), 1);
        let (a, welcome, deeds) = connect(&mut books, "g/a", "r");
        assert_eq!((welcome, deeds), (Welcome::default(), vec![]));
        assert_eq!(arrive(&mut books, &a, 1, "one"), [Deed::Begin("one")]);
        assert_eq!(arrive(&mut books, &a, 1, "one"), []);
        assert_eq!(arrive(&mut books, &a, 2, "two"), []);
        assert_eq!(books.load(), (1, 1));
        let (one, two) = (key("r", "p", 1), key("r", "p", 2));
        assert_eq!(books.finish(&one, done(&one)), [keep(&one, "g/a", done(&one)), Deed::Begin("two")]);
        assert!(books.is_saving());
        // It was not told yet, so nothing can be acknowledged, and asking again does not help.
        assert_eq!(books.acknowledge(&a, &id("p", 1)), []);
        assert_eq!(arrive(&mut books, &a, 1, "one"), []);
        assert_eq!(books.kept(&one), [tell("g/a", done(&one))]);
        assert_eq!(books.kept(&one), []);
        assert!(!books.is_saving());
        assert_eq!(arrive(&mut books, &a, 1, "one"), [tell("g/a", done(&one))]);
        assert_eq!(books.acknowledge(&a, &id("p", 1)), [Deed::Forget(one.clone())]);
        assert_eq!(books.acknowledge(&a, &id("p", 1)), []);
        assert_eq!(books.cancel(&a, &id("p", 2)), [Deed::Stop("two")]);
        assert_eq!(books.finish(&two, done(&two)), [keep(&two, "g/a", done(&two))]);
        assert_eq!(books.load(), (0, 0));
    }

    #[test]
    fn who_has_lost_a_process_has_no_say_in_it() {
        let mut books = Books::new(Room::slots(2), 1);
        let (a, ..) = connect(&mut books, "g/a", "r");
        let (b, ..) = connect(&mut books, "g/b", "r");
        arrive(&mut books, &a, 1, "one");
        assert_eq!(books.claim(&b, claim(2)), [known("g/b", &[id("p", 1)], &[])]);
        // It comes late.
        assert_eq!(arrive(&mut books, &a, 2, "two"), []);
        assert_eq!(arrive(&mut books, &a, 1, "one"), []);
        let nothing = v1::Known::default();
        assert_eq!(books.claim(&a, claim(1)), [Deed::Tell("g/a".into(), Report::Known(nothing))]);
        assert_eq!(books.cancel(&b, &id("p", 1)), [Deed::Stop("one")]);
        assert_eq!(books.load(), (1, 0));
        let two = key("r", "p", 2);
        assert_eq!(books.arrive(&b, two, 2, Ok(Ready { needs: Room::slots(1), job: "two" })), [Deed::Begin("two")]);
    }

    #[test]
    fn a_refused_attempt_leaves_no_trace() {
        let mut books = Books::new(Room::slots(1), 0);
        let (a, ..) = connect(&mut books, "g/a", "r");
        arrive(&mut books, &a, 1, "one");
        for _ in 0..2 {
            let [Deed::Tell(_, Report::Answer(answer))] = &arrive(&mut books, &a, 2, "two")[..] else { panic!() };
            assert!(matches!(&answer.outcome, Some(Outcome::Refused(refusal)) if !refusal.permanent));
        }
        let refusal = v1::Refusal::permanent(refusal_reason::Kind::InvalidJob("unfit".into()));
        let unfit = key("r", "p", 3);
        let answer = unfit.answer(Outcome::Refused(refusal.clone()));
        assert_eq!(books.arrive(&a, unfit, 1, Err(refusal)), [tell("g/a", answer)]);
        assert_eq!(connect(&mut books, "g/a", "r").1, Welcome { running: vec![id("p", 1)], answered: vec![] });
    }

    #[test]
    fn who_connects_again_hears_what_it_missed() {
        let mut books = Books::new(Room::slots(3), 0);
        let (a, ..) = connect(&mut books, "g/a", "r");
        let (b, ..) = connect(&mut books, "g/b", "r");
        let one = answered(&mut books, &a, 1);
        arrive(&mut books, &a, 2, "two");
        arrive(&mut books, &a, 3, "three");
        arrive(&mut books, &b, 4, "other");
        let (two, three) = (key("r", "p", 2), key("r", "p", 3));
        let (ticket, deeds) = books.call(&two, v1::SharedCall::default());
        let call = Arc::new(v1::SharedCall { ticket, ..v1::SharedCall::default() });
        assert_eq!(deeds, [Deed::Tell("g/a".into(), Report::Call(call.clone()))]);
        books.disconnect(&a);
        assert_eq!(books.listener(&two), None);
        // While it is away an answer is kept, but nobody hears of it.
        assert_eq!(books.finish(&three, done(&three)), [keep(&three, "g/a", done(&three))]);
        let (a, welcome, deeds) = connect(&mut books, "g/a", "r");
        assert_eq!(welcome, Welcome { running: vec![id("p", 2), id("p", 3)], answered: vec![id("p", 1)] });
        assert_eq!(deeds, [tell("g/a", done(&one)), Deed::Tell("g/a".into(), Report::Call(call))]);
        books.disconnect(&a);
        assert_eq!(books.kept(&three), []);
        let (_, welcome, deeds) = connect(&mut books, "g/a", "r");
        assert_eq!((welcome.running.len(), welcome.answered.len(), deeds.len()), (1, 2, 3));
    }

    #[test]
    fn nothing_counts_that_comes_by_a_former_stream() {
        let mut books = Books::new(Room::slots(2), 2);
        let (former, ..) = connect(&mut books, "g/a", "r");
        let one = answered(&mut books, &former, 1);
        arrive(&mut books, &former, 2, "two");
        let (ticket, _) = books.call(&key("r", "p", 2), v1::SharedCall::default());
        let (a, ..) = connect(&mut books, "g/a", "r");
        assert!(!books.is_current(&former));
        assert_eq!(arrive(&mut books, &former, 3, "late"), []);
        assert_eq!(books.cancel(&former, &id("p", 2)), []);
        assert_eq!(books.acknowledge(&former, &id("p", 1)), []);
        assert_eq!(books.claim(&former, claim(1)), []);
        assert!(!books.reply(&former, ticket));
        books.disconnect(&former);
        assert!(books.is_current(&a));
        assert!(books.reply(&a, ticket));
        assert!(!books.reply(&a, ticket));
        assert_eq!(books.acknowledge(&a, &id("p", 1)), [Deed::Forget(one)]);
    }

    #[test]
    fn who_claims_a_process_has_its_attempts() {
        let mut books = Books::new(Room::slots(3), 0);
        let (a, ..) = connect(&mut books, "g/a", "r");
        let one = answered(&mut books, &a, 1);
        arrive(&mut books, &a, 2, "two");
        let (two, three) = (key("r", "p", 2), key("r", "p", 3));
        arrive(&mut books, &a, 3, "three");
        let (ticket, _) = books.call(&two, v1::SharedCall::default());
        books.finish(&three, done(&three));
        let (stranger, ..) = connect(&mut books, "g/c", "other");
        assert_eq!(books.claim(&stranger, claim(9)), [known("g/c", &[], &[])]);
        let (b, welcome, _) = connect(&mut books, "g/b", "r");
        assert_eq!(welcome, Welcome::default());
        let call = Arc::new(v1::SharedCall { ticket, ..v1::SharedCall::default() });
        let expected = [
            known("g/b", &[id("p", 2), id("p", 3)], &[id("p", 1)]),
            keep(&one, "g/b", done(&one)),
            tell("g/b", done(&one)),
            keep(&three, "g/b", done(&three)),
            Deed::Tell("g/b".into(), Report::Call(call)),
        ];
        assert_eq!(books.claim(&b, claim(2)), expected);
        // The former owner has no say any more, and what is kept later goes to the new one.
        assert_eq!(books.acknowledge(&a, &id("p", 1)), []);
        assert_eq!(books.cancel(&a, &id("p", 2)), []);
        assert!(!books.reply(&a, ticket));
        assert_eq!(books.kept(&three), [tell("g/b", done(&three))]);
        assert_eq!(books.listener(&two), Some(&"g/b".into()));
        assert_eq!(books.acknowledge(&b, &id("p", 1)), [Deed::Forget(one)]);
        assert_eq!(books.cancel(&b, &id("p", 2)), [Deed::Stop("two")]);
        // Nothing of it is the former owner's when that connects again.
        assert_eq!(connect(&mut books, "g/a", "r").1, Welcome::default());
    }

    #[test]
    fn what_was_handed_out_in_another_realm_is_stopped_and_forgotten() {
        let mut books = Books::new(Room::slots(3), 2);
        let (a, ..) = connect(&mut books, "g/a", "r");
        let (b, ..) = connect(&mut books, "g/b", "r");
        let theirs = answered(&mut books, &b, 9);
        let one = answered(&mut books, &a, 1);
        arrive(&mut books, &a, 2, "two");
        arrive(&mut books, &a, 3, "three");
        arrive(&mut books, &b, 8, "b's");
        arrive(&mut books, &a, 4, "waits");
        let (two, three) = (key("r", "p", 2), key("r", "p", 3));
        books.finish(&three, done(&three));
        arrive(&mut books, &a, 5, "waits too");
        assert_eq!(books.load(), (3, 1));
        let (_, welcome, deeds) = connect(&mut books, "g/a", "s");
        assert_eq!(welcome, Welcome::default());
        assert_eq!(deeds, [Deed::Forget(one), Deed::Stop("two"), Deed::Stop("waits")]);
        // They leave when they have stopped.
        assert_eq!(books.load(), (3, 0));
        assert_eq!(books.finish(&two, done(&two)), []);
        assert_eq!(books.load(), (2, 0));
        assert_eq!(books.kept(&three), [Deed::Forget(three)]);
        // Others of the realm keep what is theirs.
        assert_eq!(
            connect(&mut books, "g/b", "r").1,
            Welcome { running: vec![id("p", 8)], answered: vec![id("p", 9)] }
        );
        // In its former realm nothing is known of what is still being stopped, and it does not run twice at once.
        let (a, welcome, _) = connect(&mut books, "g/a", "r");
        assert_eq!(welcome, Welcome::default());
        let four = key("r", "p", 4);
        let [Deed::Tell(_, Report::Answer(answer))] = &arrive(&mut books, &a, 4, "four")[..] else { panic!() };
        assert!(matches!(&answer.outcome, Some(Outcome::Refused(refusal)) if !refusal.permanent));
        assert_eq!(books.finish(&four, done(&four)), []);
        assert_eq!(arrive(&mut books, &a, 4, "four"), [Deed::Begin("four")]);
        assert_eq!(books.claim(&a, claim(1))[1], keep(&theirs, "g/a", done(&theirs)));
    }

    #[test]
    fn those_behind_one_that_goes_begin() {
        let mut books = Books::new(Room::slots(2), 9);
        let (a, ..) = connect(&mut books, "g/a", "r");
        arrive(&mut books, &a, 1, "small");
        let large = key("r", "p", 2);
        assert_eq!(books.arrive(&a, large.clone(), 1, Ok(Ready { needs: Room::slots(2), job: "large" })), []);
        assert_eq!(arrive(&mut books, &a, 3, "behind"), []);
        let answer = large.answer(Outcome::Cancelled(v1::Nothing {}));
        assert_eq!(books.cancel(&a, &id("p", 2)), [keep(&large, "g/a", answer), Deed::Begin("behind")]);
    }

    #[test]
    fn draining_hands_back_what_waits_and_keeps_the_rest() {
        let mut books = Books::new(Room::slots(1), 9);
        let (a, ..) = connect(&mut books, "g/a", "r");
        arrive(&mut books, &a, 1, "runs");
        arrive(&mut books, &a, 2, "waits");
        let two = key("r", "p", 2);
        let refusal = v1::Refusal::for_now(refusal_reason::Kind::Draining(v1::Nothing {}));
        let back = tell("g/a", two.answer(Outcome::Refused(refusal)));
        assert_eq!(books.drain(), [Deed::Tell("g/a".into(), Report::Draining), back]);
        assert_eq!(books.stop_all(), [Deed::Stop("runs")]);
        let (_, welcome, deeds) = connect(&mut books, "g/a", "r");
        assert_eq!(welcome, Welcome { running: vec![id("p", 1)], answered: vec![] });
        assert_eq!(deeds, [Deed::Tell("g/a".into(), Report::Draining)]);
    }

    #[test]
    fn what_waits_is_given_back_to_who_wants_it() {
        let mut books = Books::new(Room::slots(1), 9);
        let ((a, ..), (b, ..)) = (connect(&mut books, "g/a", "r"), connect(&mut books, "g/b", "s"));
        arrive(&mut books, &a, 1, "runs");
        arrive(&mut books, &a, 2, "waits");
        arrive(&mut books, &b, 3, "waits for another");
        let refusal = v1::Refusal::for_now(refusal_reason::Kind::Recalled(v1::Nothing {}));
        let back = tell("g/a", key("r", "p", 2).answer(Outcome::Refused(refusal)));
        assert_eq!(books.recall(&a), [back]);
        assert_eq!((books.recall(&a), books.load()), (Vec::new(), (1, 1)));
    }

    #[test]
    fn what_was_kept_before_is_offered_to_its_owner() {
        let mut books = Books::<&str>::new(Room::slots(1), 1);
        let (one, two) = (key("r", "p", 1), key("r", "p", 2));
        books.restore(one.clone(), "g/a".into(), Arc::new(done(&one)));
        books.restore(two.clone(), "g/b".into(), Arc::new(done(&two)));
        let (_, welcome, deeds) = connect(&mut books, "g/a", "r");
        assert_eq!(welcome, Welcome { running: vec![], answered: vec![id("p", 1)] });
        assert_eq!(deeds, [tell("g/a", done(&one))]);
        let (_, welcome, deeds) = connect(&mut books, "g/b", "s");
        assert_eq!((welcome, deeds), (Welcome::default(), vec![Deed::Forget(two)]));
        assert_eq!(books.load(), (0, 0));
    }
}
