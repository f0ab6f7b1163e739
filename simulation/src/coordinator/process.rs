//! Processes that run at a coordinator: their mail, their clocks, their effects, and their ends.

use std::sync::Arc;

use xavantes_engine::{Action, ElementId, Rejection, Time};
use xavantes_process_coordinator::process::driver_input::{ProcessInput, Steering};
use xavantes_process_coordinator::process::effect::{EffectStep, perform_effects};
use xavantes_process_coordinator::process::ended_summary::Summary;
use xavantes_process_coordinator::process::final_status::{final_results, final_status};
use xavantes_process_coordinator::record_codec;
use xavantes_process_coordinator::subtrees::hosted_subtrees;
use xavantes_process_coordinator::subtrees::parent_links::EndDecision;
use xavantes_process_coordinator::workers::peer_report::reply_ended;
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::{Order, Whereabouts};
use xavantes_proto::AttemptKey;
use xavantes_proto::v1;

use crate::call_request::{CallAnswer, ReplyTo};
use crate::coordinator::state::{AfterWrite, SimEffect, SimInput, SimProcessMail, SimRunner};
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::store::StoreChange;
use crate::world::World;
use crate::world_event::NodeTask;

/// Upper bound on the outstanding activities of a subtree.
const MAX_SUBTREE_ACTIVITIES: u64 = 4;

fn element_of(key: &AttemptKey) -> ElementId {
    ElementId { index: key.element as u32, generation: (key.element >> 32) as u32 }
}

impl World<'_> {
    /// Puts mail into the mailbox of a process. False if the process does not run here.
    pub fn mail(&mut self, c: usize, process: &Arc<str>, mail: SimProcessMail) -> bool {
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(process) else { return false };
        runner.mail.push_back(mail);
        self.wake(c, process);
        true
    }

    /// Sends an input to a process. False if the process does not run here.
    pub fn notify(&mut self, c: usize, process: &Arc<str>, input: SimInput) -> bool {
        self.mail(c, process, SimProcessMail::Input(input))
    }

    /// Lets a process read its mail soon.
    pub fn wake(&mut self, c: usize, id: &Arc<str>) {
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        if !std::mem::replace(&mut runner.awake, true) {
            let number = runner.number;
            let delay = if self.random.one_in(12) { self.random.below(30) } else { self.random.below(2) };
            self.later(NodeRef::Coordinator(c), delay, NodeTask::Wake(id.clone(), number));
        }
    }

    /// A process that runs here since the start with this number.
    pub fn runner(&mut self, c: usize, id: &str, number: u64) -> Option<&mut SimRunner> {
        self.coordinators[c].memory.runners.get_mut(id).filter(|runner| runner.number == number)
    }

    /// A process reads its mail.
    pub fn on_wake(&mut self, c: usize, id: &Arc<str>, number: u64) {
        let share = self.coordinators[c].memory.share;
        let Some(runner) = self.runner(c, id, number) else { return };
        runner.awake = false;
        if runner.ending.is_some() {
            return;
        }
        if self.waits_for_memory(c, id, number) {
            return self.record(c, id, number);
        }
        let Some(runner) = self.runner(c, id, number) else { return };
        if std::mem::take(&mut runner.share_changed) {
            let max_activities = if runner.parent.is_some() { MAX_SUBTREE_ACTIVITIES } else { u64::MAX };
            runner.driver.set_share(share, max_activities);
            self.handle_input(c, id, ProcessInput::Continued);
        }
        while let Some(mail) = self.runner(c, id, number).and_then(|runner| runner.mail.pop_front()) {
            match mail {
                SimProcessMail::Input(input) => self.handle_input(c, id, input),
                SimProcessMail::Called(call, stream) => {
                    self.trace(|| format!("c{c}: {id} gets a call: {call:?}"));
                    let Some(runner) = self.runner(c, id, number) else { continue };
                    match runner.parent.clone().filter(|_| !runner.driver.is_home_of(&call)) {
                        Some(parent) => {
                            let message = self.coordinators[c].memory.parents.forward(&parent, call, stream);
                            self.send_to_parent(message);
                        }
                        None => self.handle_input(c, id, ProcessInput::Called(call, stream)),
                    }
                }
            }
        }
        if self.random.one_in(6) {
            let delay = self.random.between(1, 10);
            self.later(NodeRef::Coordinator(c), delay, NodeTask::Record(id.clone(), number));
        } else {
            self.record(c, id, number);
        }
    }

    /// A process handles an input.
    pub fn handle_input(&mut self, c: usize, id: &Arc<str>, mut input: SimInput) {
        let clock = self.clock(c);
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        let now = Time(runner.engine_clock(clock));
        let is_outstanding = |runner: &SimRunner, key: &AttemptKey| {
            let view = runner.driver.engine().view(element_of(key));
            view.is_some_and(|view| view.outstanding && view.attempts == key.attempt)
        };
        if let ProcessInput::Answered { key, .. } = &mut input
            && self.mutation == Some(Mutation::ForgetAttemptNumber)
            && let Some(view) = runner.driver.engine().view(element_of(key))
        {
            key.attempt = view.attempts;
        }
        if let (ProcessInput::Steered { .. }, Some(Mutation::LoseSteering), true) =
            (&input, self.mutation, self.random.one_in(3))
        {
            if let ProcessInput::Steered { asker, .. } = input {
                self.reply(asker, CallAnswer::Done);
            }
            return;
        }
        if let ProcessInput::Steered { steering: Steering::Engine(Action::Set { .. }), .. } = &input
            && self.mutation == Some(Mutation::LoseSet)
        {
            if let ProcessInput::Steered { asker, .. } = input {
                self.reply(asker, CallAnswer::Done);
            }
            return;
        }
        let answered = match &input {
            ProcessInput::Answered { key, from: Some(_), .. } if is_outstanding(runner, key) => Some(key.clone()),
            _ => None,
        };
        runner.driver.handle(&mut self.tools.sandbox, input, now);
        self.count_bytes(c, id);
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        if let Some(key) = answered.filter(|key| !is_outstanding(runner, key)) {
            runner.taken.push(key.clone());
            let creation = self.creation_at(c, id);
            let problem = self.check.applied(creation, &key);
            self.report_problem(problem);
        }
    }

    /// Sets the timer of a process to its next deadline.
    pub fn set_timer(&mut self, c: usize, id: &Arc<str>) {
        let clock = self.clock(c);
        let now = self.now;
        let Some(runner) = self.coordinators[c].memory.runners.get_mut(id) else { return };
        let Some(deadline) = runner.driver.engine().next_deadline() else { return };
        let time = runner.engine_clock(clock);
        let at = now + deadline.0.saturating_sub(time) + 1;
        if at < runner.timer || runner.timer <= now {
            runner.timer = at;
            let number = runner.number;
            self.later(NodeRef::Coordinator(c), at - now, NodeTask::Timer(id.clone(), number));
        }
    }

    /// A process reaches its deadline.
    pub fn on_timer(&mut self, c: usize, id: &Arc<str>, number: u64) {
        let Some(runner) = self.runner(c, id, number) else { return };
        runner.timer = u64::MAX;
        if runner.ending.is_none() && !runner.waits {
            self.handle_input(c, id, ProcessInput::TimePassed);
            self.record(c, id, number);
            self.set_timer(c, id);
        }
    }

    /// Another coordinator owns a process that runs here.
    pub fn lose_runner(&mut self, c: usize, id: &Arc<str>) {
        self.trace(|| format!("c{c} has lost {id}"));
        let memory = &mut self.coordinators[c].memory;
        let answers = memory.foreign.entry(id.clone()).or_default();
        if let Some(mut runner) = memory.runners.remove(id) {
            answers.extend(runner.driver.unacknowledged(runner.writing.map(|(batch, _)| batch)));
            answers.extend(runner.mail.into_iter().filter_map(|mail| match mail {
                SimProcessMail::Input(input) => input.into_unacknowledged(),
                SimProcessMail::Called(..) => None,
            }));
            if let Some(parent) = runner.parent {
                memory.parents.leave(&parent, id);
            }
        }
        self.pool_input(c, PoolInput::ProcessLost(id.clone()));
    }

    /// Carries out effects whose reason is recorded.
    pub fn carry_out_effects(&mut self, c: usize, id: &Arc<str>, effects: Vec<SimEffect>) {
        perform_effects(effects, |step| match step {
            EffectStep::Pool(input) => self.pool_input(c, *input),
            EffectStep::Send(stream, order) => self.order(stream, order),
            EffectStep::Decide(asker, decision) => self.on_decision(c, id, asker, decision.map(|_| ())),
            // No process of the simulation has a cache or watchers.
            EffectStep::SearchCache(..) | EffectStep::Publish { .. } => {}
        });
    }

    /// A process has decided about a request.
    fn on_decision(&mut self, c: usize, id: &Arc<str>, asker: ReplyTo, decision: Result<(), Rejection>) {
        let is_move = !matches!(asker, ReplyTo::User(_));
        let answer = match decision {
            Ok(()) if is_move => CallAnswer::Noted,
            Err(_) if is_move => CallAnswer::Unwanted,
            Ok(()) => CallAnswer::Done,
            Err(Rejection::Delegated { element, attempt }) => {
                let key = AttemptKey::new(id.clone(), element.bits(), attempt);
                let place = self.coordinators[c].memory.pool.whereabouts(&[key]).pop().flatten();
                match place {
                    Some(Whereabouts::At { address, .. }) => CallAnswer::There(address),
                    _ => CallAnswer::Rejected,
                }
            }
            Err(_) => CallAnswer::Rejected,
        };
        self.reply(asker, answer);
    }

    /// A process ends.
    pub fn end(&mut self, c: usize, id: &Arc<str>) {
        self.pool_input(c, PoolInput::ProcessEnded(id.clone()));
        let ended_ms = self.coordinators[c].machine.wall(self.now);
        let memory = &mut self.coordinators[c].memory;
        let Some(runner) = memory.runners.get_mut(id) else { return };
        let is_kept = runner.driver.engine().state().is_reopenable() && runner.parent.is_none();
        let kept = is_kept.then(|| runner.driver.snapshot());
        let Some((outcome, results)) = runner.driver.engine().state().ended() else { return };
        let status = final_status(v1::ProcessStatus::default(), outcome, runner.driver.counts(), ended_ms);
        let (state, history) = (status.state(), runner.driver.history(0));
        if let Some(parent) = &runner.parent {
            let answer =
                hosted_subtrees::outcome(runner.driver.engine().program(), runner.driver.root(), outcome, results);
            let answer = hosted_subtrees::answer(&parent.key, id, answer, runner.driver.counts(), &history, Vec::new());
            let decision = memory.parents.finish(parent, answer);
            self.trace(|| format!("c{c}: {id} has ended {state:?}"));
            self.answer_late_mail(c, id);
            return match decision {
                EndDecision::Answer(message) => self.send_to_parent(message),
                EndDecision::Discard => self.discard(c, id),
            };
        }
        let summary = Summary::new(&status, final_results(outcome, results), &history);
        let (change, number) = (StoreChange::Close(id.clone(), record_codec::encode(&summary), kept), runner.number);
        runner.ending = Some(summary);
        self.trace(|| format!("c{c}: {id} has ended {state:?}"));
        self.write(c, change, AfterWrite::Closed(id.clone(), number));
    }

    /// A process has ended: answers the mail that is left.
    pub fn answer_late_mail(&mut self, c: usize, id: &Arc<str>) {
        let Some(runner) = self.coordinators[c].memory.runners.remove(id) else { return };
        for mail in runner.mail {
            match mail {
                SimProcessMail::Called(call, stream) => self.order(stream, Order::Reply(reply_ended(call.ticket))),
                SimProcessMail::Input(
                    ProcessInput::Steered { asker, .. } | ProcessInput::StillWanted { asker, .. },
                ) => {
                    self.reply(asker, CallAnswer::Rejected);
                }
                SimProcessMail::Input(
                    ProcessInput::Answered { key, from: Some(stream), .. }
                    | ProcessInput::Doubted { key, from: Some(stream) },
                ) => {
                    self.order(stream, Order::Acknowledge(key));
                }
                SimProcessMail::Input(_) => {}
            }
        }
    }
}
