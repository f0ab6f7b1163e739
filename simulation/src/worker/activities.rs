//! Activities of a worker. They call a counter and a log, take time, and sometimes fail.

use std::sync::Arc;

use xavantes_proto::v1;
use xavantes_proto::v1::answer::Outcome;

use crate::check::{INTENDED_FAILURE, TIMED_OUT};
use crate::mutation::Mutation;
use crate::random::Random;
use crate::simulated_machine::NodeRef;
use crate::worker::state::{ActivityKind, RunningActivity, SimJob};
use crate::world::World;
use crate::world_documents::value;
use crate::world_event::NodeTask;

/// An activity has ended this long after its time-out, unless its worker was frozen.
const TIMEOUT_SLACK_MS: u64 = 500;

impl World<'_> {
    /// An activity begins.
    pub fn begin(&mut self, w: usize, job: Arc<SimJob>) {
        let number = self.count();
        self.free_slots.on_begin(w);
        let creation = self.creation(&job.key.realm, &job.key.key.process);
        self.trace(|| format!("w{w} begins {} attempt {} ({number})", job.path, job.key.key.attempt));
        let problem = self.check.began(number, &job, w, creation, self.now);
        self.report_problem(problem);
        if self.workers[w].memory.draining {
            self.report_problem(Some(format!("w{w} drains, and begins {}", job.path)));
        }
        let pace = match self.random.below(12) {
            0 => self.random.between(1500, 5000),
            1..4 => self.random.between(200, 1500),
            _ => self.random.between(2, 200),
        };
        let unlucky = |random: &mut Random, kind, times| job.kind == kind && random.one_in(times);
        let fails =
            unlucky(&mut self.random, ActivityKind::Work, 12) || unlucky(&mut self.random, ActivityKind::Fragile, 5);
        let hangs = unlucky(&mut self.random, ActivityKind::Endless, 6);
        if let Some(timeout) = job.timeout_ms.filter(|_| self.mutation != Some(Mutation::IgnoreTimeouts)) {
            self.later(NodeRef::Worker(w), timeout, NodeTask::TimedOut(number));
        }
        let (calls, ticket, stop, timed_out, began) = (0, None, false, false, self.now);
        let running = RunningActivity { job, calls, ticket, stop, timed_out, fails, hangs, pace, began };
        self.workers[w].memory.running.insert(number, running);
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
            let outcome = match running.timed_out {
                true => failed(v1::FailureKind::Timeout, TIMED_OUT),
                false => Outcome::Cancelled(v1::Nothing {}),
            };
            return self.finish(w, number, outcome);
        }
        if running.ticket.is_some() || (running.hangs && running.calls == 1) {
            return;
        }
        if running.fails && running.calls == 0 {
            return self.finish(w, number, failed(v1::FailureKind::Code, INTENDED_FAILURE));
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

    /// An activity reaches its time-out.
    pub fn on_timed_out(&mut self, w: usize, number: u64) {
        let Some(running) = self.workers[w].memory.running.get_mut(&number).filter(|running| !running.stop) else {
            return;
        };
        (running.stop, running.timed_out) = (true, true);
        self.trace(|| format!("w{w}: {number} reaches its time-out"));
        let delay = self.random.between(0, 200);
        self.later(NodeRef::Worker(w), delay, NodeTask::Step(number));
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
            return self.finish(w, number, failed(v1::FailureKind::Code, &message));
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
        let limit = running.job.timeout_ms.map_or(u64::MAX, |timeout| timeout + TIMEOUT_SLACK_MS);
        let frozen = self.workers[w].machine.frozen_until >= running.began;
        if self.now - running.began > limit && !frozen {
            self.report_problem(Some(format!("{} ran beyond its TIMEOUT", running.job.path)));
        }
        let key = running.job.key.clone();
        let actions = self.workers[w].memory.table.on_finished(&key, key.answer(outcome));
        self.perform(w, actions);
    }
}

fn failed(kind: v1::FailureKind, message: &str) -> Outcome {
    Outcome::Failed(v1::Failure { kind: kind.into(), message: message.into(), ..v1::Failure::default() })
}
