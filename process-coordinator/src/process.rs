//! The driver of one process: feeds its engine with what happens and carries out what it wants.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};
use xavantes_engine::{
    Action, Answer, Command, Condition, Delegation, ElementId, Engine, Input, Outcome, Output, Rejection, Root, Time,
    View,
};
use xavantes_model::definition::Program;
use xavantes_model::script::{Limits, Sandbox};
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{v1, value};

use crate::convert::{answer_from, call_from, element_from, failure, subtree};
use crate::foster::{self, Parent};
use crate::link::{self, Order, Orders};
use crate::pool::{Key, PoolMail, Share, Task, Whereabouts};

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
    Answered { key: Key, outcome: v1::answer::Outcome, counts: Option<v1::Counts>, orders: Option<Orders> },
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
    pub share: watch::Receiver<Share>,
    /// Who handed the process over, if it is part of another one.
    pub parent: Option<Parent>,
    /// The most activities that it may have out, whatever its share.
    pub most: u64,
    pub root: Root,
    pub mail: mpsc::Receiver<Mail>,
    pub status: watch::Sender<v1::ProcessStatus>,
    pub results: watch::Sender<Vec<v1::Parameter>>,
    pub output: Output,
    pub printed: Option<crate::service::Printed>,
    /// Activities of subtrees that ended elsewhere.
    pub elsewhere: v1::Counts,
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

    fn take_share(&mut self) {
        let share = *self.share.borrow_and_update();
        self.engine.set_room(share.room.min(self.most));
        self.engine.set_delegations(share.delegations);
        self.engine.set_auto_delegations(share.auto_delegations);
    }

    /// Runs the process to its end.
    pub async fn run(mut self) {
        self.take_share();
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
                        self.take_share();
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
        if let (Some(parent), Some((outcome, results))) = (&self.parent, self.engine.state().ended()) {
            let (process, node) = (self.root.process, self.root.node);
            let answer = foster::answer(self.engine.program(), process, node, outcome, results);
            parent.finish(&self.id, answer, self.counts());
        }
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
            Mail::Answered { key, outcome, counts, orders } => {
                let (element, attempt) = (element_from(key.1), key.2);
                let input = Input::Answered { element, attempt, answer: answer_from(outcome) };
                // Late or repeated answers are rejected, and acknowledged all the same: they are of no use to anyone.
                if self.step(input).is_ok()
                    && let Some(counts) = counts
                {
                    self.elsewhere.completed += counts.completed;
                    self.elsewhere.failed += counts.failed;
                    self.elsewhere.attempts += counts.attempts;
                }
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
        let home = call.object.as_ref().is_none_or(|object| *object.home == *self.id);
        if let Some(parent) = self.parent.as_ref().filter(|_| !home) {
            return parent.forward(call, orders);
        }
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
                Command::Delegate(delegation) => self.delegate(&delegation),
                Command::Pause { element, attempt, paused } => {
                    let key = (self.id.clone(), element.bits(), attempt);
                    let _ = self.pool.send(PoolMail::Pause(key, paused));
                }
                // Calls are answered where they come in.
                Command::Reply { .. } => warn!(process = %self.id, "an answer that nobody waits for"),
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
            subtree: None,
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

    /// Looks for a coordinator for a subtree; if there is none, it is refused, and runs here.
    fn delegate(&self, delegation: &Delegation) {
        let key: Key = (self.id.clone(), delegation.element.bits(), delegation.attempt);
        let job = v1::Job {
            id: Some(v1::AttemptId { process: key.0.to_string(), element: key.1, attempt: key.2 }),
            program: self.wire_program.digest.clone(),
            activity: 0,
            parameters: delegation.variables.iter().map(value).collect(),
            path: self.engine.path(delegation.element),
            subtree: Some(subtree(delegation)),
        };
        let program = self.wire_program.clone();
        let task = Task { key, program, activity: 0, cpus: 0, tags: Vec::new(), job };
        let _ = self.pool.send(PoolMail::Delegate(task));
    }

    /// Activities here, and of subtrees that ended elsewhere.
    fn counts(&self) -> v1::Counts {
        let counts = self.engine.state().counts();
        v1::Counts {
            completed: counts.completed + self.elsewhere.completed,
            failed: counts.failed + self.elsewhere.failed,
            attempts: counts.attempts + self.elsewhere.attempts,
            running: counts.out,
        }
    }

    /// Brings the status up to date for whoever watches.
    fn tell(&self) {
        let state = self.engine.state();
        let counts = state.counts();
        let ended = state.ended();
        if let Some((Outcome::Completed, results)) = ended {
            let results = results
                .iter()
                .map(|(name, result)| v1::Parameter { name: name.to_string(), value: Some(value(result)) });
            self.results.send_replace(results.collect());
        }
        self.status.send_if_modified(|status| {
            let before = status.clone();
            status.counts = Some(self.counts());
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
        // Only the pool knows who has which attempt, and only another coordinator what goes on in a subtree there.
        let keys = attempts(&self.id, &element);
        let (places, placed) = oneshot::channel();
        let _ = self.pool.send(PoolMail::Where(keys.iter().map(|(_, key)| key.clone()).collect(), places));
        tokio::spawn(async move {
            if let Ok(places) = placed.await {
                let by_path: HashMap<String, Whereabouts> =
                    keys.into_iter().zip(places).filter_map(|((path, _), place)| Some((path, place?))).collect();
                complete(&mut element, &by_path, depth).await;
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
            element.children =
                view.children.iter().take(MOST_SHOWN).map(|child| self.element(*child, depth - 1)).collect();
            element.hidden = view.children.len().saturating_sub(MOST_SHOWN) as u32;
        }
        element
    }
}

fn attempts(process: &Arc<str>, element: &v1::Element) -> Vec<(String, Key)> {
    let mut found = Vec::new();
    let mut pending = vec![element];
    while let Some(element) = pending.pop() {
        if (element.tag == "ACTIVITY" && element.condition != "ready") || element.delegated {
            found.push((element.path.clone(), (process.clone(), element.element, element.attempts)));
        }
        pending.extend(&element.children);
    }
    found
}

/// Names who runs what, and fills in what runs at other coordinators.
async fn complete(element: &mut v1::Element, places: &HashMap<String, Whereabouts>, depth: u32) {
    let mut pending = vec![(element, depth)];
    while let Some((element, depth)) = pending.pop() {
        if let Some(place) = places.get(&element.path) {
            element.worker = place.name.to_string();
            if element.delegated
                && let Some(there) = remote(&place.address, &element.path, depth).await
            {
                element.children = there.children;
                element.hidden = there.hidden;
                element.completed = there.completed;
                element.failed = there.failed;
                element.cancelled = there.cancelled;
                element.total = there.total;
                continue;
            }
        }
        pending.extend(element.children.iter_mut().map(|child| (child, depth.saturating_sub(1))));
    }
}

async fn remote(address: &str, path: &str, depth: u32) -> Option<v1::Element> {
    let channel = link::connect(address).await.ok()?;
    let most = xavantes_proto::MAX_MESSAGE;
    let mut client = ProcessCoordinatorClient::new(channel).max_decoding_message_size(most);
    client.show(v1::ShowRequest { path: path.to_owned(), depth }).await.ok()?.into_inner().element
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
        delegated: view.delegated,
        attempts: view.attempts,
        completed: view.ended.map(|ended| ended.0),
        failed: view.ended.map(|ended| ended.1),
        cancelled: view.ended.map(|ended| ended.2),
        total: view.total,
        failure: why,
        ..v1::Element::default()
    }
}
