//! The attempt manager: performs the actions of the attempt table. It starts and stops attempts, makes answers durable and
//! sends reports to coordinators.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock, Weak, mpsc as blocking};
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::{debug, info, warn};
use xavantes_model::definition::{ActivityCode, ActivityType};
use xavantes_model::value::Value;
use xavantes_proto::message_limits::{bound_failure, check_job};
use xavantes_proto::v1::{impairment_reason, refusal_reason, requirement};
use xavantes_proto::{MAX_PAYLOAD_BYTES, Message, too_large, v1, value_from};
use xavantes_telemetry::{AttemptEnd, metrics};

use crate::answers::answer_log::AnswerLog;
use crate::answers::answer_record::AnswerRecord;
use crate::answers::answer_writer::{AnswerWriter, WriterReport};
use crate::attempts::action::{TableAction, WorkerReport};
use crate::attempts::admission::{Load, Resources, unmet};
use crate::attempts::attempt_table::{AttemptTable, ReadyJob};
use crate::attempts::job::{Job, StopSignal};
use crate::attempts::order::TableOrder;
use crate::attempts::realm_attempt::{CoordinatorStream, RealmAttempt};
use crate::definitions::{Definitions, KnownDefinition};
use crate::executor::host::ActivityHost;
use crate::executor::lua::LuaPool;
use crate::executor::program::program_host::ProgramHost;
use crate::executor::program::run_program::ProgramExecutor;
use crate::options::Options;
use crate::outbox::{Outbox, OutboxReceiver, outbox};
use crate::report_batch::OutgoingReport;
use crate::staging::Staging;

/// Upper bound on the length of a printed line that a coordinator receives. The rest is in the log only.
const MAX_PRINTED_LINE_BYTES: usize = 64 << 10;
/// Upper bound on the objects that this worker announces when a coordinator connects.
const MAX_ANNOUNCED_OBJECTS: usize = 10_000;
/// Queued attempts per batched answer. While more attempts wait for a slot, the disk can wait for more answers: this worker
/// has enough work until the answers are sent.
const QUEUED_PER_BATCHED_ANSWER: usize = 8;
/// Upper bound on answers that one hold of the lock processes, so that other threads get the lock in between.
const MAX_PERSISTED_PER_LOCK: usize = 256;
/// Upper bound on the realms whose coordinators the worker remembers.
// The compiler evaluates this `unwrap`.
const MAX_REALMS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Interval at which a blocked call of a shared object checks whether its attempt must stop.
const CALL_STOP_CHECK: Duration = Duration::from_millis(100);

type CallResult = Result<Value, String>;
type Actions = Vec<TableAction<Arc<Job>>>;

/// The attempt table and what its actions need. Actions are performed before the lock is released, so that they keep their
/// order; none of them waits.
struct AttemptManagerState {
    table: AttemptTable<Arc<Job>>,
    /// Address of the coordinator that connected last, by realm; of the last realms only.
    addresses: LruCache<Arc<str>, String>,
    /// Outboxes of the connected coordinators.
    outboxes: HashMap<Arc<str>, Outbox>,
    /// Threads that wait for replies to calls, by ticket.
    callers: HashMap<u64, blocking::Sender<CallResult>>,
}

/// The attempt manager of a worker.
pub(crate) struct AttemptManager {
    pub node: String,
    pub staging: Staging,
    pub programs: Arc<ProgramExecutor>,
    pub slots: u32,
    queue: u32,
    tags: BTreeSet<String>,
    state: Mutex<AttemptManagerState>,
    pub definitions: Definitions,
    lua: LuaPool,
    runtime: Handle,
    /// Set if answers are stored on disk.
    writer: OnceLock<AnswerWriter>,
    /// Notified when an attempt ends and when answers become durable.
    pub progress: Notify,
}

impl AttemptManager {
    /// Opens the manager. Must be called on a runtime. Answers on disk are offered to their coordinators again.
    pub fn open(options: Options) -> io::Result<Arc<Self>> {
        let Options { node, slots, queue, folder, tags, files, sources, address, programs } = options;
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let staging = Staging::new(files, sources, &address);
        let host = ProgramHost::open(&node, programs)?;
        let capacity = Resources { cpus: slots, memory: host.memory, gpus: host.gpus.count };
        let mut table = AttemptTable::new(capacity, queue as usize);
        let answers = folder.as_deref().map(AnswerLog::open).transpose()?;
        if let Some(answers) = &answers {
            let restored = answers.needed().map(|answer| table.restore(answer)).count();
            if restored > 0 {
                info!(answers = restored, "restored answers from disk");
            }
        }
        let addresses = LruCache::new(MAX_REALMS);
        let state = AttemptManagerState { table, addresses, outboxes: HashMap::new(), callers: HashMap::new() };
        let manager = Arc::new_cyclic(|manager: &Weak<Self>| {
            let logs = host.logs.clone();
            Self {
                lua: LuaPool::new(slots, &node, logs, manager.clone()),
                programs: Arc::new(ProgramExecutor::new(host, staging.clone(), manager.clone())),
                node,
                staging,
                slots,
                queue,
                tags,
                state: Mutex::new(state),
                definitions: Definitions::default(),
                runtime,
                writer: OnceLock::new(),
                progress: Notify::new(),
            }
        });
        if let Some(answers) = answers {
            let weak = Arc::downgrade(&manager);
            let writer = AnswerWriter::new(answers, move |report| {
                if let Some(manager) = weak.upgrade() {
                    manager.on_writer_report(report);
                }
            })?;
            // The cell is empty: this is the only call of `set`.
            let _ = manager.writer.set(writer);
        }
        Ok(manager)
    }

    fn perform(&self, state: &mut AttemptManagerState, actions: Actions) {
        let mut actions = VecDeque::from(actions);
        let mut records = Vec::new();
        while let Some(action) = actions.pop_front() {
            match action {
                TableAction::Start(job) => self.start(job),
                TableAction::Stop(job) => job.stop.cancel(),
                TableAction::Send(coordinator, report) => {
                    if let WorkerReport::Impairment(v1::Impairment { reason: Some(reason) }) = &report {
                        warn!(%coordinator, %reason, "the coordinator gets nothing more to run");
                    }
                    if let Some(outbox) = state.outboxes.get(&coordinator) {
                        outbox.push(OutgoingReport::Attempt(report));
                    }
                }
                TableAction::Persist(answer) => match self.writer.get() {
                    Some(_) => records.push(AnswerRecord::Answer(answer)),
                    None => actions.extend(state.table.on_persisted(&answer.attempt)),
                },
                TableAction::Forget(attempt) => records.push(AnswerRecord::Forgotten(attempt)),
                TableAction::Reply(reply) => {
                    if let Some(caller) = state.callers.remove(&reply.ticket) {
                        let _ = caller.send(call_result(reply));
                    }
                }
            }
        }
        if let Some(writer) = self.writer.get() {
            writer.write(records, state.table.load().queued as usize / QUEUED_PER_BATCHED_ANSWER);
        }
    }

    fn start(&self, job: Arc<Job>) {
        let started = *job.started.get_or_init(Instant::now);
        metrics().attempt_worker_wait.observe((started - job.arrived).as_secs_f64());
        if let Some(timeout) = job.timeout {
            let job = job.clone();
            self.runtime.spawn(async move { job.stop.request_after(timeout).await });
        }
        match job.code() {
            ActivityCode::Lua { .. } => self.lua.start(job),
            ActivityCode::Command { .. } | ActivityCode::Interpreter { .. } => self.programs.start(&self.runtime, job),
        }
    }

    /// Slots in use and attempts that wait.
    pub fn load(&self) -> Load {
        self.state.lock().table.load()
    }

    /// True if no attempt runs or waits, and all answers are durable.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.table.load() == Load::default() && !state.table.is_persisting()
    }

    /// Why this worker takes no attempts at the moment.
    pub fn impaired(&self) -> Option<v1::ImpairmentReason> {
        self.state.lock().table.impaired().cloned()
    }

    /// Reports the attempts of a coordinator that run, and the slots of others, if there is anything to report. Returns false if the
    /// stream is no longer current.
    pub fn report_running(&self, stream: &CoordinatorStream) -> bool {
        let mut state = self.state.lock();
        if !state.table.is_current(stream) {
            return false;
        }
        if let Some(running) = state.table.running(stream, |job| job.running_ms())
            && let Some(outbox) = state.outboxes.get(&stream.coordinator)
        {
            outbox.push_if_read(OutgoingReport::Attempt(WorkerReport::Running(running)));
        }
        true
    }

    /// A coordinator's stream begins. The outbox starts with the hello and with everything that the coordinator may have
    /// missed.
    pub fn connect(
        &self,
        coordinator: &Arc<str>,
        realm: &Arc<str>,
        address: String,
    ) -> (CoordinatorStream, OutboxReceiver) {
        let holds = self.staging.newest_objects(MAX_ANNOUNCED_OBJECTS);
        let keeps = self.staging.pinned_processes(realm);
        let mut state = self.state.lock();
        state.addresses.put(realm.clone(), address);
        let (stream, welcome, actions) = state.table.connect(coordinator, realm);
        let (outbox, receiver) = outbox();
        let host = &self.programs.program_host;
        outbox.push(OutgoingReport::Hello(v1::WorkerHello {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            slots: self.slots,
            queue: self.queue,
            tags: self.tags.iter().cloned().collect(),
            memory: host.memory,
            gpus: host.gpus.count,
            interpreters: host.interpreters.languages(),
            containers: host.engine.is_some(),
            running: welcome.running,
            answered: welcome.answered,
            holds,
            keeps,
            grace_ms: host.grace.as_millis() as u64,
        }));
        state.outboxes.insert(coordinator.clone(), outbox);
        self.perform(&mut state, actions);
        (stream, receiver)
    }

    /// A coordinator's stream ended.
    pub fn disconnect(&self, stream: &CoordinatorStream) {
        let mut state = self.state.lock();
        if state.table.is_current(stream) {
            state.table.disconnect(stream);
            state.outboxes.remove(&stream.coordinator);
        }
    }

    /// Handles an order, except for its definitions. Returns false if the stream is no longer current.
    pub fn on_order(&self, stream: &CoordinatorStream, order: v1::WorkOrder) -> bool {
        for release in &order.releases {
            self.staging.release(&stream.realm, release);
        }
        let order = TableOrder::new(stream, order, |attempt, job| self.prepare(attempt, job));
        let mut state = self.state.lock();
        let Some(actions) = state.table.on_order(stream, order) else { return false };
        self.perform(&mut state, actions);
        true
    }

    /// The job as this worker can run it, or the refusal.
    fn prepare(&self, attempt: RealmAttempt, job: v1::Job) -> Result<ReadyJob<Arc<Job>>, v1::Refusal> {
        let key = attempt.key.clone();
        self.try_prepare(attempt, job).map_err(|reason| {
            let text = v1::RefusalReason::from(reason.clone());
            debug!(process = %key.process, attempt = key.attempt, reason = %text, "refused an attempt");
            match reason {
                // The coordinator sends the program once more.
                refusal_reason::Kind::UnknownProgram(_) => v1::Refusal::for_now(reason),
                _ => v1::Refusal::permanent(reason),
            }
        })
    }

    fn try_prepare(&self, attempt: RealmAttempt, job: v1::Job) -> Result<ReadyJob<Arc<Job>>, refusal_reason::Kind> {
        let invalid = |problem: &str| refusal_reason::Kind::InvalidJob(problem.to_owned());
        if job.subtree.is_some() {
            return Err(invalid("an activity manager runs no subtrees"));
        }
        let program = match self.definitions.find(&job.program) {
            KnownDefinition::Loaded(program) => program,
            KnownDefinition::Invalid => return Err(invalid("its program is not valid on this worker")),
            KnownDefinition::Unknown => return Err(refusal_reason::Kind::UnknownProgram(v1::Nothing {})),
        };
        check_job(&job).map_err(|problem| refusal_reason::Kind::InvalidJob(problem.to_string()))?;
        let number = job.activity as usize;
        let activity =
            program.activities.get(number).ok_or_else(|| invalid("its program has no such activity type"))?;
        self.check_requirements(activity)?;
        let parameters = job.parameters.into_iter().map(value_from).collect::<Result<_, _>>();
        let parameters = parameters.map_err(|unfit| invalid(unfit.0))?;
        let requires = &activity.requires;
        let needs = Resources { cpus: requires.cpus, memory: requires.memory, gpus: requires.gpus };
        let job = Job {
            attempt,
            program,
            activity: number,
            parameters,
            holdings: job.holdings,
            relays: job.relays.into_iter().map(Arc::from).collect(),
            path: job.path.into(),
            stop: StopSignal::default(),
            arrived: Instant::now(),
            started: OnceLock::new(),
            timeout: job.timeout_ms.map(Duration::from_millis),
            log: OnceLock::new(),
        };
        Ok(ReadyJob { needs, job: Arc::new(job) })
    }

    fn check_requirements(&self, activity: &ActivityType) -> Result<(), refusal_reason::Kind> {
        if let Some(missing) = activity.requires.tags.iter().find(|tag| !self.tags.contains(&***tag)) {
            return Err(unmet(requirement::Kind::Tag(missing.to_string())));
        }
        self.programs.program_host.lacks(activity).map_or(Ok(()), |lack| Err(unmet(lack)))
    }

    /// The answer to an attempt. An answer that is too large would break the stream whenever it is sent, so a failure takes
    /// its place.
    fn answer(&self, attempt: &RealmAttempt, mut outcome: v1::answer::Outcome) -> v1::Answer {
        if let v1::answer::Outcome::Failed(failure) = &mut outcome {
            bound_failure(failure);
        }
        let answer = attempt.answer(outcome);
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

    fn on_writer_report(&self, report: WriterReport) {
        match report {
            WriterReport::Persisted(attempts) => self.change_attempts(&attempts, AttemptTable::on_persisted),
            WriterReport::Unwritable(error, attempts) => {
                self.set_impaired(Some(impairment_reason::Kind::AnswersUnwritable(error).into()));
                self.change_attempts(&attempts, AttemptTable::on_unwritable);
            }
            WriterReport::Writable => self.set_impaired(None),
        }
        self.progress.notify_waiters();
    }

    fn change_attempts(
        &self,
        attempts: &[RealmAttempt],
        change: impl Fn(&mut AttemptTable<Arc<Job>>, &RealmAttempt) -> Actions,
    ) {
        for some in attempts.chunks(MAX_PERSISTED_PER_LOCK) {
            let mut state = self.state.lock();
            let actions = some.iter().flat_map(|attempt| change(&mut state.table, attempt)).collect();
            self.perform(&mut state, actions);
        }
    }

    fn set_impaired(&self, reason: Option<v1::ImpairmentReason>) {
        let mut state = self.state.lock();
        let actions = state.table.set_impaired(reason);
        self.perform(&mut state, actions);
    }

    /// Refuses new attempts and hands back those that wait.
    pub fn drain(&self) {
        let mut state = self.state.lock();
        let actions = state.table.drain();
        self.perform(&mut state, actions);
    }

    /// Hands files that processes still need over to their coordinators.
    pub async fn hand_over_files(&self) {
        let addresses =
            self.state.lock().addresses.iter().map(|(realm, address)| (realm.clone(), address.clone())).collect();
        self.staging.hand_over(&addresses).await;
    }

    /// Stops all running attempts.
    pub fn stop_all(&self) {
        let mut state = self.state.lock();
        let actions = state.table.stop_all();
        self.perform(&mut state, actions);
    }
}

/// Counts the end of an attempt.
fn measure_end(job: &Job, outcome: &v1::answer::Outcome) {
    let end = match outcome {
        v1::answer::Outcome::Completed(_) => AttemptEnd::Completed,
        v1::answer::Outcome::Failed(_) => AttemptEnd::Failed,
        v1::answer::Outcome::Cancelled(_) => AttemptEnd::Cancelled,
        v1::answer::Outcome::Refused(_) => AttemptEnd::Refused,
    };
    metrics().attempts_ended.of(end).inc();
    if let Some(started) = job.started.get() {
        metrics().attempt_duration.observe(started.elapsed().as_secs_f64());
    }
}

/// The result that an activity gets for a call.
fn call_result(reply: v1::SharedReply) -> CallResult {
    match reply.result {
        Some(v1::shared_reply::Result::Value(value)) => value_from(value).map_err(|unfit| unfit.0.into()),
        Some(v1::shared_reply::Result::Error(message)) => Err(message),
        None => Ok(Value::Null),
    }
}

impl ActivityHost for AttemptManager {
    fn on_finished(&self, job: &Job, outcome: v1::answer::Outcome, usage: Option<v1::Usage>) {
        job.stop.on_ended();
        measure_end(job, &outcome);
        let answer = v1::Answer { usage: usage.map(Box::new), ..self.answer(&job.attempt, outcome) };
        let mut state = self.state.lock();
        let actions = state.table.on_finished(&job.attempt, answer);
        self.perform(&mut state, actions);
        drop(state);
        self.progress.notify_waiters();
    }

    fn call(&self, job: &Job, call: v1::SharedCall) -> CallResult {
        let (sender, receiver) = blocking::channel();
        let ticket = {
            let mut state = self.state.lock();
            let (ticket, actions) = state.table.on_call(&job.attempt, call);
            state.callers.insert(ticket, sender);
            self.perform(&mut state, actions);
            ticket
        };
        loop {
            match receiver.recv_timeout(CALL_STOP_CHECK) {
                Ok(result) => return result,
                Err(blocking::RecvTimeoutError::Timeout) if !job.stop.is_requested() => {}
                Err(_) => {
                    let mut state = self.state.lock();
                    state.table.abandon_call(ticket);
                    state.callers.remove(&ticket);
                    return Err("the activity was stopped".into());
                }
            }
        }
    }

    fn print(&self, job: &Job, line: &str) {
        let outbox = {
            let state = self.state.lock();
            state.table.listener(&job.attempt).and_then(|owner| state.outboxes.get(owner)).cloned()
        };
        let Some(outbox) = outbox else { return };
        let has_space = self.runtime.block_on(async {
            tokio::select! {
                () = outbox.backlog.wait_for_space_to_print() => true,
                () = job.stop.requested() => false,
            }
        });
        if has_space {
            let line = line[..line.floor_char_boundary(MAX_PRINTED_LINE_BYTES)].to_owned();
            outbox.push(OutgoingReport::Printed(v1::Printed { id: Some(job.attempt.key.to_wire()), line }));
        }
    }
}
