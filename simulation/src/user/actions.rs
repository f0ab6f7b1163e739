//! Users submit processes, pause, resume, cancel and repeat parts of them, and retry cancelled ones.

use std::sync::Arc;

use xavantes_engine::Action;
use xavantes_process_coordinator::process::driver_input::Steering;

use crate::call_request::{CallAnswer, CallRequest, ReplyTo};
use crate::simulated_machine::NodeRef;
use crate::user::state::{Belief, PendingRequest, Submission};
use crate::world::World;
use crate::world_documents::{SetChange, change};
use crate::world_event::{UserAction, WorldEvent};

/// A user gives up a request after this time, long after every answer that arrives at all.
const REQUEST_TIMEOUT_MS: u64 = 8_000;

impl World<'_> {
    pub fn ask(&mut self, case: usize, asked: PendingRequest, to: NodeRef, request: CallRequest) {
        let ticket = self.count();
        self.users.pending.insert(ticket, (case, asked));
        self.call(None, to, request, ReplyTo::User(ticket));
        self.at(self.now + REQUEST_TIMEOUT_MS, WorldEvent::User(UserAction::Answered(ticket, CallAnswer::Nothing)));
    }

    /// A user acts.
    pub fn on_user_action(&mut self, task: UserAction) {
        match task {
            UserAction::Submit(case) => {
                let Submission { id, process_type, n, group, acknowledged, .. } = &self.users.submissions[case];
                if *acknowledged {
                    return;
                }
                let request = CallRequest::Submit { id: id.clone(), process_type, n: *n };
                let members: Vec<usize> =
                    (0..self.coordinators.len()).filter(|c| self.coordinators[*c].machine.group == *group).collect();
                if let Some(c) = self.random.pick(&members) {
                    self.ask(case, PendingRequest::Submit, NodeRef::Coordinator(c), request);
                }
            }
            UserAction::Steer(case) => {
                self.random.below(2);
                self.steer(case);
                if !self.has_ended(case) || self.reopen_sometimes(case) || self.users.submissions[case].retried {
                    let delay = self.random.between(9000, 12000);
                    self.at(self.now + delay, WorldEvent::User(UserAction::Steer(case)));
                }
            }
            UserAction::Rescue(case) => {
                self.rescue(case);
                if !self.has_ended(case) || self.users.submissions[case].retried {
                    let delay = self.random.between(1000, 4000);
                    self.at(self.now + delay, WorldEvent::User(UserAction::Rescue(case)));
                }
            }
            UserAction::Answered(ticket, answer) => self.on_user_answer(ticket, answer),
        }
    }

    fn steer(&mut self, number: usize) {
        let case = &self.users.submissions[number];
        let Some((c, driver)) = self.driver(&case.id) else { return };
        let (id, to) = (case.id.clone(), NodeRef::Coordinator(c));
        let ask = |action| CallRequest::Steer { path: id.clone(), action: Steering::Engine(action) };
        if case.paused != Belief::No {
            let case = &mut self.users.submissions[number];
            case.paused = Belief::Maybe;
            return self.ask(number, PendingRequest::Resume, to, ask(Action::Resume));
        }
        if self.is_healed() || !self.steers {
            return;
        }
        // A copy of the generator, because `driver` borrows the world.
        let mut random = self.random.clone();
        match random.below(18) {
            0..5 => self.ask(number, PendingRequest::Pause, to, ask(Action::Pause)),
            5 => {
                let request = ask(Action::Cancel);
                let before = std::mem::replace(&mut self.users.submissions[number].cancelled, Belief::Maybe);
                self.ask(number, PendingRequest::Cancel(before), to, request);
            }
            choice @ 6..12 => {
                // An outstanding element, here or in a subtree.
                let engine = driver.engine();
                let mut at = engine.root();
                while let Some(view) = at.and_then(|at| engine.view(at)) {
                    if view.outstanding {
                        break;
                    }
                    at = random.pick(&view.children);
                }
                let Some(view) = at.and_then(|at| engine.view(at)) else { return };
                let action = if choice < 9 { Steering::RetryElsewhere } else { Steering::Engine(Action::Retry) };
                let path: Arc<str> = view.path.into();
                // The invariants do not follow the attempts inside a subtree, and in a part that may begin again.
                let counts = view.tag == "ACTIVITY" && !self.check.was_asked(&path);
                let attempt = if counts { view.attempts } else { 0 };
                self.check.asked.push(path.to_string());
                let request = CallRequest::Steer { path: path.clone(), action: action.clone() };
                self.ask(number, PendingRequest::Again(path, action, attempt), to, request);
            }
            12..15 if case.changed == Belief::No => {
                let Some(SetChange { element, key, value }) = change(case.process_type, case.n) else { return };
                let action = Action::Set { key: key.into(), value: value.to_string() };
                let path = format!("{id}/{element}").into();
                self.users.submissions[number].changed = Belief::Maybe;
                let request = CallRequest::Steer { path, action: Steering::Engine(action) };
                self.ask(number, PendingRequest::Set, to, request);
            }
            _ => {}
        }
    }

    /// A user who cancelled a process may retry it after its end. True if the user does.
    fn reopen_sometimes(&mut self, number: usize) -> bool {
        let case = &self.users.submissions[number];
        if case.cancelled == Belief::No || self.is_healed() || !self.steers || !self.random.one_in(2) {
            return false;
        }
        let (id, group) = (case.id.clone(), case.group);
        let members = (0..self.coordinators.len()).filter(|c| self.coordinators[*c].machine.group == group);
        let members: Vec<usize> = members.collect();
        let Some(c) = self.random.pick(&members) else { return false };
        // An attempt that was asked to stop runs again, whatever it answered.
        self.check.asked.push(id.to_string());
        let case = &mut self.users.submissions[number];
        // Also after a refusal, because the network may have delivered the request twice.
        case.cancelled = Belief::Maybe;
        if !std::mem::replace(&mut case.retried, true) {
            self.at(self.now, WorldEvent::User(UserAction::Rescue(number)));
        }
        self.ask(number, PendingRequest::Reopen, NodeRef::Coordinator(c), CallRequest::Reopen(id));
        true
    }

    fn on_user_answer(&mut self, ticket: u64, answer: CallAnswer) {
        let Some((number, asked)) = self.users.pending.remove(&ticket) else { return };
        self.trace(|| format!("a user gets {answer:?} ({ticket})"));
        let case = &mut self.users.submissions[number];
        match (asked, answer) {
            (PendingRequest::Submit, CallAnswer::Done) => case.acknowledged = true,
            (PendingRequest::Submit, _) => {
                let delay = self.random.between(100, 2000);
                self.at(self.now + delay, WorldEvent::User(UserAction::Submit(number)));
            }
            (PendingRequest::Pause, CallAnswer::Done) => case.paused = Belief::Yes,
            (PendingRequest::Pause, CallAnswer::Nothing) => case.paused = Belief::Maybe,
            (PendingRequest::Resume, CallAnswer::Done) => case.paused = Belief::No,
            (PendingRequest::Cancel(_), CallAnswer::Done) => case.cancelled = Belief::Yes,
            (PendingRequest::Cancel(before), CallAnswer::Rejected) => case.cancelled = before,
            (PendingRequest::Set, CallAnswer::Done) => case.changed = Belief::Yes,
            (PendingRequest::Set, CallAnswer::Rejected) => case.changed = Belief::No,
            (PendingRequest::Again(path, _, attempt), CallAnswer::Done) if attempt > 0 => {
                case.again.push((path, attempt))
            }
            (PendingRequest::Rescue(path), answer) if answer != CallAnswer::Nothing => {
                self.users.unanswered.remove(&path);
            }
            (PendingRequest::Again(path, action, _), CallAnswer::There(address)) => {
                let request = CallRequest::Steer { path: path.clone(), action: action.clone() };
                let to = NodeRef::at_address(&address);
                self.ask(number, PendingRequest::Again(path, action, 0), to, request);
            }
            _ => {}
        }
    }
}
