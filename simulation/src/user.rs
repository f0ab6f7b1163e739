//! Users: they submit, steer, and remember what was acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_engine::Action;
use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_process_coordinator::codec;
use xavantes_process_coordinator::handover::Placement;
use xavantes_process_coordinator::process::input::Steering;
use xavantes_process_coordinator::process::journal::Origin;
use xavantes_process_coordinator::process::summary::Summary;
use xavantes_proto::v1;

use crate::coordinator::Driving;
use crate::documents::expected;
use crate::world::{Event, Task, Who, World};

/// Something that is asked of a coordinator.
#[derive(Debug, Clone)]
pub enum Request {
    Submit { id: Arc<str>, process_type: &'static str, n: i64 },
    Steer { path: Arc<str>, action: Steering },
    Moved(AttemptKey, Placement),
}

/// Where an answer goes.
#[derive(Debug, Clone)]
pub enum ReplyTo {
    User(u64),
    Moved(Box<Moved>),
    /// Word of it is left in that store if nobody waits for the subtree.
    Word(usize, Box<AttemptKey>),
}

/// A coordinator that tells a parent where a subtree is now.
#[derive(Debug, Clone)]
pub struct Moved {
    pub c: usize,
    pub life: u32,
    pub origin: Origin,
    pub epoch: u64,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// It is not recorded yet where a subtree is.
    Noted,
    /// Nobody waits for a subtree.
    Unwanted,
    Rejected,
    /// Somebody else is to be asked.
    There(String),
    /// There was no answer.
    Nothing,
}

/// What is known of something that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belief {
    No,
    Maybe,
    Yes,
}

#[derive(Debug, Clone)]
enum Asked {
    Submit,
    Pause,
    Resume,
    Cancel(Belief),
    /// With the attempt that ran then.
    Again(Arc<str>, Steering, u32),
}

/// A process that a user wants.
#[derive(Debug)]
struct Case {
    id: Arc<str>,
    process_type: &'static str,
    n: i64,
    group: usize,
    acknowledged: bool,
    paused: Belief,
    cancelled: Belief,
    again: Vec<(Arc<str>, u32)>,
}

/// All users.
#[derive(Debug, Default)]
pub struct Users {
    cases: Vec<Case>,
    asked: BTreeMap<u64, (usize, Asked)>,
}

/// What a user does next.
#[derive(Debug)]
pub enum UserTask {
    Submit(usize),
    Steer(usize),
    Answered(u64, Answer),
}

impl Users {
    pub fn add(&mut self, process_type: &'static str, n: i64, group: usize) -> usize {
        let id = format!("{process_type}-{}", self.cases.len()).into();
        let (acknowledged, again) = (false, Vec::new());
        let (paused, cancelled) = (Belief::No, Belief::No);
        self.cases.push(Case { id, process_type, n, group, acknowledged, paused, cancelled, again });
        self.cases.len() - 1
    }

    /// Is a recovered process as users were told that it is?
    pub fn recovered(&self, process: &str, driver: &Driving) -> Option<String> {
        let case = self.cases.iter().find(|case| *case.id == *process)?;
        let engine = driver.engine();
        if engine.state().ended().is_some() {
            return None;
        }
        if case.paused == Belief::Yes && engine.state().counts().paused == 0 && case.cancelled == Belief::No {
            return Some(format!("{process} was paused, and is not any more"));
        }
        let lost = case.cancelled == Belief::Yes && !engine.is_cancelled();
        lost.then(|| format!("{process} was cancelled, and is not any more"))
    }
}

impl World<'_> {
    /// A call that may be lost, come late or twice; so may its answer.
    pub fn call(&mut self, from: Option<Who>, to: Who, request: Request, reply: ReplyTo) {
        self.trace(|| format!("{from:?} calls {to:?}: {request:?}"));
        let cut = from.is_some_and(|from| !self.reaches(from, to));
        let trouble = !self.is_healed();
        let times = match request {
            Request::Steer { .. } => 1,
            _ if trouble && self.random.one_in(12) => 2,
            _ => 1,
        };
        if cut || (trouble && self.random.one_in(15)) {
            return self.reply_later(reply, Answer::Nothing, 1000);
        }
        for _ in 0..times {
            let at = self.now + self.latency();
            self.at(at, Event::Call(to, Box::new(request.clone()), reply.clone()));
        }
    }

    /// A call arrives.
    pub fn on_call(&mut self, to: Who, request: Request, reply: ReplyTo) {
        match to {
            Who::Coordinator(c) if self.machine(to).alive => self.handle(c, request, reply),
            _ => self.reply_later(reply, Answer::Nothing, 1000),
        }
    }

    pub fn reply(&mut self, reply: ReplyTo, answer: Answer) {
        let lost = !self.is_healed() && self.random.one_in(15);
        let delay = self.latency();
        self.reply_later(reply, if lost { Answer::Nothing } else { answer }, if lost { 3000 } else { delay });
    }

    fn reply_later(&mut self, reply: ReplyTo, answer: Answer, delay: u64) {
        match reply {
            ReplyTo::User(ticket) => self.at(self.now + delay, Event::User(UserTask::Answered(ticket, answer))),
            ReplyTo::Word(store, key) => {
                if answer == Answer::Unwanted {
                    self.stores[store].moved.insert(*key, None);
                }
            }
            ReplyTo::Moved(moved) => {
                let Moved { c, life, origin, epoch } = *moved;
                let (delay, task) = match answer {
                    Answer::Done => (delay + 30_000, Task::TellParent(origin, epoch)),
                    Answer::Unwanted => (delay, Task::StopUnwanted(origin)),
                    _ => (delay + 2000, Task::TellParent(origin, epoch)),
                };
                self.at(self.now + delay, Event::Node(Who::Coordinator(c), life, task));
            }
        }
    }

    fn ask(&mut self, case: usize, asked: Asked, to: Who, request: Request) {
        let ticket = self.count();
        self.users.asked.insert(ticket, (case, asked));
        self.call(None, to, request, ReplyTo::User(ticket));
        // Long after every answer that comes at all.
        self.at(self.now + 8000, Event::User(UserTask::Answered(ticket, Answer::Nothing)));
    }

    pub fn user(&mut self, task: UserTask) {
        match task {
            UserTask::Submit(case) => {
                let Case { id, process_type, n, group, acknowledged, .. } = &self.users.cases[case];
                if *acknowledged {
                    return;
                }
                let request = Request::Submit { id: id.clone(), process_type, n: *n };
                let members: Vec<usize> =
                    (0..self.coordinators.len()).filter(|c| self.coordinators[*c].machine.group == *group).collect();
                if let Some(c) = self.random.pick(&members) {
                    self.ask(case, Asked::Submit, Who::Coordinator(c), request);
                }
            }
            UserTask::Steer(case) => {
                self.random.below(2);
                self.steer(case);
                if !self.has_ended(case) {
                    let delay = self.random.between(9000, 12000);
                    self.at(self.now + delay, Event::User(UserTask::Steer(case)));
                }
            }
            UserTask::Answered(ticket, answer) => self.answered(ticket, answer),
        }
    }

    fn steer(&mut self, number: usize) {
        let case = &self.users.cases[number];
        let Some((c, driver)) = self.driver(&case.id) else { return };
        let (id, to) = (case.id.clone(), Who::Coordinator(c));
        let ask = |action| Request::Steer { path: id.clone(), action: Steering::Engine(action) };
        if case.paused != Belief::No {
            let case = &mut self.users.cases[number];
            case.paused = Belief::Maybe;
            return self.ask(number, Asked::Resume, to, ask(Action::Resume));
        }
        if self.is_healed() || !self.steers {
            return;
        }
        // Not the world's own: the driver is being looked at.
        let mut random = self.random.clone();
        match random.below(16) {
            0..5 => self.ask(number, Asked::Pause, to, ask(Action::Pause)),
            5 => {
                let request = ask(Action::Cancel);
                let before = std::mem::replace(&mut self.users.cases[number].cancelled, Belief::Maybe);
                self.ask(number, Asked::Cancel(before), to, request);
            }
            choice @ 6..12 => {
                // Something that is out, here or in a subtree.
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
                self.check.asked.push(path.to_string());
                // What a subtree does with it is not looked at.
                let attempt = if view.tag == "ACTIVITY" { view.attempts } else { 0 };
                let request = Request::Steer { path: path.clone(), action: action.clone() };
                self.ask(number, Asked::Again(path, action, attempt), to, request);
            }
            _ => {}
        }
    }

    fn answered(&mut self, ticket: u64, answer: Answer) {
        let Some((number, asked)) = self.users.asked.remove(&ticket) else { return };
        self.trace(|| format!("a user hears {answer:?} ({ticket})"));
        let case = &mut self.users.cases[number];
        match (asked, answer) {
            (Asked::Submit, Answer::Done) => case.acknowledged = true,
            (Asked::Submit, _) => {
                let delay = self.random.between(100, 2000);
                self.at(self.now + delay, Event::User(UserTask::Submit(number)));
            }
            (Asked::Pause, Answer::Done) => case.paused = Belief::Yes,
            (Asked::Pause, Answer::Nothing) => case.paused = Belief::Maybe,
            (Asked::Resume, Answer::Done) => case.paused = Belief::No,
            (Asked::Cancel(_), Answer::Done) => case.cancelled = Belief::Yes,
            (Asked::Cancel(before), Answer::Rejected) => case.cancelled = before,
            (Asked::Again(path, _, attempt), Answer::Done) if attempt > 0 => case.again.push((path, attempt)),
            (Asked::Again(path, action, _), Answer::There(address)) => {
                let request = Request::Steer { path: path.clone(), action: action.clone() };
                let to = self.address(&address);
                self.ask(number, Asked::Again(path, action, 0), to, request);
            }
            _ => {}
        }
    }

    fn has_ended(&self, number: usize) -> bool {
        let case = &self.users.cases[number];
        let stored = self.stores[case.group].processes.get(&case.id);
        stored.is_some_and(|stored| stored.summary.is_some())
    }

    /// Has everybody got what was wanted?
    pub fn all_ended(&self) -> bool {
        (0..self.users.cases.len()).all(|case| self.users.cases[case].acknowledged && self.has_ended(case))
    }

    /// What was acknowledged is there.
    pub fn submissions_are_kept(&self) -> Option<String> {
        let lost = self
            .users
            .cases
            .iter()
            .find(|case| case.acknowledged && !self.stores[case.group].processes.contains_key(&case.id));
        lost.map(|case| format!("the acknowledged submission of {} was lost", case.id))
    }

    /// Which processes have not ended.
    pub fn unended(&self) -> String {
        let cases = (0..self.users.cases.len()).filter(|case| !self.has_ended(*case));
        cases.map(|case| self.users.cases[case].id.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Did everybody get what was wanted?
    pub fn results(&self) -> Option<String> {
        self.users.cases.iter().find_map(|case| self.result(case))
    }

    fn result(&self, case: &Case) -> Option<String> {
        let id = &case.id;
        let read = || {
            let summary = self.stores[case.group].processes.get(id)?.summary.clone()?;
            let summary: Summary = codec::decode("summary", &summary).ok()?;
            Some((summary.status().ok()?, summary.results().ok()?))
        };
        let Some((status, results)) = read() else { return Some(format!("the end of {id} is lost")) };
        let cancelled = status.state() == v1::ProcessState::Cancelled;
        match (case.cancelled, cancelled) {
            (Belief::Yes, false) => return Some(format!("{id} was cancelled, and ended {:?}", status.state())),
            (Belief::No, true) => return Some(format!("{id} ended cancelled, and nobody asked for it")),
            (_, true) => return None,
            _ => {}
        }
        if status.state() != v1::ProcessState::Completed {
            return Some(format!("{id} ended {:?}: {}", status.state(), status.failure.unwrap_or_default().message));
        }
        let result = |name: &str| {
            let found = results.iter().find(|result| result.name == name);
            found.and_then(|result| result.value.clone()).and_then(|value| xavantes_proto::value_from(value).ok())
        };
        use xavantes_model::value::Value;
        let (Some(Value::Int(sum)), Some(Value::Int(count)), Some(Value::List(log))) =
            (result("sum"), result("count"), result("log"))
        else {
            return Some(format!("{id} has not all its results: {results:?}"));
        };
        let (right, activities) = expected(case.process_type, case.n);
        if sum != right {
            return Some(format!("the sum of {id} is {sum}, not {right}"));
        }
        let completed = status.counts.unwrap_or_default().completed;
        let asked = self.check.asked.iter().any(|path| path.starts_with(&**id));
        if completed < activities || (!asked && completed != activities) {
            return Some(format!("{completed} activities of {id} completed, not {activities}"));
        }
        if let Some((path, attempt)) = case.again.iter().find(|(path, attempt)| !self.check.went_on(path, *attempt)) {
            return Some(format!("attempt {attempt} of {path} was to be given up, and no other followed"));
        }
        let log: Vec<i64> = log
            .iter()
            .map(|number| match number {
                Value::Int(number) => *number,
                _ => -1,
            })
            .collect();
        self.check.shared(id, count, &log)
    }
}
