//! A worker: the attempt table of the activity manager, a disk for answers, and activities that only take time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use xavantes_activity_manager::attempts::action::{Action, OwnedAnswer};
use xavantes_activity_manager::attempts::admission::Resources;
use xavantes_activity_manager::attempts::key::RealmAttempt;
use xavantes_activity_manager::attempts::table::{AttemptTable, ReadyJob};
use xavantes_activity_manager::report_batch::OutgoingReport;
use xavantes_proto::v1;
use xavantes_proto::v1::answer::Outcome;

use crate::documents::value;
use crate::mutation::Mutation;
use crate::network::Side;
use crate::world::{Ambush, Event, Machine, Task, Who, World};

/// An activity that can run.
#[derive(Debug)]
pub struct Job {
    pub key: RealmAttempt,
    pub path: String,
    number: i64,
    objects: [Option<v1::SharedReference>; 2],
}

/// An activity that runs.
#[derive(Debug)]
struct Running {
    job: Arc<Job>,
    /// Calls that were answered.
    calls: u64,
    ticket: Option<u64>,
    stop: bool,
    fails: bool,
    pace: u64,
}

#[derive(Debug)]
enum Record {
    Answer(RealmAttempt, Arc<str>, Arc<v1::Answer>),
    Forgotten(RealmAttempt),
}

/// What ends with a life.
#[derive(Debug)]
struct Memory {
    table: AttemptTable<Arc<Job>>,
    /// The stream of each coordinator.
    outboxes: BTreeMap<Arc<str>, usize>,
    programs: BTreeSet<String>,
    writes: VecDeque<Record>,
    /// How many of them are being written.
    writing: usize,
    running: BTreeMap<u64, Running>,
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    pub machine: Machine,
    pub slots: u32,
    queue: u32,
    pub disk: BTreeMap<RealmAttempt, (Arc<str>, Arc<v1::Answer>)>,
    memory: Memory,
}

impl Memory {
    fn new(slots: u32, queue: u32) -> Self {
        Self {
            table: AttemptTable::new(Resources::slots(slots), queue as usize),
            outboxes: BTreeMap::new(),
            programs: BTreeSet::new(),
            writes: VecDeque::new(),
            writing: 0,
            running: BTreeMap::new(),
        }
    }
}

impl Worker {
    pub fn new(machine: Machine, slots: u32, queue: u32) -> Self {
        Self { machine, slots, queue, disk: BTreeMap::new(), memory: Memory::new(slots, queue) }
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Answer(key, owner, answer) => drop(self.disk.insert(key, (owner, answer))),
            Record::Forgotten(key) => drop(self.disk.remove(&key)),
        }
    }
}

impl World<'_> {
    /// A crash: of what was not written, some may have reached the disk.
    pub fn worker_crashed(&mut self, w: usize) {
        let keeps = self.random.one_in(2);
        let worker = &mut self.workers[w];
        let mut writes = std::mem::take(&mut worker.memory.writes);
        if keeps {
            let some = self.random.below(writes.len() as u64 + 1) as usize;
            writes.drain(..some).for_each(|record| worker.write(record));
        }
        worker.memory = Memory::new(worker.slots, worker.queue);
        self.check.worker_crashed(w, &self.workers[w].machine.name, self.now);
    }

    pub fn worker_started(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        self.check.worker_started(&worker.machine.name, self.now);
        for (key, (owner, answer)) in &worker.disk {
            worker.memory.table.restore(OwnedAnswer {
                attempt: key.clone(),
                owner: owner.clone(),
                answer: answer.clone(),
            });
        }
    }

    pub fn worker_disconnected(&mut self, w: usize, stream: usize) {
        let Some(connection) = self.streams[stream].coordinator_stream.clone() else { return };
        let memory = &mut self.workers[w].memory;
        if memory.table.is_current(&connection) {
            memory.table.disconnect(&connection);
            memory.outboxes.remove(&connection.coordinator);
        }
    }

    /// An order arrives.
    pub fn worker_takes(&mut self, w: usize, stream: usize, order: v1::WorkOrder) {
        let late = self.streams[stream].closed[Side::Server as usize];
        if let Some(hello) = &order.hello {
            if late {
                return;
            }
            let coordinator: Arc<str> = format!("{}/{}", hello.group, hello.node).into();
            let worker = &mut self.workers[w];
            let (connection, welcome, actions) =
                worker.memory.table.connect(&coordinator, &hello.realm.as_str().into());
            self.streams[stream].coordinator_stream = Some(connection);
            let hello = v1::WorkerHello {
                node: worker.machine.name.to_string(),
                slots: worker.slots,
                queue: worker.queue,
                running: welcome.running,
                answered: welcome.answered,
                ..v1::WorkerHello::default()
            };
            let former = worker.memory.outboxes.insert(coordinator, stream);
            if let Some(former) = former {
                self.close(former, Side::Server);
            }
            self.report(stream, OutgoingReport::Hello(hello));
            self.perform(w, actions);
        }
        let Some(mut connection) = self.streams[stream].coordinator_stream.clone() else { return };
        let worker = &mut self.workers[w];
        if late || !worker.memory.table.is_current(&connection) {
            if self.mutation != Some(Mutation::OldStreamOrders) {
                return;
            }
            let current = worker.memory.outboxes.get(&connection.coordinator);
            let Some(current) = current.and_then(|current| self.streams[*current].coordinator_stream.clone()) else {
                return;
            };
            connection = current;
        }
        let worker = &mut self.workers[w];
        worker.memory.programs.extend(order.programs.into_iter().map(|program| program.digest));
        if !order.claims.is_empty() && self.mutation != Some(Mutation::SkipClaims) {
            let actions = worker.memory.table.claim(&connection, order.claims);
            self.perform(w, actions);
        }
        if order.recall {
            let actions = self.workers[w].memory.table.recall(&connection);
            self.perform(w, actions);
        }
        for id in &order.acknowledged {
            let actions = self.workers[w].memory.table.acknowledge(&connection, id);
            self.perform(w, actions);
        }
        for job in order.jobs {
            let Some(id) = &job.id else { continue };
            let key = connection.attempt(id);
            let ready = ready(&key, &job, &self.workers[w].memory.programs);
            let actions = self.workers[w].memory.table.on_job(&connection, key, job.epoch, ready);
            self.perform(w, actions);
        }
        for id in &order.cancels {
            let actions = self.workers[w].memory.table.cancel(&connection, id);
            self.perform(w, actions);
        }
        for reply in order.replies {
            if self.workers[w].memory.table.on_reply(&connection, reply.ticket) {
                self.replied(w, reply);
            }
        }
    }

    fn perform(&mut self, w: usize, actions: Vec<Action<Arc<Job>>>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Start(job) => self.begin(w, job),
                Action::Stop(job) => {
                    let running = &mut self.workers[w].memory.running;
                    let found = running.iter_mut().find(|(_, running)| running.job.key == job.key);
                    if let Some((number, running)) = found {
                        running.stop = true;
                        let number = *number;
                        let delay = self.random.between(0, 200);
                        self.later(Who::Worker(w), delay, Task::Step(number));
                    }
                }
                Action::Send(coordinator, report) => {
                    let Some(stream) = self.workers[w].memory.outboxes.get(&coordinator).copied() else { continue };
                    self.report(stream, OutgoingReport::Attempt(report));
                }
                Action::Persist(OwnedAnswer { attempt: key, owner, answer }) => match self.mutation {
                    Some(Mutation::AnswersNotKept) => actions.extend(self.safe(w, &key)),
                    Some(Mutation::SendBeforeDurable) => {
                        actions.extend(self.safe(w, &key));
                        self.keep(w, Record::Answer(key, owner, answer));
                    }
                    _ => self.keep(w, Record::Answer(key, owner, answer)),
                },
                Action::Forget(key) => self.keep(w, Record::Forgotten(key)),
            }
        }
    }

    fn keep(&mut self, w: usize, record: Record) {
        if matches!(record, Record::Answer(..)) {
            self.ambush(Ambush::Keep, Who::Worker(w));
        }
        self.workers[w].memory.writes.push_back(record);
        self.write_soon(w);
    }

    fn write_soon(&mut self, w: usize) {
        let memory = &mut self.workers[w].memory;
        if memory.writing == 0 && !memory.writes.is_empty() {
            memory.writing = memory.writes.len();
            let delay = if self.random.one_in(8) { self.random.between(20, 400) } else { self.random.between(1, 8) };
            self.later(Who::Worker(w), delay, Task::Kept);
        }
    }

    /// What was being written is on the disk.
    pub fn on_kept(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        let count = std::mem::take(&mut worker.memory.writing);
        let written: Vec<Record> = worker.memory.writes.drain(..count).collect();
        let mut keys = Vec::new();
        for record in written {
            if let Record::Answer(key, ..) = &record {
                keys.push(key.clone());
            }
            worker.write(record);
        }
        for key in keys {
            let actions = self.safe(w, &key);
            self.perform(w, actions);
        }
        self.write_soon(w);
    }

    fn safe(&mut self, w: usize, key: &RealmAttempt) -> Vec<Action<Arc<Job>>> {
        self.check.kept(key);
        self.ambush(Ambush::Kept, Who::Worker(w));
        self.workers[w].memory.table.on_persisted(key)
    }

    fn begin(&mut self, w: usize, job: Arc<Job>) {
        let number = self.count();
        let creation = self.creation(&job.key.realm, &job.key.key.process);
        self.trace(|| format!("w{w} begins {} attempt {} ({number})", job.path, job.key.key.attempt));
        let problem = self.check.began(number, &job, w, creation, self.now);
        self.broken(problem);
        let pace = match self.random.below(12) {
            0 => self.random.between(1500, 5000),
            1..4 => self.random.between(200, 1500),
            _ => self.random.between(2, 200),
        };
        let fails = self.random.one_in(12);
        self.workers[w]
            .memory
            .running
            .insert(number, Running { job, calls: 0, ticket: None, stop: false, fails, pace });
        let delay = 1 + self.random.below(pace);
        self.later(Who::Worker(w), delay, Task::Step(number));
    }

    /// An activity goes on.
    pub fn step(&mut self, w: usize, number: u64) {
        let stubborn = self.random.one_in(6);
        let memory = &mut self.workers[w].memory;
        let Some(running) = memory.running.get_mut(&number) else { return };
        let id = running.job.key.key.to_wire();
        if running.stop && !(stubborn && running.calls == 2) {
            running.ticket.into_iter().for_each(|ticket| memory.table.abandon_call(ticket));
            return self.finish(w, number, Outcome::Cancelled(v1::Nothing {}));
        }
        if running.ticket.is_some() {
            return;
        }
        if running.fails && running.calls == 0 {
            return self.finish(w, number, failed("bad luck"));
        }
        let call = v1::SharedCall {
            id: Some(id),
            sequence: running.calls + 1,
            acknowledged: running.calls,
            ..v1::SharedCall::default()
        };
        let call = match running.calls {
            0 => v1::SharedCall { object: running.job.objects[0].clone(), method: "add".into(), ..call },
            1 => {
                let argument = v1::Value { kind: Some(v1::value::Kind::Int(number as i64)) };
                let object = running.job.objects[1].clone();
                v1::SharedCall { object, method: "append".into(), arguments: vec![argument], ..call }
            }
            _ => {
                let result = v1::Value { kind: Some(v1::value::Kind::Int(value(running.job.number))) };
                return self.finish(w, number, Outcome::Completed(v1::Completed { results: vec![result] }));
            }
        };
        let (ticket, actions) = memory.table.on_call(&running.job.key, call);
        running.ticket = Some(ticket);
        self.check.called(number);
        self.trace(|| format!("w{w}: {number} calls ({ticket})"));
        self.perform(w, actions);
    }

    fn replied(&mut self, w: usize, reply: v1::SharedReply) {
        let running = &mut self.workers[w].memory.running;
        let Some((number, running)) = running.iter_mut().find(|(_, it)| it.ticket == Some(reply.ticket)) else {
            return;
        };
        let number = *number;
        running.ticket = None;
        self.trace(|| format!("w{w}: {number} hears {:?}", reply.result));
        let running = &mut self.workers[w].memory.running;
        let Some(running) = running.get_mut(&number) else { return };
        if let Some(v1::shared_reply::Result::Error(message)) = reply.result {
            return self.finish(w, number, failed(&message));
        }
        running.calls += 1;
        if running.calls == 2 {
            self.check.logged(number);
        }
        let delay = 1 + self.random.below(running.pace);
        self.later(Who::Worker(w), delay, Task::Step(number));
    }

    fn finish(&mut self, w: usize, number: u64, outcome: Outcome) {
        let Some(running) = self.workers[w].memory.running.remove(&number) else { return };
        self.trace(|| {
            format!("w{w} finishes {} attempt {}: {outcome:?}", running.job.path, running.job.key.key.attempt)
        });
        self.check.finished(number, &outcome);
        let key = running.job.key.clone();
        let actions = self.workers[w].memory.table.on_finished(&key, key.answer(outcome));
        self.perform(w, actions);
    }

    pub fn creation(&self, realm: &str, process: &str) -> u64 {
        let store = self.stores.iter().find(|store| *store.realm == *realm);
        store.and_then(|store| store.creations.get(process)).copied().unwrap_or_default()
    }

    pub fn later(&mut self, who: Who, delay: u64, task: Task) {
        let life = self.machine(who).life;
        self.at(self.now + delay, Event::Node(who, life, task));
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(v1::Failure {
        kind: v1::FailureKind::Code.into(),
        message: message.into(),
        ..v1::Failure::default()
    })
}

fn ready(key: &RealmAttempt, job: &v1::Job, programs: &BTreeSet<String>) -> Result<ReadyJob<Arc<Job>>, v1::Refusal> {
    if !programs.contains(&job.program) {
        return Err(v1::Refusal::permanent(v1::refusal_reason::Kind::UnknownProgram(v1::Nothing {})));
    }
    let kind = |at: usize| job.parameters.get(at).and_then(|value| value.kind.clone());
    let number = match kind(0) {
        Some(v1::value::Kind::Int(number)) => number,
        _ => 0,
    };
    let object = |at| match kind(at) {
        Some(v1::value::Kind::Shared(object)) => Some(object),
        _ => None,
    };
    let job = Job { key: key.clone(), path: job.path.clone(), number, objects: [object(1), object(2)] };
    Ok(ReadyJob { needs: Resources::slots(1), job: Arc::new(job) })
}
