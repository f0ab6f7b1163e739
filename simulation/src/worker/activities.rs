//! Activities of a worker. They call a counter and a log, take time, and sometimes fail.

use std::sync::Arc;

use xavantes_proto::v1;
use xavantes_proto::v1::answer::Outcome;

use crate::check::INTENDED_FAILURE;
use crate::documents::value;
use crate::event::NodeTask;
use crate::machine::NodeRef;
use crate::worker::state::{RunningActivity, SimJob};
use crate::world::World;

impl World<'_> {
    /// An activity begins.
    pub fn begin(&mut self, w: usize, job: Arc<SimJob>) {
        let number = self.count();
        let creation = self.creation(&job.key.realm, &job.key.key.process);
        self.trace(|| format!("w{w} begins {} attempt {} ({number})", job.path, job.key.key.attempt));
        let problem = self.check.began(number, &job, w, creation, self.now);
        self.report_problem(problem);
        let pace = match self.random.below(12) {
            0 => self.random.between(1500, 5000),
            1..4 => self.random.between(200, 1500),
            _ => self.random.between(2, 200),
        };
        let fails = self.random.one_in(12);
        self.workers[w]
            .memory
            .running
            .insert(number, RunningActivity { job, calls: 0, ticket: None, stop: false, fails, pace });
        let delay = 1 + self.random.below(pace);
        self.later(NodeRef::Worker(w), delay, NodeTask::Step(number));
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
            return self.finish(w, number, failed(INTENDED_FAILURE));
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

    /// The reply to a call of a shared object arrives.
    pub fn on_shared_reply(&mut self, w: usize, reply: v1::SharedReply) {
        let running = &mut self.workers[w].memory.running;
        let Some((number, running)) = running.iter_mut().find(|(_, it)| it.ticket == Some(reply.ticket)) else {
            return;
        };
        let number = *number;
        running.ticket = None;
        self.trace(|| format!("w{w}: {number} gets {:?}", reply.result));
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
        self.later(NodeRef::Worker(w), delay, NodeTask::Step(number));
    }

    /// An activity ends.
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
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(v1::Failure {
        kind: v1::FailureKind::Code.into(),
        message: message.into(),
        ..v1::Failure::default()
    })
}
