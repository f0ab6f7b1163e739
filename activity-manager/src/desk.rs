//! Every attempt from its arrival until its answer was acknowledged, and the coordinators that they are for.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as blocking};

use tokio::sync::{Notify, mpsc};
use tracing::debug;
use xavantes_model::definition::{ActivityCode, Program, Requires};
use xavantes_model::value::Value;
use xavantes_proto::{MAX_PART, Message, too_large, v1, value_from};

use crate::admission::{Admission, Verdict};
use crate::{command, lua};

/// What an attempt is called: coordinator, process, element, attempt. Coordinators know nothing of each other's
/// processes, so only with the coordinator's name is it unique.
pub(crate) type Key = (Arc<str>, Arc<str>, u64, u32);

/// Reports that wait for a coordinator's stream at most; then whoever reports waits too.
const MOST_REPORTS: usize = 1024;
/// A line that an activity prints is cut after so many bytes.
const LONGEST_LINE: usize = 64 << 10;

/// Something to tell a coordinator.
pub(crate) enum Report {
    Answer(v1::Answer),
    Call(v1::SharedCall),
    Printed(v1::Printed),
    Draining,
}

impl Report {
    /// How much room it takes in a message.
    pub fn size(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.encoded_len(),
            Self::Call(call) => call.encoded_len(),
            Self::Printed(printed) => printed.encoded_len(),
            Self::Draining => 2,
        }
    }
}

/// An attempt that was admitted.
#[derive(Clone)]
pub(crate) struct Job {
    pub key: Key,
    pub program: Arc<Program>,
    pub activity: usize,
    pub parameters: Vec<Value>,
    pub stop: Arc<Stop>,
}

impl Job {
    pub fn coordinator(&self) -> &Arc<str> {
        &self.key.0
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.key.3
    }

    pub fn code(&self) -> &ActivityCode {
        &self.program.activities[self.activity].code
    }

    fn needs(&self) -> u32 {
        self.program.activities[self.activity].requires.cpus
    }
}

/// Asks an attempt to stop.
#[derive(Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    notify: Notify,
}

impl Stop {
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns when it was asked to stop.
    pub async fn asked(&self) {
        let notified = self.notify.notified();
        if !self.is_asked() {
            notified.await;
        }
    }
}

enum Attempt {
    /// Waits or runs.
    Here(Job),
    /// Over; the answer is kept until it was acknowledged.
    Answered(v1::Answer),
}

/// A call of a shared object that was not answered yet.
struct PendingCall {
    coordinator: Arc<str>,
    call: v1::SharedCall,
    answer: blocking::Sender<Result<Value, String>>,
}

struct Books {
    admission: Admission<Key>,
    attempts: HashMap<Key, Attempt>,
    programs: HashMap<String, Arc<Program>>,
    streams: HashMap<Arc<str>, mpsc::Sender<Report>>,
    calls: HashMap<u64, PendingCall>,
}

/// The desk of an activity manager.
pub(crate) struct Desk {
    pub node: String,
    slots: u32,
    queue: u32,
    tags: BTreeSet<String>,
    books: Mutex<Books>,
    lua: lua::Pool,
    tickets: AtomicU64,
    /// Rings when an attempt is over.
    pub idle: Notify,
}

impl Desk {
    pub fn new(node: String, slots: u32, queue: u32, tags: BTreeSet<String>) -> Arc<Self> {
        let books = Books {
            admission: Admission::new(slots, queue as usize),
            attempts: HashMap::new(),
            programs: HashMap::new(),
            streams: HashMap::new(),
            calls: HashMap::new(),
        };
        Arc::new_cyclic(|desk| Self {
            node,
            slots,
            queue,
            tags,
            books: Mutex::new(books),
            lua: lua::Pool::new(slots, desk.clone()),
            tickets: AtomicU64::new(1),
            idle: Notify::new(),
        })
    }

    /// The books are consistent between any two statements that could panic, so a poisoned lock is as good as another.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attempts that run or wait, and slots.
    pub fn load(&self) -> (u32, u32) {
        let (used, waiting) = self.books().admission.load();
        (used + waiting as u32, self.slots)
    }

    /// A coordinator's stream begins: what it must know, and everything that it may have missed.
    pub fn connect(&self, coordinator: &Arc<str>) -> (v1::WorkerHello, mpsc::Receiver<Report>) {
        let mut books = self.books();
        // Everything that it may have missed fits in.
        let (sender, receiver) = mpsc::channel(MOST_REPORTS + books.attempts.len() + books.calls.len());
        let (mut running, mut answered) = (Vec::new(), Vec::new());
        for (key, attempt) in &books.attempts {
            match attempt {
                _ if key.0 != *coordinator => {}
                Attempt::Here(_) => running.push(wire_id(key)),
                Attempt::Answered(answer) => {
                    answered.push(wire_id(key));
                    let _ = sender.try_send(Report::Answer(answer.clone()));
                }
            }
        }
        let hello = v1::WorkerHello {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            slots: self.slots,
            queue: self.queue,
            tags: self.tags.iter().cloned().collect(),
            running,
            answered,
        };
        for pending in books.calls.values().filter(|pending| pending.coordinator == *coordinator) {
            let _ = sender.try_send(Report::Call(pending.call.clone()));
        }
        books.streams.insert(coordinator.clone(), sender);
        (hello, receiver)
    }

    /// A coordinator begins a new life: what it handed out in former ones is stopped and forgotten.
    pub fn retire(&self, name: &str, coordinator: &Arc<str>) {
        let former = |whose: &Arc<str>| whose.starts_with(name) && whose != coordinator;
        let books = &mut *self.books();
        books.streams.retain(|whose, _| !former(whose));
        books.attempts.retain(|key, attempt| match attempt {
            _ if !former(&key.0) => true,
            Attempt::Here(job) => {
                job.stop.ask();
                // What runs goes when it has stopped.
                !books.admission.withdraw(|other| other == key)
            }
            Attempt::Answered(_) => false,
        });
    }

    pub fn add_program(&self, digest: String, program: Arc<Program>) {
        self.books().programs.insert(digest, program);
    }

    pub fn has_program(&self, digest: &str) -> bool {
        self.books().programs.contains_key(digest)
    }

    /// A job arrives: it runs, waits, or is answered at once.
    pub fn arrive(self: &Arc<Self>, coordinator: &Arc<str>, job: v1::Job) {
        let Some(id) = job.id.clone() else { return };
        let key = key_of(coordinator, &id);
        match self.admit(&key, job) {
            Ok(Some(job)) => self.begin(job),
            Ok(None) => {}
            Err(refusal) => {
                debug!(process = %key.1, attempt = key.3, reason = refusal.reason, "refused");
                let outcome = v1::answer::Outcome::Refused(refusal);
                // A refused attempt leaves no trace: it may come again.
                self.send(
                    coordinator,
                    Report::Answer(v1::Answer { id: Some(id), outcome: Some(outcome), counts: None }),
                );
            }
        }
    }

    /// The job, if it begins now; nothing, if it waits or was known; or why it is refused.
    fn admit(&self, key: &Key, job: v1::Job) -> Result<Option<Job>, v1::Refusal> {
        let never = |reason: &str| v1::Refusal { reason: reason.into(), for_good: true };
        let mut books = self.books();
        match books.attempts.get(key) {
            Some(Attempt::Answered(answer)) => {
                let (again, stream) = (Report::Answer(answer.clone()), books.streams.get(&key.0).cloned());
                drop(books);
                if let Some(stream) = stream {
                    let _ = stream.try_send(again);
                }
                return Ok(None);
            }
            Some(Attempt::Here(_)) => return Ok(None),
            None => {}
        }
        if job.subtree.is_some() {
            return Err(never("an activity manager runs no subtrees"));
        }
        let program = books.programs.get(&job.program).ok_or_else(|| never("the program is not known here"))?.clone();
        let activity = program
            .activities
            .get(job.activity as usize)
            .ok_or_else(|| never("the activity type is not known here"))?;
        self.check(&activity.requires, &activity.code).map_err(|reason| never(&reason))?;
        let parameters = job.parameters.into_iter().map(value_from).collect::<Result<Vec<_>, _>>();
        let parameters = parameters.map_err(|unfit| never(unfit.0))?;
        let cpus = activity.requires.cpus;
        let job = Job { key: key.clone(), activity: job.activity as usize, parameters, stop: Arc::default(), program };
        match books.admission.arrive(key.clone(), cpus) {
            Verdict::Refuse(reason) => Err(v1::Refusal { reason: reason.into(), for_good: false }),
            Verdict::Never(reason) => Err(never(reason)),
            Verdict::Wait => {
                books.attempts.insert(key.clone(), Attempt::Here(job));
                Ok(None)
            }
            Verdict::Run => {
                books.attempts.insert(key.clone(), Attempt::Here(job.clone()));
                Ok(Some(job))
            }
        }
    }

    fn check(&self, requires: &Requires, code: &ActivityCode) -> Result<(), String> {
        if let Some(missing) = requires.tags.iter().find(|tag| !self.tags.contains(&***tag)) {
            return Err(format!("this node is not tagged {missing:?}"));
        }
        if requires.gpus > 0 {
            return Err("this node has no GPU".into());
        }
        match code {
            ActivityCode::Interpreter { language, .. } => Err(format!("this node has no interpreter for {language:?}")),
            _ => Ok(()),
        }
    }

    fn begin(self: &Arc<Self>, job: Job) {
        match job.code() {
            ActivityCode::Lua { .. } => self.lua.run(job),
            _ => drop(tokio::spawn(command::run(self.clone(), job))),
        }
    }

    /// An attempt is over.
    pub fn finish(self: &Arc<Self>, job: &Job, outcome: v1::answer::Outcome) {
        let answer = self.answer(&job.key, outcome);
        let next: Vec<Job> = {
            let mut books = self.books();
            if books.streams.contains_key(job.coordinator()) {
                books.attempts.insert(job.key.clone(), Attempt::Answered(answer.clone()));
            } else {
                // Handed out in a former life of its coordinator.
                books.attempts.remove(&job.key);
            }
            let next = books.admission.leave(job.needs());
            next.iter()
                .filter_map(|key| match books.attempts.get(key) {
                    Some(Attempt::Here(job)) => Some(job.clone()),
                    _ => None,
                })
                .collect()
        };
        self.send(job.coordinator(), Report::Answer(answer));
        next.into_iter().for_each(|job| self.begin(job));
        self.idle.notify_waiters();
    }

    /// An answer that can be sent: one that is too large would break the stream, each time it is offered again.
    fn answer(&self, key: &Key, outcome: v1::answer::Outcome) -> v1::Answer {
        let answer = v1::Answer { id: Some(wire_id(key)), outcome: Some(outcome), counts: None };
        let size = answer.encoded_len();
        if size <= MAX_PART {
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

    /// To a coordinator, if it is connected; otherwise it hears of answers and calls when it connects again.
    fn send(&self, coordinator: &Arc<str>, report: Report) {
        let stream = self.books().streams.get(coordinator).cloned();
        if let Some(stream) = stream
            && let Err(mpsc::error::TrySendError::Full(report)) = stream.try_send(report)
        {
            // Waits for room off this thread, which may be one of the runtime's.
            std::thread::spawn(move || drop(stream.blocking_send(report)));
        }
    }

    pub fn cancel(self: &Arc<Self>, coordinator: &Arc<str>, id: &v1::AttemptId) {
        let key = key_of(coordinator, id);
        let withdrawn = {
            let mut books = self.books();
            let Some(Attempt::Here(job)) = books.attempts.get(&key) else { return };
            let job = job.clone();
            job.stop.ask();
            if books.admission.withdraw(|other| *other == key) { Some(job) } else { None }
        };
        if let Some(job) = withdrawn {
            let mut books = self.books();
            let outcome = v1::answer::Outcome::Cancelled(v1::Nothing {});
            let answer = v1::Answer { id: Some(wire_id(&key)), outcome: Some(outcome), counts: None };
            books.attempts.insert(key, Attempt::Answered(answer.clone()));
            drop(books);
            self.send(job.coordinator(), Report::Answer(answer));
        }
    }

    pub fn acknowledge(&self, coordinator: &Arc<str>, id: &v1::AttemptId) {
        let mut books = self.books();
        let key = key_of(coordinator, id);
        if let Some(Attempt::Answered(..)) = books.attempts.get(&key) {
            books.attempts.remove(&key);
        }
    }

    /// A running attempt calls a shared object; blocks until the answer is here.
    pub fn call(&self, job: &Job, mut call: v1::SharedCall) -> Result<Value, String> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        call.ticket = ticket;
        let size = call.encoded_len();
        if size > MAX_PART {
            return Err(too_large("the arguments", size));
        }
        let (answer, answered) = blocking::channel();
        let coordinator = job.coordinator().clone();
        self.books().calls.insert(ticket, PendingCall { coordinator, call: call.clone(), answer });
        self.send(job.coordinator(), Report::Call(call));
        loop {
            match answered.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok(result) => return result,
                Err(blocking::RecvTimeoutError::Timeout) if !job.stop.is_asked() => {}
                Err(_) => {
                    self.books().calls.remove(&ticket);
                    return Err("the activity was stopped".into());
                }
            }
        }
    }

    pub fn reply(&self, reply: v1::SharedReply) {
        let Some(pending) = self.books().calls.remove(&reply.ticket) else { return };
        let result = match reply.result {
            Some(v1::shared_reply::Result::Value(value)) => value_from(value).map_err(|unfit| unfit.0.to_owned()),
            Some(v1::shared_reply::Result::Error(message)) => Err(message),
            None => Ok(Value::Null),
        };
        let _ = pending.answer.send(result);
    }

    pub fn print(&self, job: &Job, line: &str) {
        let line = line[..line.floor_char_boundary(LONGEST_LINE)].to_owned();
        let printed = v1::Printed { id: Some(wire_id(&job.key)), line };
        self.send(job.coordinator(), Report::Printed(printed));
    }

    /// Takes nothing new; what waits is handed back.
    pub fn drain(self: &Arc<Self>) {
        let (back, streams) = {
            let mut books = self.books();
            let waiting = books.admission.drain();
            let back: Vec<Job> = waiting
                .into_iter()
                .filter_map(|key| match books.attempts.remove(&key) {
                    Some(Attempt::Here(job)) => Some(job),
                    _ => None,
                })
                .collect();
            (back, books.streams.keys().cloned().collect::<Vec<_>>())
        };
        for coordinator in streams {
            self.send(&coordinator, Report::Draining);
        }
        for job in back {
            let outcome =
                v1::answer::Outcome::Refused(v1::Refusal { reason: "this node is draining".into(), for_good: false });
            let answer = v1::Answer { id: Some(wire_id(&job.key)), outcome: Some(outcome), counts: None };
            self.send(job.coordinator(), Report::Answer(answer));
        }
    }

    /// Stops everything that runs.
    pub fn stop_all(&self) {
        for attempt in self.books().attempts.values() {
            if let Attempt::Here(job) = attempt {
                job.stop.ask();
            }
        }
    }
}

fn key_of(coordinator: &Arc<str>, id: &v1::AttemptId) -> Key {
    (coordinator.clone(), id.process.as_str().into(), id.element, id.attempt)
}

pub(crate) fn wire_id((_, process, element, attempt): &Key) -> v1::AttemptId {
    v1::AttemptId { process: process.to_string(), element: *element, attempt: *attempt }
}
