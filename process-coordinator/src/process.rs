//! The driver of one process: feeds its engine with what happens and carries out what it wants.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};
use xavantes_engine::{
    Action, Answer, Command, Condition, ElementId, Engine, Input, Outcome, Output, Rejection, Time, View,
};
use xavantes_model::definition::Program;
use xavantes_model::script::{Limits, Sandbox};
use xavantes_proto::{v1, value};

use crate::convert::{answer_from, call_from, element_from, failure};
use crate::link::{Order, Orders};
use crate::pool::{Key, PoolMail, Task};

thread_local! {
    /// Scripts of all processes run in the sandbox of whatever thread steps them.
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

/// Mail that waits for a process at most; then whoever writes waits.
const MOST_MAIL: usize = 1024;
/// Children of one element that are shown at most.
const MOST_SHOWN: usize = 100;

/// Something for a process.
#[derive(Debug)]
pub(crate) enum Mail {
    Answered { key: Key, outcome: v1::answer::Outcome, orders: Option<Orders> },
    Lost(Key),
    Called { call: v1::SharedCall, orders: Orders },
    Printed(u64, String),
    Steer { path: String, action: Action, verdict: oneshot::Sender<Result<(), Rejection>> },
    Show { path: String, depth: u32, answer: oneshot::Sender<Result<v1::Element, Rejection>> },
}

/// A process, as others in the coordinator know it.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub mail: mpsc::Sender<Mail>,
    pub status: watch::Receiver<v1::ProcessStatus>,
    /// Its results, once it completed.
    pub results: watch::Receiver<Vec<v1::Parameter>>,
}

/// All processes of a coordinator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes(Arc<RwLock<HashMap<Arc<str>, Handle>>>);

impl Processes {
    pub fn find(&self, id: &str) -> Option<Handle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Adds a process, unless the id is taken.
    pub fn add(&self, id: Arc<str>, handle: Handle) -> bool {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if table.contains_key(&id) {
            return false;
        }
        table.insert(id, handle);
        true
    }

    pub fn all(&self) -> Vec<Handle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub fn remove(&self, id: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// The driver.
pub(crate) struct Driver {
    pub engine: Engine,
    pub id: Arc<str>,
    pub wire_program: Arc<v1::Program>,
    pub began: Instant,
    pub pool: mpsc::UnboundedSender<PoolMail>,
    pub share: watch::Receiver<u64>,
    pub mail: mpsc::Receiver<Mail>,
    pub status: watch::Sender<v1::ProcessStatus>,
    pub results: watch::Sender<Vec<v1::Parameter>>,
    pub output: Output,
    pub printed: Option<crate::service::Printed>,
}

pub(crate) fn mailbox() -> (mpsc::Sender<Mail>, mpsc::Receiver<Mail>) {
    mpsc::channel(MOST_MAIL)
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Driver {
    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn step(&mut self, input: Input) -> Result<(), Rejection> {
        let now = self.now();
        SANDBOX.with_borrow_mut(|slot| {
            let mut sandbox = match slot.take() {
                Some(sandbox) => sandbox,
                // Without a sandbox no process can run; the next step tries again.
                None => Sandbox::new(Limits::CONTROL, false)
                    .map_err(|error| Rejection::NotPossible(error.to_string().into()))?,
            };
            let verdict = self.engine.step(&mut sandbox, input, now, &mut self.output);
            *slot = Some(sandbox);
            verdict
        })
    }

    /// Runs the process to its end.
    pub async fn run(mut self) {
        self.engine.set_room(*self.share.borrow_and_update());
        let mut go_on = true;
        let mut batch = Vec::new();
        loop {
            if go_on {
                let _ = self.step(Input::Continued);
            }
            go_on = self.carry_out();
            self.tell();
            if self.engine.state().ended().is_some() {
                break;
            }
            if go_on {
                // Others have their turn; mail that is there already is taken first.
                tokio::task::yield_now().await;
                while batch.len() < 256
                    && let Ok(mail) = self.mail.try_recv()
                {
                    batch.push(mail);
                }
            } else {
                let deadline = self.engine.next_deadline().map_or(Duration::from_secs(3600), |deadline| {
                    Duration::from_millis(deadline.0.saturating_sub(self.now().0))
                });
                tokio::select! {
                    count = self.mail.recv_many(&mut batch, 256) => if count == 0 { break },
                    changed = self.share.changed() => {
                        if changed.is_err() {
                            break;
                        }
                        self.engine.set_room(*self.share.borrow_and_update());
                        go_on = true;
                    }
                    () = tokio::time::sleep(deadline) => drop(self.step(Input::TimePassed)),
                }
            }
            for mail in batch.drain(..) {
                self.take(mail);
            }
        }
        let _ = self.pool.send(PoolMail::Over(self.id.clone()));
        self.late().await;
    }

    /// The process is over; whoever still writes gets a last answer.
    async fn late(mut self) {
        self.mail.close();
        while let Some(mail) = self.mail.recv().await {
            match mail {
                Mail::Steer { verdict, .. } => drop(verdict.send(Err(Rejection::Ended))),
                Mail::Show { answer, .. } => drop(answer.send(Err(Rejection::Ended))),
                Mail::Answered { key, orders: Some(orders), .. } => drop(orders.send(Order::Acknowledge(key))),
                Mail::Called { call, orders } => {
                    let result = Some(v1::shared_reply::Result::Error("the process has ended".into()));
                    let _ = orders.send(Order::Reply(v1::SharedReply { ticket: call.ticket, result }));
                }
                Mail::Answered { .. } | Mail::Lost(_) | Mail::Printed(..) => {}
            }
        }
    }

    fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Answered { key, outcome, orders } => {
                let (element, attempt) = (element_from(key.1), key.2);
                let input = Input::Answered { element, attempt, answer: answer_from(outcome) };
                // Late or repeated answers are rejected, and acknowledged all the same: they are of no use to anyone.
                let _ = self.step(input);
                if let Some(orders) = orders {
                    let _ = orders.send(Order::Acknowledge(key));
                }
            }
            Mail::Lost(key) => {
                let (element, attempt) = (element_from(key.1), key.2);
                let _ = self.step(Input::Answered { element, attempt, answer: Answer::Lost });
            }
            Mail::Called { call, orders } => self.on_called(call, &orders),
            Mail::Printed(element, line) => {
                let path = self.engine.path(element_from(element));
                match &self.printed {
                    Some(printed) => drop(printed.send((path, line))),
                    None => info!(element = path, line, "printed"),
                }
            }
            Mail::Steer { path, action, verdict } => {
                let outcome = self.step(Input::Steered { path, action });
                let _ = verdict.send(outcome);
            }
            Mail::Show { path, depth, answer } => self.on_show(&path, depth, answer),
        }
    }

    fn on_called(&mut self, call: v1::SharedCall, orders: &Orders) {
        let ticket = call.ticket;
        let before = self.output.commands.len();
        let verdict = match call_from(call) {
            Ok(call) => self.step(Input::Called(Box::new(call))).map_err(|rejection| rejection.to_string()),
            Err(unfit) => Err(unfit.0.to_owned()),
        };
        // The engine answers a call in the step that takes it.
        let reply = self.output.commands[before..].iter().position(|command| matches!(command, Command::Reply { .. }));
        let result = match (reply.map(|at| self.output.commands.remove(before + at)), verdict) {
            (Some(Command::Reply { result, .. }), _) => result,
            (_, Err(message)) => Err(message),
            (_, Ok(())) => Err("the call was not answered".into()),
        };
        let result = Some(match result {
            Ok(answer) => v1::shared_reply::Result::Value(value(&answer)),
            Err(message) => v1::shared_reply::Result::Error(message),
        });
        let _ = orders.send(Order::Reply(v1::SharedReply { ticket, result }));
    }

    /// Carries out what the engine wants; true if it wants to go on by itself.
    fn carry_out(&mut self) -> bool {
        self.output.events.clear();
        let mut go_on = false;
        let program = self.engine.program().clone();
        for command in std::mem::take(&mut self.output.commands) {
            match command {
                Command::Dispatch { element, attempt, activity, parameters } => {
                    let task = self.task(&program, element, attempt, activity, &parameters);
                    let _ = self.pool.send(PoolMail::Dispatch(task));
                }
                Command::Cancel { element, attempt } => {
                    let _ = self.pool.send(PoolMail::Cancel((self.id.clone(), element.bits(), attempt)));
                }
                Command::Continue => go_on = true,
                Command::Finish { outcome } => info!(process = %self.id, outcome = word(&outcome), "process ended"),
                // The engine was not told that there is anyone to delegate to, and calls are answered where they come.
                Command::Delegate(_) | Command::Pause { .. } | Command::Reply { .. } => {
                    warn!(process = %self.id, "a command that nobody carries out");
                }
            }
        }
        go_on
    }

    fn task(
        &self,
        program: &Program,
        element: ElementId,
        attempt: u32,
        activity: usize,
        parameters: &[xavantes_model::value::Value],
    ) -> Task {
        let requires = &program.activities[activity].requires;
        let key: Key = (self.id.clone(), element.bits(), attempt);
        let job = v1::Job {
            id: Some(v1::AttemptId { process: key.0.to_string(), element: key.1, attempt }),
            program: self.wire_program.digest.clone(),
            activity: activity as u32,
            parameters: parameters.iter().map(value).collect(),
            path: self.engine.path(element),
        };
        Task {
            key,
            program: self.wire_program.clone(),
            activity: activity as u32,
            cpus: requires.cpus,
            tags: requires.tags.clone(),
            job,
        }
    }

    /// Brings the status up to date for whoever watches.
    fn tell(&self) {
        let state = self.engine.state();
        let counts = state.counts();
        let ended = state.ended();
        if let Some((Outcome::Completed, results)) = ended {
            let results =
                results.iter().map(|(name, result)| v1::Parameter { name: name.to_string(), value: Some(value(result)) });
            self.results.send_replace(results.collect());
        }
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.counts = Some(v1::Counts {
                completed: counts.completed,
                failed: counts.failed,
                attempts: counts.attempts,
                running: counts.out,
            });
            status.paused = counts.paused > 0;
            if let Some((outcome, _)) = ended {
                status.state = match outcome {
                    Outcome::Completed => v1::ProcessState::Completed,
                    Outcome::Cancelled => v1::ProcessState::Cancelled,
                    Outcome::Failed(_) | Outcome::Restart => v1::ProcessState::Failed,
                }
                .into();
                if let Outcome::Failed(why) = outcome {
                    status.failure = Some(failure(why));
                }
                status.ended_ms = unix_ms();
            }
            *status != before
        });
    }

    fn on_show(&self, path: &str, depth: u32, answer: oneshot::Sender<Result<v1::Element, Rejection>>) {
        let shown = match self.engine.find(path) {
            Ok(Some(id)) => Ok(self.element(id, depth)),
            Ok(None) => Err(Rejection::NoSuchElement(format!("{path} has ended or not begun").into())),
            Err(rejection) => Err(rejection),
        };
        let Ok(mut element) = shown else {
            let _ = answer.send(shown);
            return;
        };
        // Only the pool knows which worker has which attempt.
        let keys = attempts(&self.id, &element);
        let (places, placed) = oneshot::channel();
        let _ = self.pool.send(PoolMail::Where(keys.iter().map(|(_, key)| key.clone()).collect(), places));
        tokio::spawn(async move {
            if let Ok(places) = placed.await {
                let by_path: HashMap<String, Arc<str>> = keys
                    .into_iter()
                    .zip(places)
                    .filter_map(|((path, _), place)| Some((path, place?)))
                    .collect();
                name_workers(&mut element, &by_path);
            }
            let _ = answer.send(Ok(element));
        });
    }

    /// Depth is bounded by what was asked for, and what is shown by a number of children.
    fn element(&self, id: ElementId, depth: u32) -> v1::Element {
        let Some(view) = self.engine.view(id) else { return v1::Element::default() };
        let mut element = describe(&view);
        element.element = id.bits();
        if depth > 0 {
            element.children = view.children.iter().take(MOST_SHOWN).map(|child| self.element(*child, depth - 1)).collect();
            element.hidden = view.children.len().saturating_sub(MOST_SHOWN) as u32;
        }
        element
    }
}

fn attempts(process: &Arc<str>, element: &v1::Element) -> Vec<(String, Key)> {
    let mut found = Vec::new();
    let mut pending = vec![element];
    while let Some(element) = pending.pop() {
        if element.tag == "ACTIVITY" && element.condition != "ready" {
            found.push((element.path.clone(), (process.clone(), element.element, element.attempts)));
        }
        pending.extend(&element.children);
    }
    found
}

fn name_workers(element: &mut v1::Element, places: &HashMap<String, Arc<str>>) {
    if let Some(place) = places.get(&element.path) {
        element.worker = place.to_string();
    }
    element.children.iter_mut().for_each(|child| name_workers(child, places));
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed(_) => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Restart => "restarted",
    }
}

fn describe(view: &View) -> v1::Element {
    let (condition, why) = match &view.condition {
        Condition::Absent => ("absent", None),
        Condition::Ready => ("ready", None),
        Condition::Running => ("running", None),
        Condition::Stopping => ("stopping", None),
        Condition::Waiting(_, why) => ("waiting", Some(failure(why))),
        Condition::Held(why) => ("held", Some(failure(why))),
    };
    v1::Element {
        path: view.path.clone(),
        tag: view.tag.into(),
        r#type: view.type_name.clone().unwrap_or_default(),
        condition: condition.into(),
        paused: view.paused,
        attempts: view.attempts,
        completed: view.ended.map(|ended| ended.0),
        failed: view.ended.map(|ended| ended.1),
        cancelled: view.ended.map(|ended| ended.2),
        total: view.total,
        failure: why,
        ..v1::Element::default()
    }
}
