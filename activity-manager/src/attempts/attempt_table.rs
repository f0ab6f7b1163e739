//! The attempt table: what a worker knows of every attempt from its arrival until its answer is acknowledged, and which
//! coordinator owns it. Pure: each method returns the [`TableAction`]s that its caller must perform, in order.

mod impairment;
mod pending_calls;
mod running;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::v1::refusal_reason;
use xavantes_proto::{Epochs, Message, v1};

use super::action::{OwnedAnswer, TableAction, Welcome, WorkerReport};
use super::admission::{Admission, AdmissionVerdict, Load, Resources};
use super::realm_attempt::{CoordinatorStream, RealmAttempt};
use super::unacknowledged::Unacknowledged;

/// A job that this worker is able to run.
#[derive(Debug, Clone)]
pub struct ReadyJob<J> {
    /// Resources that the job occupies while it runs.
    pub needs: Resources,
    /// The value that [`TableAction::Start`] and [`TableAction::Stop`] return.
    pub job: J,
}

/// Where an attempt is in its life on this worker.
#[derive(Debug, Clone)]
enum AttemptState<J> {
    /// Waits for resources.
    Queued(J),
    Running(J),
    /// The attempt still runs, but no coordinator wants the answer.
    Disowned,
    /// Ended. The coordinator receives the answer when it is durable.
    Persisting(Arc<v1::Answer>),
    /// Ended. The answer is still being written, but no coordinator wants it.
    Unwanted,
    /// Ended, with an answer that the coordinator may have but has not acknowledged. The answer is durable, unless this
    /// worker cannot write.
    Answered(Arc<v1::Answer>),
}

#[derive(Debug, Clone)]
struct Attempt<J> {
    /// The coordinator that sent the attempt, or claimed its process last.
    owner: Arc<str>,
    needs: Resources,
    state: AttemptState<J>,
}

/// Why an attempt must not go on.
#[derive(Debug, Clone)]
enum Withdrawal {
    /// The owner wants the attempt to end, and an answer that says so.
    Cancel,
    /// The owner gets the attempt back if it has not started.
    HandBack(refusal_reason::Kind),
    /// No coordinator wants the answer any more.
    Disown,
}

/// A call of a shared object that waits for its reply.
#[derive(Debug, Clone)]
struct PendingCall {
    caller: RealmAttempt,
    call: Arc<v1::SharedCall>,
}

/// The attempt table of a worker. The same inputs in the same order lead to the same actions in the same order.
///
/// Invariant: while a coordinator is connected, all attempts that it owns belong to the realm that it connected with.
#[derive(Debug, Clone)]
pub struct AttemptTable<J> {
    admission: Admission<RealmAttempt>,
    attempts: BTreeMap<RealmAttempt, Attempt<J>>,
    /// The newest stream of each connected coordinator.
    streams: BTreeMap<Arc<str>, u64>,
    /// Slots of other coordinators that each coordinator knows of, if there are any.
    reported_slots: BTreeMap<Arc<str>, u32>,
    /// Epochs in which coordinators claimed processes.
    epochs: Epochs,
    unacknowledged: Unacknowledged,
    /// Pending calls by ticket.
    calls: BTreeMap<u64, PendingCall>,
    last_stream: u64,
    last_ticket: u64,
}

impl<J: Clone> AttemptTable<J> {
    /// An empty table of a worker with this capacity and at most `queue` waiting attempts.
    pub fn new(capacity: Resources, queue: usize) -> Self {
        Self {
            admission: Admission::new(capacity, queue),
            attempts: BTreeMap::new(),
            streams: BTreeMap::new(),
            reported_slots: BTreeMap::new(),
            epochs: Epochs::default(),
            unacknowledged: Unacknowledged::default(),
            calls: BTreeMap::new(),
            last_stream: 0,
            last_ticket: 0,
        }
    }

    /// Adds an answer that was durable before this table was created.
    pub fn restore(&mut self, OwnedAnswer { attempt, owner, answer }: OwnedAnswer) {
        self.unacknowledged.add(&owner, answer.encoded_len());
        let state = AttemptState::Answered(answer);
        self.attempts.insert(attempt, Attempt { owner, needs: Resources::default(), state });
    }

    /// A coordinator connects. Its attempts in other realms are disowned. The caller sends the welcome before it performs
    /// the actions.
    pub fn connect(
        &mut self,
        coordinator: &Arc<str>,
        realm: &Arc<str>,
    ) -> (CoordinatorStream, Welcome, Vec<TableAction<J>>) {
        let mut actions = self.disown_other_realms(coordinator, realm);
        self.last_stream += 1;
        self.streams.insert(coordinator.clone(), self.last_stream);
        self.reported_slots.remove(coordinator);
        let mut welcome = Welcome::default();
        for (key, attempt) in self.attempts.iter().filter(|(_, attempt)| attempt.owner == *coordinator) {
            describe(key, attempt, &mut welcome, &mut actions);
        }
        actions.extend(self.resend_calls(coordinator, |_| true));
        if self.admission.is_draining() {
            actions.push(TableAction::Send(coordinator.clone(), WorkerReport::Draining));
        }
        self.unacknowledged.take_changed();
        if let Some(reason) = self.impairment_for(coordinator) {
            actions.push(impairment::inform(coordinator, Some(reason)));
        }
        let stream =
            CoordinatorStream { coordinator: coordinator.clone(), realm: realm.clone(), number: self.last_stream };
        (stream, welcome, actions)
    }

    /// A stream broke. Running attempts go on.
    pub fn disconnect(&mut self, stream: &CoordinatorStream) {
        if self.is_current(stream) {
            self.streams.remove(&stream.coordinator);
            self.reported_slots.remove(&stream.coordinator);
        }
    }

    /// True while this is the newest stream of a connected coordinator.
    pub fn is_current(&self, stream: &CoordinatorStream) -> bool {
        self.streams.get(&stream.coordinator) == Some(&stream.number)
    }

    fn disown_other_realms(&mut self, coordinator: &Arc<str>, realm: &Arc<str>) -> Vec<TableAction<J>> {
        let lost = |key: &RealmAttempt, it: &Attempt<J>| it.owner == *coordinator && key.realm != *realm;
        let keys: Vec<_> = self.attempts.iter().filter(|(key, it)| lost(key, it)).map(|(key, _)| key.clone()).collect();
        let mut actions = self.withdraw(&keys, &Withdrawal::Disown);
        // A large attempt at the head of the queue may have blocked those behind it.
        actions.extend(self.start_admitted());
        actions
    }

    /// A coordinator claims processes of its realm. A claim with an older epoch than another coordinator's has no effect.
    pub fn claim(&mut self, stream: &CoordinatorStream, claims: Vec<v1::Claim>) -> Vec<TableAction<J>> {
        if !self.is_current(stream) {
            return Vec::new();
        }
        let claims = claims.into_iter().filter(|it| self.epochs.claim(&stream.realm, &it.process, it.epoch));
        let processes: Vec<String> = claims.map(|claim| claim.process).collect();
        let (mut found, mut answers) = (Welcome::default(), Vec::new());
        let wanted: HashSet<&str> = processes.iter().map(String::as_str).collect();
        let claimed = |key: &RealmAttempt| key.realm == stream.realm && wanted.contains(&*key.key.process);
        for (key, attempt) in self.attempts.iter_mut().filter(|(key, _)| claimed(key)) {
            answers.extend(change_owner(key, attempt, &stream.coordinator, &mut self.unacknowledged));
            describe(key, attempt, &mut found, &mut answers);
        }
        answers.extend(self.resend_calls(&stream.coordinator, claimed));
        let known = v1::Known { processes, running: found.running, answered: found.answered };
        let mut actions = vec![TableAction::Send(stream.coordinator.clone(), WorkerReport::Known(known))];
        actions.append(&mut answers);
        actions
    }

    /// A job arrives, with its needs or with the reason why it cannot run here. A job of an older epoch comes from a
    /// coordinator that lost the process: the repository will inform that coordinator.
    pub fn on_job(
        &mut self,
        stream: &CoordinatorStream,
        key: RealmAttempt,
        epoch: u64,
        ready: Result<ReadyJob<J>, v1::Refusal>,
    ) -> Vec<TableAction<J>> {
        if !self.is_current(stream) || !self.epochs.counts(&key.realm, &key.key.process, epoch) {
            return Vec::new();
        }
        let owner = &stream.coordinator;
        let refuse = |refusal| {
            let answer = Arc::new(key.answer(Outcome::Refused(refusal)));
            vec![TableAction::Send(owner.clone(), WorkerReport::Answer(answer))]
        };

        match self.attempts.get_mut(&key) {
            Some(Attempt { state: AttemptState::Disowned | AttemptState::Unwanted, .. }) => {
                return refuse(v1::Refusal::for_now(refusal_reason::Kind::StillStopping(v1::Nothing {})));
            }
            Some(attempt) => {
                let former = attempt.owner.clone();
                let mut actions = Vec::from_iter(change_owner(&key, attempt, owner, &mut self.unacknowledged));
                if let AttemptState::Answered(answer) = &attempt.state {
                    actions.push(TableAction::Send(owner.clone(), WorkerReport::Answer(answer.clone())));
                } else if former != *owner {
                    actions.extend(self.resend_calls(owner, |caller| *caller == key));
                }
                return actions;
            }
            None => {}
        }
        // A refused attempt gets no entry: the coordinator may send it again.
        let ReadyJob { needs, job } = match ready {
            Ok(ready) => ready,
            Err(refusal) => return refuse(refusal),
        };
        if let Some(reason) = self.unacknowledged.reason(owner) {
            return refuse(v1::Refusal::for_now(refusal_reason::Kind::Impaired(reason)));
        }
        let (state, actions) = match self.admission.arrive(key.clone(), needs) {
            AdmissionVerdict::Refuse(reason) => return refuse(v1::Refusal::for_now(reason)),
            AdmissionVerdict::Never(reason) => return refuse(v1::Refusal::permanent(reason)),
            AdmissionVerdict::Wait => (AttemptState::Queued(job), Vec::new()),
            AdmissionVerdict::Run => (AttemptState::Running(job.clone()), vec![TableAction::Start(job)]),
        };
        self.attempts.insert(key, Attempt { owner: owner.clone(), needs, state });
        actions
    }

    /// The coordinator wants an attempt to end. The answer follows when the attempt has ended.
    pub fn cancel(&mut self, stream: &CoordinatorStream, id: &v1::AttemptId) -> Vec<TableAction<J>> {
        let key = stream.attempt(id);
        let Some(attempt) = self.owned(stream, &key) else { return Vec::new() };
        let queued = matches!(attempt.state, AttemptState::Queued(_));
        let mut actions = self.withdraw(&[key], &Withdrawal::Cancel);
        if queued {
            actions.extend(self.start_admitted());
        }
        actions
    }

    /// The coordinator wants its queued attempts back, because other workers have free slots.
    pub fn recall(&mut self, stream: &CoordinatorStream) -> Vec<TableAction<J>> {
        let queued = |it: &Attempt<J>| it.owner == stream.coordinator && matches!(it.state, AttemptState::Queued(_));
        let keys: Vec<_> = self.attempts.iter().filter(|(_, it)| queued(it)).map(|(key, _)| key.clone()).collect();
        let mut actions = self.withdraw(&keys, &Withdrawal::HandBack(refusal_reason::Kind::Recalled(v1::Nothing {})));
        // A large attempt at the head of the queue may have blocked attempts of other coordinators behind it.
        actions.extend(self.start_admitted());
        actions
    }

    /// From now on this worker takes no new attempts. Coordinators get their queued attempts back.
    pub fn drain(&mut self) -> Vec<TableAction<J>> {
        let inform = |coordinator: &Arc<str>| TableAction::Send(coordinator.clone(), WorkerReport::Draining);
        let mut actions: Vec<_> = self.streams.keys().map(inform).collect();
        let queued = self.admission.drain();
        actions.extend(self.withdraw(&queued, &Withdrawal::HandBack(refusal_reason::Kind::Draining(v1::Nothing {}))));
        actions
    }

    /// Stops all running attempts.
    pub fn stop_all(&self) -> Vec<TableAction<J>> {
        let jobs = self.attempts.values().filter_map(|attempt| match &attempt.state {
            AttemptState::Running(job) => Some(TableAction::Stop(job.clone())),
            _ => None,
        });
        jobs.collect()
    }

    /// Withdraws attempts: the one place that decides what cancel, recall, drain and disown mean in each state.
    fn withdraw(&mut self, keys: &[RealmAttempt], withdrawal: &Withdrawal) -> Vec<TableAction<J>> {
        use AttemptState::{Answered, Disowned, Persisting, Queued, Running, Unwanted};
        let (mut actions, mut dequeued) = (Vec::new(), BTreeSet::new());
        for key in keys {
            let Some(attempt) = self.attempts.get_mut(key) else { continue };
            if matches!(attempt.state, Queued(_)) {
                dequeued.insert(key);
            }
            match (withdrawal, &attempt.state) {
                (Withdrawal::Cancel, Queued(_)) => {
                    let answer = Arc::new(key.answer(Outcome::Cancelled(v1::Nothing {})));
                    self.unacknowledged.add(&attempt.owner, answer.encoded_len());
                    attempt.state = Persisting(answer.clone());
                    actions.push(persist(key, &attempt.owner, &answer));
                }
                (Withdrawal::Cancel, Running(job)) => actions.push(TableAction::Stop(job.clone())),
                (Withdrawal::HandBack(reason), Queued(_)) => {
                    if self.streams.contains_key(&attempt.owner) {
                        let answer = key.answer(Outcome::Refused(v1::Refusal::for_now(reason.clone())));
                        actions.push(TableAction::Send(attempt.owner.clone(), WorkerReport::Answer(Arc::new(answer))));
                    }
                    self.attempts.remove(key);
                }
                (Withdrawal::Disown, Queued(_)) => drop(self.attempts.remove(key)),
                (Withdrawal::Disown, Running(job)) => {
                    actions.push(TableAction::Stop(job.clone()));
                    attempt.state = Disowned;
                }
                (Withdrawal::Disown, Persisting(answer)) => {
                    self.unacknowledged.remove(&attempt.owner, answer.encoded_len());
                    attempt.state = Unwanted;
                }
                (Withdrawal::Disown, Answered(answer)) => {
                    self.unacknowledged.remove(&attempt.owner, answer.encoded_len());
                    self.attempts.remove(key);
                    actions.push(TableAction::Forget(key.clone()));
                }
                (Withdrawal::Cancel | Withdrawal::Disown, Disowned | Unwanted)
                | (Withdrawal::Cancel, Persisting(_) | Answered(_))
                | (Withdrawal::HandBack(_), Running(_) | Disowned | Unwanted | Persisting(_) | Answered(_)) => {}
            }
        }
        if !dequeued.is_empty() {
            self.admission.withdraw(|key| dequeued.contains(key));
        }
        actions
    }

    /// The coordinator recorded an answer.
    pub fn acknowledge(&mut self, stream: &CoordinatorStream, id: &v1::AttemptId) -> Vec<TableAction<J>> {
        let key = stream.attempt(id);
        let Some(Attempt { state: AttemptState::Answered(answer), .. }) = self.owned(stream, &key) else {
            return Vec::new();
        };
        let bytes = answer.encoded_len();
        self.unacknowledged.remove(&stream.coordinator, bytes);
        self.attempts.remove(&key);
        vec![TableAction::Forget(key)]
    }

    /// An attempt that the coordinator at the other end of this stream owns.
    fn owned(&mut self, stream: &CoordinatorStream, key: &RealmAttempt) -> Option<&mut Attempt<J>> {
        let current = self.is_current(stream);
        self.attempts.get_mut(key).filter(|attempt| current && attempt.owner == stream.coordinator)
    }

    /// A running attempt ended.
    pub fn on_finished(&mut self, key: &RealmAttempt, answer: v1::Answer) -> Vec<TableAction<J>> {
        let Some(attempt) = self.attempts.get_mut(key) else { return Vec::new() };
        let needs = attempt.needs;
        let mut actions = Vec::new();
        match attempt.state {
            AttemptState::Running(_) => {
                let answer = Arc::new(answer);
                self.unacknowledged.add(&attempt.owner, answer.encoded_len());
                attempt.state = AttemptState::Persisting(answer.clone());
                actions.push(persist(key, &attempt.owner, &answer));
            }
            AttemptState::Disowned => drop(self.attempts.remove(key)),
            AttemptState::Queued(_)
            | AttemptState::Unwanted
            | AttemptState::Persisting(_)
            | AttemptState::Answered(_) => return actions,
        }
        actions.extend(self.inform_of_backlogs());
        let next = self.admission.leave(needs);
        actions.extend(self.start(next));
        actions
    }

    fn start_admitted(&mut self) -> Vec<TableAction<J>> {
        let admitted = self.admission.admit();
        self.start(admitted)
    }

    fn start(&mut self, admitted: Vec<RealmAttempt>) -> Vec<TableAction<J>> {
        let mut actions = Vec::with_capacity(admitted.len());
        for key in admitted {
            if let Some(attempt) = self.attempts.get_mut(&key)
                && let AttemptState::Queued(job) = &attempt.state
            {
                let job = job.clone();
                attempt.state = AttemptState::Running(job.clone());
                actions.push(TableAction::Start(job));
            }
        }
        actions
    }

    /// The answer of an attempt is durable, so its coordinator may receive it.
    pub fn on_persisted(&mut self, key: &RealmAttempt) -> Vec<TableAction<J>> {
        let Some(attempt) = self.attempts.get_mut(key) else { return Vec::new() };
        match &attempt.state {
            AttemptState::Persisting(answer) => {
                let answer = answer.clone();
                attempt.state = AttemptState::Answered(answer.clone());
                let connected = self.streams.contains_key(&attempt.owner);
                connected
                    .then(|| TableAction::Send(attempt.owner.clone(), WorkerReport::Answer(answer)))
                    .into_iter()
                    .collect()
            }
            AttemptState::Unwanted => {
                self.attempts.remove(key);
                vec![TableAction::Forget(key.clone())]
            }
            // An answer is written again for a new owner. That write may end after the answer was acknowledged, and after
            // the same attempt has started again.
            AttemptState::Queued(_) | AttemptState::Running(_) | AttemptState::Disowned | AttemptState::Answered(_) => {
                Vec::new()
            }
        }
    }

    /// The answer of an attempt cannot be written. Its coordinator receives it all the same: if this worker ends before the
    /// coordinator has recorded the answer, the attempt is lost and runs again.
    pub fn on_unwritable(&mut self, key: &RealmAttempt) -> Vec<TableAction<J>> {
        match self.attempts.get(key) {
            Some(Attempt { state: AttemptState::Persisting(_) | AttemptState::Unwanted, .. }) => self.on_persisted(key),
            _ => Vec::new(),
        }
    }

    /// The connected coordinator that owns a running attempt.
    pub fn listener(&self, key: &RealmAttempt) -> Option<&Arc<str>> {
        let attempt = self.attempts.get(key).filter(|attempt| matches!(attempt.state, AttemptState::Running(_)))?;
        Some(&attempt.owner).filter(|owner| self.streams.contains_key(*owner))
    }

    /// Slots in use and attempts that wait.
    pub fn load(&self) -> Load {
        self.admission.load()
    }

    /// True if some answers are not durable yet.
    pub fn is_persisting(&self) -> bool {
        self.attempts.values().any(|attempt| matches!(attempt.state, AttemptState::Persisting(_)))
    }
}

fn persist<J>(attempt: &RealmAttempt, owner: &Arc<str>, answer: &Arc<v1::Answer>) -> TableAction<J> {
    TableAction::Persist(OwnedAnswer { attempt: attempt.clone(), owner: owner.clone(), answer: answer.clone() })
}

fn describe<J>(key: &RealmAttempt, attempt: &Attempt<J>, found: &mut Welcome, actions: &mut Vec<TableAction<J>>) {
    match &attempt.state {
        AttemptState::Queued(_) | AttemptState::Running(_) | AttemptState::Persisting(_) => {
            found.running.push(key.key.to_wire());
        }
        AttemptState::Answered(answer) => {
            found.answered.push(key.key.to_wire());
            actions.push(TableAction::Send(attempt.owner.clone(), WorkerReport::Answer(answer.clone())));
        }
        AttemptState::Disowned | AttemptState::Unwanted => {}
    }
}

/// Makes a coordinator the owner of an attempt. An answer is written again, so that the new owner survives a restart.
fn change_owner<J>(
    key: &RealmAttempt,
    attempt: &mut Attempt<J>,
    owner: &Arc<str>,
    unacknowledged: &mut Unacknowledged,
) -> Option<TableAction<J>> {
    if attempt.owner == *owner || matches!(attempt.state, AttemptState::Disowned | AttemptState::Unwanted) {
        return None;
    }
    let former = std::mem::replace(&mut attempt.owner, owner.clone());
    match &attempt.state {
        AttemptState::Persisting(answer) | AttemptState::Answered(answer) => {
            unacknowledged.remove(&former, answer.encoded_len());
            unacknowledged.add(owner, answer.encoded_len());
            Some(persist(key, owner, answer))
        }
        AttemptState::Queued(_) | AttemptState::Running(_) | AttemptState::Disowned | AttemptState::Unwanted => None,
    }
}
