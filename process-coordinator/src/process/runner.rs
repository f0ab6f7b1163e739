//! One process in the world: its mail, its clock, its journal, and whoever watches it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};
use xavantes_engine::{Condition, ElementId, Outcome, Rejection, Time, View};
use xavantes_model::script::{Limits, Sandbox};
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{connect, question, v1, value};
use xavantes_repository::{Error, Store};

use crate::attempt::AttemptKey;
use crate::cache::decide::{Keep, Sought};
use crate::cache::store::{Call, Shelf, all};
use crate::convert::{element_from, failure, references, release};
use crate::data::pinning::Keeping;
use crate::process::driver::{Batch, Driver, Effect, Entry, Incoming};
use crate::process::history::Past;
use crate::process::journal::{self, Summary};
use crate::process::outputs::Outputs;
use crate::subtrees::hosted as foster;
use crate::subtrees::parents::Parent;
use crate::workers::connection::Orders;
use crate::workers::dispatcher::{PoolMail, PoolSender};
use crate::workers::messages::{Order, Share, Whereabouts};

thread_local! {
    /// Scripts of all processes run in the sandbox of whatever thread steps them.
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

/// Mail that waits for a process at most; then whoever writes waits.
const MOST_MAIL: usize = 1024;
/// Children of one element that are shown at most.
pub(crate) const MOST_SHOWN: usize = 100;
/// When many activities are out, and nobody waits for a single one, facts are gathered for one record: as long as the
/// last record took to be written, within these limits, and not more than so many.
const SHORTEST_GATHERING: Duration = Duration::from_millis(4);
const LONGEST_GATHERING: Duration = Duration::from_millis(8);
const MANY: usize = 8192;
const MANY_OUT: u64 = 64;
/// Facts that wait to be recorded at most; then mail waits.
const MOST_WAITING: usize = 64 << 10;
/// That another coordinator is silent is told when it is for so long.
const LONG_SILENCE: Duration = Duration::from_secs(5);
/// A repository that is not available is tried again after so long.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Whoever waits for what becomes of steering.
pub(crate) type Verdict = oneshot::Sender<Result<(), Rejection>>;
/// Something that happened to a process.
pub(crate) type Happened = Incoming<Orders, Verdict>;

/// Something for a process.
#[derive(Debug)]
pub(crate) enum Mail {
    Happened(Vec<Happened>),
    Called(v1::SharedCall, Orders),
    Printed(u64, String),
    Show {
        path: String,
        depth: u32,
        answer: oneshot::Sender<Result<v1::Element, Rejection>>,
    },
    /// Another coordinator has the process.
    Taken,
}

impl From<Happened> for Mail {
    fn from(happened: Happened) -> Self {
        Self::Happened(vec![happened])
    }
}

/// A process that runs, as others in the coordinator know it.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// What begins the paths of its elements: its id, or of a subtree the path there.
    pub path: Arc<str>,
    pub mail: mpsc::Sender<Mail>,
    pub status: watch::Receiver<v1::ProcessStatus>,
    pub outputs: Outputs,
}

/// The processes that run at a coordinator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes(Arc<RwLock<Table>>);

#[derive(Debug, Default)]
struct Table {
    here: HashMap<Arc<str>, Handle>,
    /// Subtrees by path, the newest of each last.
    paths: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Those that another coordinator has, or that cannot be read, and answers that came for them.
    foreign: HashMap<Arc<str>, HashMap<AttemptKey, Orders>>,
}

impl Table {
    fn remove(&mut self, id: &str) {
        let Some(handle) = self.here.remove(id) else { return };
        if let Some(ids) = self.paths.get_mut(&handle.path) {
            ids.retain(|other| **other != *id);
            if ids.is_empty() {
                self.paths.remove(&handle.path);
            }
        }
    }
}

impl Processes {
    pub fn find(&self, id: &str) -> Option<Handle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).here.get(id).cloned()
    }

    /// The process whose elements' paths begin so.
    pub fn at(&self, path: &str) -> Option<(Arc<str>, Handle)> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let id = table.paths.get(path)?.last()?;
        Some((id.clone(), table.here.get(id)?.clone()))
    }

    pub fn add(&self, id: Arc<str>, handle: Handle) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(&id);
        table.foreign.remove(&id);
        table.paths.entry(handle.path.clone()).or_default().push(id.clone());
        table.here.insert(id, handle);
    }

    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).here.len()
    }

    pub fn remove(&self, id: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// It is not ours, for now: its attempts are none of our business.
    pub fn give_up(&self, id: Arc<str>) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(&id);
        table.foreign.entry(id).or_default();
    }

    pub fn is_foreign(&self, id: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).foreign.contains_key(id)
    }

    /// Notes an answer to an attempt of a process that another coordinator has; false if none has.
    pub fn note_answer(&self, orders: &Orders, key: &AttemptKey) -> bool {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let answers = table.foreign.get_mut(&key.process);
        answers.map(|answers| answers.insert(key.clone(), orders.clone())).is_some()
    }

    /// Processes of others for which answers came here.
    pub fn answered(&self) -> Vec<Arc<str>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.foreign.iter().filter(|(_, answers)| !answers.is_empty()).map(|(id, _)| id.clone()).collect()
    }

    /// It is over: gives the answers that came for it.
    pub fn forget_foreign(&self, id: &str) -> HashMap<AttemptKey, Orders> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).foreign.remove(id).unwrap_or_default()
    }
}

/// A write to the journal that is under way.
type Writing = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// How a process stopped running here.
enum Stopped {
    Ended,
    /// The coordinator shuts down.
    Halted,
    /// Another coordinator has it.
    Taken,
}

/// The task of one process.
pub(crate) struct Runner {
    pub id: Arc<str>,
    pub driver: Driver<Orders, Verdict>,
    /// When the engine's clock was at 0.
    pub began: Instant,
    /// The engine's clock when this task began, if that is later by a clock that was set back.
    pub at_least: Time,
    pub repository: Store,
    pub shelf: Arc<Shelf>,
    pub keeping: Arc<Keeping>,
    pub outputs: Outputs,
    pub processes: Processes,
    pub pool: PoolSender,
    pub share: watch::Receiver<Share>,
    /// Who handed the process over, if it is part of another one.
    pub parent: Option<Parent>,
    /// The most activities that it may have out, whatever its share.
    pub most: u64,
    pub mail: mpsc::Receiver<Mail>,
    pub status: watch::Sender<v1::ProcessStatus>,
    pub printed: Option<crate::rpc::service::Printed>,
}

pub(crate) fn mailbox() -> (mpsc::Sender<Mail>, mpsc::Receiver<Mail>) {
    mpsc::channel(MOST_MAIL)
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Runner {
    fn now(&self) -> Time {
        let now = Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        now.max(self.at_least)
    }

    fn take(&mut self, happened: Happened) {
        let now = self.now();
        SANDBOX.with_borrow_mut(|slot| {
            let made = match slot.take() {
                Some(sandbox) => Ok(sandbox),
                None => Sandbox::new(Limits::CONTROL, false),
            };
            match made {
                Ok(mut sandbox) => {
                    self.driver.take(&mut sandbox, happened, now);
                    *slot = Some(sandbox);
                }
                // Without memory for a sandbox nothing can run at all.
                Err(error) => warn!(process = %self.id, %error, "no sandbox"),
            }
        });
    }

    fn take_share(&mut self) {
        let share = *self.share.borrow_and_update();
        self.driver.set_share(share, self.most);
    }

    /// Runs the process to its end.
    pub async fn run(mut self) {
        match self.work().await {
            Stopped::Ended => {
                info!(process = %self.id, outcome = self.outcome(), "process ended");
                let _ = self.pool.send(PoolMail::Over(self.id.clone()));
                self.end().await;
            }
            Stopped::Taken => self.leave(),
            Stopped::Halted => {}
        }
    }

    /// Another coordinator has it.
    fn leave(&self) {
        warn!(process = %self.id, "another coordinator has this process now");
        self.processes.give_up(self.id.clone());
        if let Some(parent) = &self.parent {
            parent.leave(&self.id);
        }
        let _ = self.pool.send(PoolMail::Lost(self.id.clone()));
    }

    async fn work(&mut self) -> Stopped {
        self.take_share();
        self.take(Incoming::Continued);
        let mut batch: Vec<Mail> = Vec::new();
        let mut writing: Option<(Writing, Batch<Orders, Verdict>)> = None;
        // Since when it is written, or since when there is something to be.
        let mut since = Instant::now();
        let mut last_write = Duration::ZERO;
        loop {
            let gather = if self.is_enough() { Duration::ZERO } else { last_write.saturating_sub(since.elapsed()) };
            if writing.is_none() && gather.is_zero() {
                since = Instant::now();
                if let Some(next) = self.driver.record() {
                    if next.entry.is_none() && next.keeps.is_empty() {
                        self.release(next.effects);
                        continue;
                    }
                    writing = Some((self.write(next.entry.as_ref(), &next.keeps), next));
                } else if self.driver.engine().state().ended().is_some() {
                    return Stopped::Ended;
                }
            }
            let deadline = self.driver.engine().next_deadline().map_or(Duration::from_secs(3600), |deadline| {
                Duration::from_millis(deadline.0.saturating_sub(self.now().0))
            });
            let go_on = self.driver.wants_to_go_on() && self.driver.waiting() < MOST_WAITING;
            tokio::select! {
                biased;
                written = async { match &mut writing { Some((writing, _)) => writing.await, None => Ok(()) } },
                    if writing.is_some() =>
                {
                    match (written, writing.take()) {
                        (Ok(()), Some((_, done))) => {
                            last_write = since.elapsed().clamp(SHORTEST_GATHERING, LONGEST_GATHERING);
                            since = Instant::now();
                            self.release(done.effects);
                            self.tell(None);
                        }
                        (Err(Error::NotOwned(_) | Error::Unknown(_)), _) => return Stopped::Taken,
                        (Err(error), Some((_, again))) => {
                            warn!(process = %self.id, %error, "the process waits for its repository");
                            self.tell(Some(v1::stall_reason::Kind::RepositoryUnavailable(error.to_string()).into()));
                            if self.mail.is_closed() {
                                return Stopped::Halted;
                            }
                            let write = self.write(again.entry.as_ref(), &again.keeps);
                            let later = async move {
                                tokio::time::sleep(TRY_AGAIN).await;
                                write.await
                            };
                            writing = Some((Box::pin(later), again));
                        }
                        (_, None) => {}
                    }
                }
                count = self.mail.recv_many(&mut batch, 256), if self.driver.waiting() < MOST_WAITING => {
                    if count == 0 {
                        return Stopped::Halted;
                    }
                    for mail in batch.drain(..) {
                        if matches!(mail, Mail::Taken) {
                            return Stopped::Taken;
                        }
                        self.on_mail(mail);
                    }
                }
                changed = self.share.changed() => {
                    if changed.is_err() {
                        return Stopped::Halted;
                    }
                    self.take_share();
                    self.take(Incoming::Continued);
                }
                // Others have their turn first.
                () = tokio::task::yield_now(), if go_on => self.take(Incoming::Continued),
                () = tokio::time::sleep(deadline) => self.take(Incoming::TimePassed),
                () = tokio::time::sleep(gather), if writing.is_none() && !gather.is_zero() => {}
            }
        }
    }

    /// Is it worth while to write now, or better to wait a little for more?
    fn is_enough(&self) -> bool {
        let waiting = self.driver.waiting();
        waiting == 0 || waiting >= MANY || self.driver.engine().state().counts().out < MANY_OUT
    }

    fn write(&self, entry: Option<&Entry>, keeps: &[Keep]) -> Writing {
        let record = entry.cloned().map(|entry| -> Call {
            let (repository, id) = (self.repository.clone(), self.id.clone());
            Box::pin(async move {
                match entry {
                    Entry::Append(record) => repository.append(&id, record).await,
                    Entry::Compact(snapshot) => repository.compact(&id, snapshot).await,
                }
            })
        });
        if keeps.is_empty() {
            return record.unwrap_or_else(|| Box::pin(async { Ok(()) }));
        }
        let (shelf, recorded, mut calls) = (self.shelf.clone(), record.is_some(), self.shelf.calls(keeps));
        calls.extend(record);
        Box::pin(async move {
            let mut results = all(calls).await;
            let written = if recorded { results.pop().unwrap_or(Ok(())) } else { Ok(()) };
            for error in results.into_iter().filter_map(Result::err) {
                // Whoever looks for it does not find it, and runs.
                warn!(%error, "a result is not kept for another time");
            }
            shelf.tidy();
            written
        })
    }

    /// Looks for results that were kept. Whoever wants to know is told by mail.
    fn look(&self, key: AttemptKey, sought: Box<Sought>) {
        let (shelf, processes) = (self.shelf.clone(), self.processes.clone());
        tokio::spawn(async move {
            let found = shelf.look(&key.process, &sought).await;
            if let Some(process) = processes.find(&key.process) {
                let _ = process.mail.send(Incoming::Sought(key, found).into()).await;
            }
        });
    }

    /// Does what may be done now that it is recorded why.
    fn release(&self, effects: Vec<Effect<Orders, Verdict>>) {
        let mut tasks = Vec::new();
        for effect in effects {
            let effect = match effect {
                Effect::Dispatch(task) => {
                    tasks.push(task);
                    continue;
                }
                Effect::Tell(product, reused) => {
                    self.outputs.add(product, reused);
                    continue;
                }
                effect => effect,
            };
            if !tasks.is_empty() {
                let _ = self.pool.send(PoolMail::Dispatch(std::mem::take(&mut tasks)));
            }
            // Whoever is not there any more will ask again.
            match effect {
                Effect::Dispatch(_) | Effect::Tell(..) => {}
                Effect::Look(key, sought) => self.look(key, sought),
                Effect::Delegate(task) => drop(self.pool.send(PoolMail::Delegate(task))),
                Effect::Hand(key) => drop(self.pool.send(PoolMail::Hand(key))),
                Effect::Cancel(key) => drop(self.pool.send(PoolMail::Cancel(key))),
                Effect::Pause(key, paused) => drop(self.pool.send(PoolMail::Pause(key, paused))),
                Effect::Abandon(key) => drop(self.pool.send(PoolMail::Abandon(key))),
                Effect::Acknowledge(orders, key) => drop(orders.send(Order::Acknowledge(key))),
                Effect::Reply(orders, reply) => drop(orders.send(Order::Reply(reply))),
                Effect::Decide(verdict, decided) => drop(verdict.send(decided)),
            }
        }
        if !tasks.is_empty() {
            let _ = self.pool.send(PoolMail::Dispatch(tasks));
        }
    }

    fn on_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Happened(happened) => happened.into_iter().for_each(|happened| self.take(happened)),
            Mail::Called(call, orders) => {
                let home = call.object.as_ref().is_none_or(|object| *object.home == **self.driver.engine().id());
                match self.parent.as_ref().filter(|_| !home) {
                    Some(parent) => parent.forward(call, &orders),
                    None => self.take(Incoming::Called(call, orders)),
                }
            }
            Mail::Printed(element, line) => {
                let path = self.driver.engine().path(element_from(element));
                match &self.printed {
                    Some(printed) => drop(printed.send((path, line))),
                    None => info!(element = path, line, "printed"),
                }
            }
            Mail::Show { path, depth, answer } => self.on_show(&path, depth, answer),
            Mail::Taken => {}
        }
    }

    fn outcome(&self) -> &'static str {
        match self.driver.engine().state().ended() {
            Some((Outcome::Completed, _)) => "completed",
            Some((Outcome::Cancelled, _)) => "cancelled",
            _ => "failed",
        }
    }

    /// The process is over: what is kept of it is written, then everybody hears of it.
    async fn end(mut self) {
        let mut status = self.status.borrow().clone();
        self.bring_up_to_date(&mut status);
        let past = self.driver.past(status.submitted_ms);
        let Some((outcome, results)) = self.driver.engine().state().ended() else { return };
        if let Some(parent) = &self.parent {
            // It is kept as it is until its parent has the answer. After a crash it ends once more.
            let answer = foster::answer(self.driver.engine().program(), self.driver.root(), outcome, results);
            let recipes = self.driver.recipes(results.values());
            let answer = foster::sendable(parent.key(), &self.id, answer, self.driver.counts(), &past, recipes);
            let kept = match &answer.outcome {
                Some(v1::answer::Outcome::Completed(completed)) => &completed.results[..],
                _ => &[],
            };
            let release = release(&self.id, kept.iter());
            let _ = self.pool.send(PoolMail::Release(release.into(), self.driver.made_files()));
            self.status.send_replace(status);
            if !parent.finish(answer) {
                discard(&self.repository, &self.pool, &self.processes, &self.id);
            }
            return self.late().await;
        }
        let results = match outcome {
            Outcome::Completed => results
                .iter()
                .map(|(name, result)| v1::Parameter { name: name.to_string(), value: Some(value(result)) })
                .collect(),
            _ => Vec::new(),
        };
        let release = release(&self.id, results.iter().filter_map(|result: &v1::Parameter| result.value.as_ref()));
        let values = results.iter().filter_map(|result| result.value.as_ref());
        let files: Vec<v1::Value> = values.filter(|value| !references(value).is_empty()).cloned().collect();
        let summary = journal::write(&Summary::new(&status, results, &past));
        loop {
            match self.repository.close(&self.id, summary.clone()).await {
                Ok(()) => break,
                Err(Error::NotOwned(_) | Error::Unknown(_)) => return self.leave(),
                Err(error) => {
                    warn!(process = %self.id, %error, "the process waits for its repository");
                    if self.mail.is_closed() {
                        return;
                    }
                    self.tell(Some(v1::stall_reason::Kind::RepositoryUnavailable(error.to_string()).into()));
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
        let _ = self.pool.send(PoolMail::Release(release.into(), self.driver.made_files()));
        if !files.is_empty() {
            let (keeping, id) = (self.keeping.clone(), self.id.clone());
            tokio::spawn(async move { keeping.bring_home(&id, &files).await });
        }
        self.processes.remove(&self.id);
        self.status.send_replace(status);
        self.late().await;
    }

    /// Whoever still writes gets a last answer.
    async fn late(&mut self) {
        self.mail.close();
        while let Some(mail) = self.mail.recv().await {
            match mail {
                Mail::Show { answer, .. } => drop(answer.send(Err(Rejection::Ended))),
                Mail::Called(call, orders) => {
                    let result = Some(v1::shared_reply::Result::Error("the process has ended".into()));
                    let _ = orders.send(Order::Reply(v1::SharedReply { ticket: call.ticket, result }));
                }
                Mail::Happened(happened) => {
                    for happened in happened {
                        match happened {
                            Incoming::Steered { verdict, .. } | Incoming::Asked { verdict, .. } => {
                                let _ = verdict.send(Err(Rejection::Ended));
                            }
                            Incoming::Answered { key, from: Some(orders), .. } => {
                                let _ = orders.send(Order::Acknowledge(key));
                            }
                            _ => {}
                        }
                    }
                }
                Mail::Printed(..) | Mail::Taken => {}
            }
        }
    }

    /// Brings the status up to date for whoever watches. The end is told when it is kept.
    fn tell(&self, stalled: Option<v1::StallReason>) {
        if self.driver.engine().state().ended().is_some() && stalled.is_none() {
            return;
        }
        self.status.send_if_modified(|status| {
            let counts = Some(self.driver.counts());
            let paused = self.driver.engine().state().counts().paused > 0;
            let changed = status.counts != counts || status.paused != paused || status.stalled != stalled;
            (status.counts, status.paused, status.stalled) = (counts, paused, stalled);
            changed
        });
    }

    fn bring_up_to_date(&self, status: &mut v1::ProcessStatus) {
        let state = self.driver.engine().state();
        status.counts = Some(self.driver.counts());
        status.paused = false;
        status.stalled = None;
        if let Some((outcome, _)) = state.ended() {
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
    }

    fn on_show(&self, path: &str, depth: u32, answer: oneshot::Sender<Result<v1::Element, Rejection>>) {
        let shown = match self.driver.engine().find(path) {
            Ok(Some(id)) => {
                let mut element = self.element(id, depth);
                if *path == **self.driver.engine().id() {
                    element.took = self.driver.past(0).took(self.driver.engine().program());
                }
                Ok(element)
            }
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
        let Some(view) = self.driver.engine().view(id) else { return v1::Element::default() };
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

/// Removes a subtree that is over, and that nobody needs any more.
pub(crate) fn discard(repository: &Store, pool: &PoolSender, processes: &Processes, id: &Arc<str>) {
    let Some(handle) = processes.find(id) else { return };
    let summary = journal::write(&Summary::new(&handle.status.borrow(), Vec::new(), &Past::default()));
    processes.remove(id);
    let (repository, pool, id) = (repository.clone(), pool.clone(), id.clone());
    tokio::spawn(async move {
        loop {
            let removed = match repository.close(&id, summary.clone()).await {
                Ok(()) | Err(Error::Unknown(_)) => repository.forget(&[id.to_string()]).await,
                Err(error) => Err(error),
            };
            match removed {
                Err(Error::Unavailable(_)) => tokio::time::sleep(TRY_AGAIN).await,
                Err(error) => return info!(process = %id, %error, "a subtree that nobody needs is kept"),
                Ok(()) => {
                    let release = v1::Release { process: id.to_string(), ..v1::Release::default() };
                    let _ = pool.send(PoolMail::Release(release.into(), true));
                    return;
                }
            }
        }
    });
}

fn attempts(process: &Arc<str>, element: &v1::Element) -> Vec<(String, AttemptKey)> {
    let mut found = Vec::new();
    let mut pending = vec![element];
    while let Some(element) = pending.pop() {
        if (element.tag == "ACTIVITY" && element.condition() != v1::Condition::Ready) || element.delegated {
            found.push((element.path.clone(), AttemptKey::new(process.clone(), element.element, element.attempts)));
        }
        pending.extend(&element.children);
    }
    found
}

/// Names who runs what, and fills in what runs at other coordinators.
async fn complete(element: &mut v1::Element, places: &HashMap<String, Whereabouts>, depth: u32) {
    let mut pending = vec![(element, depth)];
    while let Some((element, depth)) = pending.pop() {
        if let Some(Whereabouts::Waits(why)) = places.get(&element.path) {
            element.wait_reason = Some(why.clone());
        }
        if let Some(Whereabouts::At { name, address, silent }) = places.get(&element.path) {
            element.worker = name.to_string();
            let silent = silent.filter(|silent| element.delegated && *silent > LONG_SILENCE);
            if let Some(silent) = silent {
                element.wait_reason =
                    Some(v1::wait_reason::Kind::CoordinatorSilentMs(silent.as_millis() as u64).into());
            }
            if element.delegated
                && silent.is_none()
                && let Some(there) = remote(address, &element.path, depth).await
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
    let channel = connect(address).await.ok()?;
    let most = xavantes_proto::MAX_MESSAGE;
    let mut client = ProcessCoordinatorClient::new(channel).max_decoding_message_size(most);
    question(client.show(v1::ShowRequest { path: path.to_owned(), depth })).await.ok()?.element
}

fn describe(view: &View) -> v1::Element {
    let (condition, why) = match &view.condition {
        Condition::Absent => (v1::Condition::Absent, None),
        Condition::Ready => (v1::Condition::Ready, None),
        Condition::Running => (v1::Condition::Running, None),
        Condition::Stopping => (v1::Condition::Stopping, None),
        Condition::Waiting(_, why) => (v1::Condition::Waiting, Some(failure(why))),
        Condition::Held(why) => (v1::Condition::Held, Some(failure(why))),
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
