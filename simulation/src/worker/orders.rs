//! A worker takes orders, performs the actions of its attempt table, and writes answers to its disk.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use xavantes_activity_manager::attempts::action::{OwnedAnswer, TableAction};
use xavantes_activity_manager::attempts::admission::Resources;
use xavantes_activity_manager::attempts::attempt_table::ReadyJob;
use xavantes_activity_manager::attempts::order::TableOrder;
use xavantes_activity_manager::attempts::realm_attempt::RealmAttempt;
use xavantes_activity_manager::report_batch::OutgoingReport;
use xavantes_model::definition::Program;
use xavantes_proto::v1;

use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::stream::Side;
use crate::worker::state::{ActivityKind, DiskRecord, SimJob, WorkerMemory};
use crate::world::World;
use crate::world_event::{CrashPoint, NodeTask};

impl World<'_> {
    /// A worker crashes. Some of the records that it was writing may have reached the disk.
    pub fn worker_crashed(&mut self, w: usize) {
        let keeps = self.random.one_in(2);
        let worker = &mut self.workers[w];
        let mut writes = std::mem::take(&mut worker.memory.writes);
        if keeps {
            let some = self.random.below(writes.len() as u64 + 1) as usize;
            writes.drain(..some).for_each(|record| worker.write(record));
        }
        worker.memory = WorkerMemory::new(worker.slots, worker.queue);
        self.check.worker_crashed(w, &self.workers[w].machine.name, self.now);
    }

    /// A worker starts, with the answers on its disk.
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

    /// A worker notices the end of a stream.
    pub fn worker_disconnected(&mut self, w: usize, stream: usize) {
        let Some(connection) = self.streams[stream].coordinator_stream.clone() else { return };
        let memory = &mut self.workers[w].memory;
        if memory.table.is_current(&connection) {
            memory.table.disconnect(&connection);
            memory.outboxes.remove(&connection.coordinator);
        }
    }

    /// An order arrives at a worker.
    pub fn on_worker_order(&mut self, w: usize, stream: usize, mut order: v1::WorkOrder) {
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
            self.report_running_later(w, stream);
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
        let memory = &mut self.workers[w].memory;
        memory.programs.extend(std::mem::take(&mut order.programs).into_iter().map(|program| program.digest));
        if self.mutation == Some(Mutation::SkipClaims) {
            order.claims.clear();
        }
        order.recall &= self.mutation != Some(Mutation::IgnoreRecalls);
        let (programs, known) = (&memory.programs, &self.tools.program);
        let order = TableOrder::new(&connection, order, |key, job| ready(key, &job, programs, known));
        let actions = memory.table.on_order(&connection, order).unwrap_or_default();
        self.perform(w, actions);
    }

    pub fn perform(&mut self, w: usize, actions: Vec<TableAction<Arc<SimJob>>>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                TableAction::Start(_) | TableAction::Stop(_) if self.workers[w].silent => {}
                TableAction::Start(job) => self.begin(w, job),
                TableAction::Stop(job) => {
                    let running = &mut self.workers[w].memory.running;
                    let found = running.iter_mut().find(|(_, running)| running.job.key == job.key);
                    if let Some((number, running)) = found {
                        running.stop = true;
                        let number = *number;
                        let delay = self.random.between(0, 200);
                        self.later(NodeRef::Worker(w), delay, NodeTask::Step(number));
                    }
                }
                TableAction::Send(coordinator, report) => {
                    let Some(stream) = self.workers[w].memory.outboxes.get(&coordinator).copied() else { continue };
                    self.report(stream, OutgoingReport::Attempt(report));
                }
                TableAction::Persist(OwnedAnswer { attempt: key, owner, answer }) => match self.mutation {
                    Some(Mutation::AnswersNotKept) => actions.extend(self.mark_persisted(w, &key)),
                    Some(Mutation::SendBeforeDurable) => {
                        actions.extend(self.mark_persisted(w, &key));
                        self.persist(w, DiskRecord::Answer(key, owner, answer));
                    }
                    _ => self.persist(w, DiskRecord::Answer(key, owner, answer)),
                },
                TableAction::Forget(key) => self.persist(w, DiskRecord::Forgotten(key)),
                TableAction::Reply(reply) => self.on_shared_reply(w, reply),
            }
        }
    }

    fn persist(&mut self, w: usize, record: DiskRecord) {
        if matches!(record, DiskRecord::Answer(..)) {
            self.pass_crash_point(CrashPoint::AnswerWrite, NodeRef::Worker(w));
        }
        self.workers[w].memory.writes.push_back(record);
        self.write_soon(w);
    }

    fn write_soon(&mut self, w: usize) {
        let memory = &mut self.workers[w].memory;
        if memory.writing == 0 && !memory.writes.is_empty() {
            memory.writing = memory.writes.len();
            let delay = if self.random.one_in(8) { self.random.between(20, 400) } else { self.random.between(1, 8) };
            self.later(NodeRef::Worker(w), delay, NodeTask::Persisted);
        }
    }

    /// The records that a worker was writing are on its disk.
    pub fn on_persisted(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        let count = std::mem::take(&mut worker.memory.writing);
        let written: Vec<DiskRecord> = worker.memory.writes.drain(..count).collect();
        let mut keys = Vec::new();
        for record in written {
            if let DiskRecord::Answer(key, ..) = &record {
                keys.push(key.clone());
            }
            worker.write(record);
        }
        for key in keys {
            let actions = self.mark_persisted(w, &key);
            self.perform(w, actions);
        }
        self.write_soon(w);
    }

    fn mark_persisted(&mut self, w: usize, key: &RealmAttempt) -> Vec<TableAction<Arc<SimJob>>> {
        self.check.kept(key);
        self.pass_crash_point(CrashPoint::AnswerPersisted, NodeRef::Worker(w));
        self.workers[w].memory.table.on_persisted(key)
    }
}

fn ready(
    key: RealmAttempt,
    job: &v1::Job,
    programs: &BTreeSet<String>,
    program: &Program,
) -> Result<ReadyJob<Arc<SimJob>>, v1::Refusal> {
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
    let kind = ActivityKind::of(&program.activities[job.activity as usize].name);
    let (path, timeout_ms, objects) = (job.path.clone(), job.timeout_ms, [object(1), object(2)]);
    let job = SimJob { key, path, kind, timeout_ms, number, objects };
    Ok(ReadyJob { needs: Resources::slots(1), job: Arc::new(job) })
}
