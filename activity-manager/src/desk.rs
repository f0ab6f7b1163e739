//! Does what the books ask for: begins and stops attempts, keeps answers, and tells coordinators.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, mpsc as blocking};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::{debug, info};
use xavantes_model::definition::{ActivityCode, ActivityType, Program};
use xavantes_model::value::Value;
use xavantes_proto::v1::{refusal_reason, requirement};
use xavantes_proto::{MAX_PAYLOAD_BYTES, Message, too_large, v1, value_from};

use crate::admission::{Room, unmet};
use crate::answers::{Answers, Record};
use crate::books::{Books, Deed, Key, Ready, Stream};
use crate::keeper::Keeper;
use crate::outbox::{Outbox, Outgoing, Report, outbox};
use crate::program::{self, Failed, Workshop};
use crate::staging::Staging;
use crate::{logs, lua};

/// A line that an activity prints is cut after so many bytes.
const LONGEST_LINE: usize = 64 << 10;
/// A coordinator that connects hears of so many objects that are here.
const MOST_HOLDINGS: usize = 10_000;
/// Answers wait for others while they are fewer than one part in so many of the attempts that wait here for a slot: there
/// is enough to do until they are sent.
const A_FEW: usize = 8;

/// An attempt that can run here.
pub(crate) struct Job {
    pub key: Key,
    pub program: Arc<Program>,
    pub activity: usize,
    pub parameters: Vec<Value>,
    /// Who has the files that they refer to.
    pub holdings: Vec<v1::Holding>,
    /// Who fetches them for us if we do not reach those.
    pub relays: Vec<Arc<str>>,
    /// The path of the element.
    pub path: Arc<str>,
    pub stop: Stop,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// Of Lua code that has printed something.
    pub log: OnceLock<Arc<logs::Log>>,
}

impl Job {
    pub fn activity(&self) -> &ActivityType {
        &self.program.activities[self.activity]
    }

    pub fn code(&self) -> &ActivityCode {
        &self.activity().code
    }

    /// Its failure, if it was stopped because its time was over.
    pub fn over_time(&self) -> Option<Failed> {
        let limit = self.timeout.filter(|_| self.stop.is_asked() && !self.stop.is_cancelled())?;
        let message = format!("took longer than its TIMEOUT of {limit:?}");
        Some(program::failure(v1::FailureKind::Timeout, message))
    }
}

/// Asks an attempt to stop.
#[derive(Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    cancelled: AtomicBool,
    notify: Notify,
    /// It has ended.
    over: Notify,
}

impl Stop {
    /// Nobody wants it any more.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.ask();
    }

    /// Its time is over.
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// For whatever reason.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns when it was asked to stop.
    pub async fn asked(&self) {
        let notified = self.notify.notified();
        if !self.is_asked() {
            notified.await;
        }
    }
}

/// Ends an attempt when its time is over.
async fn end_in_time(job: Arc<Job>, timeout: Duration) {
    tokio::select! {
        () = tokio::time::sleep(timeout) => job.stop.ask(),
        () = job.stop.over.notified() => {}
    }
}

type Reply = Result<Value, String>;

/// The books, and what deeds are done with. Deeds are done before the lock is released, so that they keep their order;
/// none of them waits.
struct State {
    books: Books<Arc<Job>>,
    /// Where coordinators are reached that were connected last, by realm.
    addresses: HashMap<Arc<str>, String>,
    /// Of the coordinators that are connected.
    outboxes: HashMap<Arc<str>, Outbox>,
    /// Who waits for replies to calls, by ticket.
    callers: HashMap<u64, blocking::Sender<Reply>>,
}

/// The desk of an activity manager.
pub(crate) struct Desk {
    pub node: String,
    pub staging: Staging,
    pub workshop: Arc<Workshop>,
    slots: u32,
    queue: u32,
    tags: BTreeSet<String>,
    state: Mutex<State>,
    programs: RwLock<HashMap<String, Arc<Program>>>,
    lua: lua::Pool,
    /// Commands begin on it, whichever thread begins them.
    runtime: Handle,
    /// Is there if answers are kept on disk.
    keeper: OnceLock<Keeper>,
    /// Rings when an attempt is over, and when answers are safe.
    pub idle: Notify,
}

impl Desk {
    /// Must be called on a runtime. Answers that are kept in the folder are offered again.
    pub fn open(
        node: String,
        staging: Staging,
        slots: u32,
        queue: u32,
        tags: BTreeSet<String>,
        folder: Option<&Path>,
        programs: program::Options,
    ) -> io::Result<Arc<Self>> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let workshop = Workshop::open(&node, programs)?;
        let room = Room { cpus: slots, memory: workshop.memory, gpus: workshop.gpus.count };
        let mut books = Books::new(room, queue as usize);
        let answers = folder.map(Answers::open).transpose()?;
        if let Some(answers) = &answers {
            let mut count = 0;
            for (key, kept) in answers.needed() {
                books.restore(key.clone(), kept.owner.clone(), kept.answer.clone());
                count += 1;
            }
            if count > 0 {
                info!(answers = count, "answers were kept");
            }
        }
        let state = State { books, addresses: HashMap::new(), outboxes: HashMap::new(), callers: HashMap::new() };
        let desk = Arc::new_cyclic(|desk| Self {
            node,
            staging,
            workshop,
            slots,
            queue,
            tags,
            state: Mutex::new(state),
            programs: RwLock::default(),
            lua: lua::Pool::new(slots, desk.clone()),
            runtime,
            keeper: OnceLock::new(),
            idle: Notify::new(),
        });
        if let Some(answers) = answers {
            let weak = Arc::downgrade(&desk);
            let keeper = Keeper::new(answers, move |keys| {
                if let Some(desk) = weak.upgrade() {
                    desk.kept(&keys);
                }
            })?;
            // It is not there yet.
            let _ = desk.keeper.set(keeper);
        }
        Ok(desk)
    }

    /// The state is consistent between any two statements that could panic, so a poisoned lock is as good as another.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(self: &Arc<Self>, state: &mut State, deeds: Vec<Deed<Arc<Job>>>) {
        let mut deeds = VecDeque::from(deeds);
        let mut records = Vec::new();
        while let Some(deed) = deeds.pop_front() {
            match deed {
                Deed::Begin(job) => {
                    if let Some(timeout) = job.timeout {
                        self.runtime.spawn(end_in_time(job.clone(), timeout));
                    }
                    match job.code() {
                        ActivityCode::Lua { .. } => self.lua.run(job),
                        _ => drop(self.runtime.spawn(program::run(self.clone(), job))),
                    }
                }
                Deed::Stop(job) => job.stop.cancel(),
                Deed::Tell(coordinator, report) => {
                    if let Some(outbox) = state.outboxes.get(&coordinator) {
                        outbox.push(Report::Other(report));
                    }
                }
                Deed::Keep(key, owner, answer) => match self.keeper.get() {
                    Some(_) => records.push(Record::Answer(key, owner, answer)),
                    None => deeds.extend(state.books.kept(&key)),
                },
                Deed::Forget(key) => records.push(Record::Forgotten(key)),
            }
        }
        if let Some(keeper) = self.keeper.get() {
            keeper.write(records, state.books.load().1 / A_FEW);
        }
    }

    /// Slots in use, and attempts that wait for one.
    pub fn load(&self) -> (u32, u32) {
        let (used, waiting) = self.state().books.load();
        (used, waiting as u32)
    }

    /// Nothing runs or waits, and all answers are safe.
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.books.load() == (0, 0) && !state.books.is_saving()
    }

    /// Why answers cannot be kept.
    pub fn trouble(&self) -> Option<String> {
        self.keeper.get()?.trouble()
    }

    /// A coordinator's stream begins: what it must know, and everything that it may have missed, is in the outbox.
    pub fn connect(self: &Arc<Self>, coordinator: &Arc<str>, realm: &Arc<str>, address: String) -> (Stream, Outgoing) {
        let (holds, keeps) = (self.staging.holds(MOST_HOLDINGS), self.staging.keeps(realm));
        let mut state = self.state();
        state.addresses.insert(realm.clone(), address);
        let (stream, welcome, deeds) = state.books.connect(coordinator, realm);
        let (outbox, outgoing) = outbox();
        outbox.push(Report::Hello(v1::WorkerHello {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            slots: self.slots,
            queue: self.queue,
            tags: self.tags.iter().cloned().collect(),
            memory: self.workshop.memory,
            gpus: self.workshop.gpus.count,
            interpreters: self.workshop.interpreters.languages(),
            containers: self.workshop.engine.is_some(),
            running: welcome.running,
            answered: welcome.answered,
            holds,
            keeps,
        }));
        state.outboxes.insert(coordinator.clone(), outbox);
        self.perform(&mut state, deeds);
        (stream, outgoing)
    }

    /// A coordinator's stream is no more.
    pub fn disconnect(&self, stream: &Stream) {
        let mut state = self.state();
        if state.books.is_current(stream) {
            state.books.disconnect(stream);
            state.outboxes.remove(&stream.coordinator);
        }
    }

    pub fn add_program(&self, digest: String, program: Arc<Program>) {
        self.programs.write().unwrap_or_else(PoisonError::into_inner).insert(digest, program);
    }

    pub fn program(&self, digest: &str) -> Option<Arc<Program>> {
        self.programs.read().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    /// Does what an order says, except for its programs; false if the stream that it came by does not count any more.
    pub fn take(self: &Arc<Self>, stream: &Stream, order: v1::WorkOrder) -> bool {
        let jobs = order.jobs.into_iter().filter_map(|mut job| {
            let key = stream.key(&job.id.take()?);
            Some((key.clone(), job.epoch, self.ready(key, job)))
        });
        let jobs: Vec<_> = jobs.collect();
        for release in &order.releases {
            self.staging.release(&stream.realm, release);
        }
        let mut state = self.state();
        let state = &mut *state;
        if !state.books.is_current(stream) {
            return false;
        }
        if !order.claims.is_empty() {
            let deeds = state.books.claim(stream, order.claims);
            self.perform(state, deeds);
        }
        if order.recall {
            let deeds = state.books.recall(stream);
            self.perform(state, deeds);
        }
        let acknowledged = order.acknowledged.iter().flat_map(|id| state.books.acknowledge(stream, id)).collect();
        self.perform(state, acknowledged);
        for (key, epoch, ready) in jobs {
            let deeds = state.books.arrive(stream, key, epoch, ready);
            self.perform(state, deeds);
        }
        for id in &order.cancels {
            let deeds = state.books.cancel(stream, id);
            self.perform(state, deeds);
        }
        for reply in order.replies {
            if state.books.reply(stream, reply.ticket)
                && let Some(caller) = state.callers.remove(&reply.ticket)
            {
                let _ = caller.send(match reply.result {
                    Some(v1::shared_reply::Result::Value(value)) => value_from(value).map_err(|unfit| unfit.0.into()),
                    Some(v1::shared_reply::Result::Error(message)) => Err(message),
                    None => Ok(Value::Null),
                });
            }
        }
        true
    }

    /// A job as it can run here, or why it cannot.
    fn ready(&self, key: Key, job: v1::Job) -> Result<Ready<Arc<Job>>, v1::Refusal> {
        let (process, attempt) = (key.process.clone(), key.attempt);
        self.job(key, job).map_err(|reason| {
            debug!(%process, attempt, reason = %v1::RefusalReason::from(reason.clone()), "cannot run here");
            v1::Refusal::permanent(reason)
        })
    }

    fn job(&self, key: Key, job: v1::Job) -> Result<Ready<Arc<Job>>, refusal_reason::Kind> {
        let invalid = |problem: &str| refusal_reason::Kind::InvalidJob(problem.to_owned());
        if job.subtree.is_some() {
            return Err(invalid("an activity manager runs no subtrees"));
        }
        let program = self.program(&job.program).ok_or(refusal_reason::Kind::UnknownProgram(v1::Nothing {}))?;
        let number = job.activity as usize;
        let activity =
            program.activities.get(number).ok_or_else(|| invalid("its program has no such activity type"))?;
        self.check(activity)?;
        let parameters = job.parameters.into_iter().map(value_from).collect::<Result<_, _>>();
        let parameters = parameters.map_err(|unfit| invalid(unfit.0))?;
        let requires = &activity.requires;
        let needs = Room { cpus: requires.cpus, memory: requires.memory, gpus: requires.gpus };
        let relays = job.relays.into_iter().map(Arc::from).collect();
        let timeout = job.timeout_ms.map(Duration::from_millis);
        let (path, holdings, stop, log) = (job.path.into(), job.holdings, Stop::default(), OnceLock::new());
        let job = Job { key, program, activity: number, parameters, holdings, relays, path, stop, timeout, log };
        Ok(Ready { needs, job: Arc::new(job) })
    }

    fn check(&self, activity: &ActivityType) -> Result<(), refusal_reason::Kind> {
        if let Some(missing) = activity.requires.tags.iter().find(|tag| !self.tags.contains(&***tag)) {
            return Err(unmet(requirement::Kind::Tag(missing.to_string())));
        }
        self.workshop.lacks(activity).map_or(Ok(()), |lack| Err(unmet(lack)))
    }

    /// An attempt is over.
    pub fn finish(self: &Arc<Self>, job: &Job, outcome: v1::answer::Outcome, usage: Option<v1::Usage>) {
        job.stop.over.notify_one();
        let answer = v1::Answer { usage: usage.map(Box::new), ..self.answer(&job.key, outcome) };
        let mut state = self.state();
        let deeds = state.books.finish(&job.key, answer);
        self.perform(&mut state, deeds);
        drop(state);
        self.idle.notify_waiters();
    }

    /// An answer that can be sent: one that is too large would break the stream each time it is offered.
    fn answer(&self, key: &Key, outcome: v1::answer::Outcome) -> v1::Answer {
        let answer = key.answer(outcome);
        let size = answer.encoded_len();
        if size <= MAX_PAYLOAD_BYTES {
            return answer;
        }
        let failure = v1::Failure {
            kind: v1::FailureKind::Limit.into(),
            message: too_large("its results", size),
            worker: Some(self.node.clone()),
            ..v1::Failure::default()
        };
        v1::Answer { outcome: Some(v1::answer::Outcome::Failed(failure)), ..answer }
    }

    /// Answers are safe.
    fn kept(self: &Arc<Self>, keys: &[Key]) {
        // Others get the lock in between.
        for some in keys.chunks(256) {
            let mut state = self.state();
            let deeds = some.iter().flat_map(|key| state.books.kept(key)).collect();
            self.perform(&mut state, deeds);
        }
        self.idle.notify_waiters();
    }

    /// A running attempt calls a shared object; blocks until the answer is here.
    pub fn call(self: &Arc<Self>, job: &Job, call: v1::SharedCall) -> Result<Value, String> {
        let size = call.encoded_len();
        if size > MAX_PAYLOAD_BYTES {
            return Err(too_large("the arguments", size));
        }
        let (answer, answered) = blocking::channel();
        let ticket = {
            let mut state = self.state();
            let (ticket, deeds) = state.books.call(&job.key, call);
            state.callers.insert(ticket, answer);
            self.perform(&mut state, deeds);
            ticket
        };
        loop {
            match answered.recv_timeout(Duration::from_millis(100)) {
                Ok(result) => return result,
                Err(blocking::RecvTimeoutError::Timeout) if !job.stop.is_asked() => {}
                Err(_) => {
                    let mut state = self.state();
                    state.books.abandon(ticket);
                    state.callers.remove(&ticket);
                    return Err("the activity was stopped".into());
                }
            }
        }
    }

    /// A running attempt prints; blocks while the coordinator does not keep up. Must not be called on the runtime.
    pub fn print(&self, job: &Job, line: &str) {
        let log = job.log.get_or_init(|| self.workshop.shelf.begin(program::title(job)));
        log.write(logs::Which::Stdout, line.as_bytes());
        log.write(logs::Which::Stdout, b"\n");
        let outbox = {
            let state = self.state();
            state.books.listener(&job.key).and_then(|owner| state.outboxes.get(owner)).cloned()
        };
        let Some(outbox) = outbox else { return };
        let room = self.runtime.block_on(async {
            tokio::select! {
                () = outbox.level.room() => true,
                () = job.stop.asked() => false,
            }
        });
        if room {
            let line = line[..line.floor_char_boundary(LONGEST_LINE)].to_owned();
            outbox.push(Report::Printed(v1::Printed { id: Some(job.key.id()), line }));
        }
    }

    /// Takes nothing new; what waits is handed back.
    pub fn drain(self: &Arc<Self>) {
        let mut state = self.state();
        let deeds = state.books.drain();
        self.perform(&mut state, deeds);
    }

    /// Hands over files that processes need.
    pub async fn hand_over(&self) {
        let addresses = self.state().addresses.clone();
        self.staging.hand_over(&addresses).await;
    }

    /// Stops everything that runs.
    pub fn stop_all(self: &Arc<Self>) {
        let mut state = self.state();
        let deeds = state.books.stop_all();
        self.perform(&mut state, deeds);
    }
}
