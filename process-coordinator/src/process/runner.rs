//! The task of one process: feeds mail and time to the driver, writes the journal, and carries out effects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{info, warn};
use xavantes_engine::{Outcome, Time};
use xavantes_proto::v1;
use xavantes_repository::{Error, Store};

use crate::cache::cache_entry::CacheLookup;
use crate::cache::cache_store::ResultCache;
use crate::data::pinning::Pinning;
use crate::engine_messages::element_from;
use crate::memo::memo_store;
use crate::options::Printed;
use crate::process::driver::Driver;
use crate::process::driver_input::ProcessInput;
use crate::process::effect::{EffectBatch, EffectStep, JournalWrite, ProcessEffect, perform_effects};
use crate::process::handle::{DecisionSender, LiveInput, Mailbox, ProcessMail};
use crate::process::memory_budget::{MEMORY_POLL_INTERVAL, ProcessMemory, TURN_PATIENCE};
use crate::process::outputs::Outputs;
use crate::process::process_registry::ProcessRegistry;
use crate::process::recovery_marks::RecoveryMarks;
use crate::process::stepping::{MAX_TURN, Stepping};
use crate::repository_calls::{RepositoryCall, join_in_order};
use crate::subtrees::parent_streams::Parent;
use crate::workers::handle::{Orders, PoolHandle};
use crate::workers::worker_messages::{Order, Share};
use xavantes_proto::AttemptKey;
use xavantes_telemetry::{CacheOutcome, metrics};

/// While many activities are outstanding, events wait for a common record as long as the last write took, within these
/// limits: no user waits for a single one of them.
const MIN_GATHERING: Duration = Duration::from_millis(4);
const MAX_GATHERING: Duration = Duration::from_millis(8);
/// A record with this backlog is written at once.
const GATHERED_ENOUGH: usize = 8192;
/// With fewer outstanding activities than this, every record is written at once.
const MIN_OUTSTANDING_TO_GATHER: u64 = 64;
/// Upper bound on the backlog that waits to be recorded; mail waits beyond it.
const MAX_BACKLOG: usize = 64 << 10;
/// Upper bound on the bytes of events that wait to be recorded; mail waits beyond it.
const MAX_BACKLOG_BYTES: u64 = 16 << 20;
/// A record with this many bytes of values is written at once.
const GATHERED_ENOUGH_BYTES: u64 = 2 << 20;
/// Number of messages that are read from the mailbox at once.
const MAIL_AT_ONCE: usize = 256;
/// Sleep of a process without deadline.
const NO_DEADLINE: Duration = Duration::from_secs(3600);
/// Writes to an unavailable repository are retried at this interval.
pub(super) const REPOSITORY_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How a process stopped running here.
enum Stopped {
    Ended,
    /// The coordinator shuts down.
    ShutDown,
    /// Another coordinator runs the process. With the answers that were not acknowledged.
    TakenOver(Vec<(Orders, AttemptKey)>),
}

/// A batch whose writes are under way.
struct PendingWrite {
    call: RepositoryCall,
    batch: EffectBatch<Orders, DecisionSender>,
}

/// The status of a process with what its driver knows. `stalled` says why it stands still.
pub(super) fn live_status<C, A>(
    driver: &Driver<C, A>,
    stalled: Option<v1::StallReason>,
    before: &v1::ProcessStatus,
) -> v1::ProcessStatus {
    let counts = driver.counts();
    let (state, wait_reason) = match &stalled {
        Some(_) => (v1::State::Waiting, None),
        None => driver.state(&counts),
    };
    let paused = driver.engine().is_root_paused();
    v1::ProcessStatus { state: state.into(), wait_reason, counts: Some(counts), paused, stalled, ..before.clone() }
}

/// The task of one process.
pub(crate) struct Runner {
    pub id: Arc<str>,
    pub driver: Driver<Orders, DecisionSender>,
    /// When the engine's clock was at 0.
    pub began: Instant,
    /// Lower bound on the engine's clock: a recovered process does not go back in time if the wall clock did.
    pub min_time: Time,
    pub repository: Store,
    pub cache: Arc<ResultCache>,
    pub pinning: Arc<Pinning>,
    pub outputs: Outputs,
    pub processes: ProcessRegistry,
    pub pool: PoolHandle,
    pub share: watch::Receiver<Share>,
    /// The parent, if the process is a subtree of another one.
    pub parent: Option<Parent>,
    /// Upper bound on outstanding activities, whatever the share of the process.
    pub max_activities: u64,
    pub mailbox: Mailbox,
    pub stepping: Stepping,
    pub memory: ProcessMemory,
    pub status: watch::Sender<v1::ProcessStatus>,
    pub printed: Option<Printed>,
    pub marks: Arc<RecoveryMarks>,
    /// The process was recovered, and has made no progress since.
    pub on_probation: bool,
    /// Why the repository did not take the last record, while it does not.
    pub unrecorded: Option<v1::StallReason>,
    /// Something changed that watchers see and that leads to no record.
    pub status_changed: bool,
}

impl Runner {
    fn now(&self) -> Time {
        let now = Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        now.max(self.min_time)
    }

    fn handle(&mut self, input: LiveInput) {
        self.status_changed |= matches!(input, ProcessInput::SubtreeReported(..));
        let now = self.now();
        let stepped = self.stepping.step(|sandbox| self.driver.handle(sandbox, input, now));
        if let Err(error) = stepped {
            // Without memory for a sandbox nothing can run at all.
            warn!(process = %self.id, %error, "no sandbox");
        }
        self.memory.set(self.driver.bytes());
    }

    /// Why the process waits for memory; nothing if it may go on. A process that is being cancelled makes room.
    fn must_wait(&mut self) -> Option<v1::StallReason> {
        let full = self.memory.must_wait(self.began.elapsed()).filter(|_| !self.driver.engine().is_cancelled())?;
        Some(v1::stall_reason::Kind::CoordinatorFull(full).into())
    }

    /// Can the process take more work before it records what it has?
    fn has_space(&self) -> bool {
        self.driver.backlog() < MAX_BACKLOG && self.driver.backlog_bytes() < MAX_BACKLOG_BYTES
    }

    fn update_share(&mut self) {
        let share = *self.share.borrow_and_update();
        self.driver.set_share(share, self.max_activities);
    }

    /// Runs the process to its end.
    pub async fn run(mut self) {
        match self.work().await {
            Stopped::Ended => {
                info!(process = %self.id, outcome = self.outcome(), "process ended");
                self.pool.process_ended(self.id.clone());
                self.end().await;
            }
            Stopped::TakenOver(answers) => self.leave(answers).await,
            Stopped::ShutDown => {}
        }
    }

    async fn work(&mut self) -> Stopped {
        self.update_share();
        let mut mails: Vec<ProcessMail> = Vec::new();
        // Mail that was received and waits for its turn.
        let mut queue: VecDeque<ProcessMail> = VecDeque::new();
        let mut pending: Option<PendingWrite> = None;
        // When the pending write began, or when the last one ended.
        let mut since = Instant::now();
        let mut last_write = Duration::ZERO;
        let mut waits = None;
        let mut last_work = Instant::now();
        loop {
            let must_wait = self.must_wait();
            if self.mailbox.load.has_changed().unwrap_or(false) {
                let load = self.mailbox.load.borrow_and_update().clone();
                self.driver.set_load(load);
                self.status_changed = true;
            }
            if must_wait.is_some() || waits.is_some() || std::mem::take(&mut self.status_changed) {
                self.update_status(must_wait.clone());
            }
            waits = must_wait;
            let goes_on = waits.is_none();
            let gathering =
                if self.writes_at_once() { Duration::ZERO } else { last_write.saturating_sub(since.elapsed()) };
            if pending.is_none() && gathering.is_zero() {
                since = Instant::now();
                let bytes = self.driver.next_batch_bytes();
                if let Some(batch) = self.stepping.work(bytes, || self.driver.next_batch()) {
                    self.memory.set(self.driver.bytes() + bytes);
                    if batch.journal.is_none() && batch.cache.is_empty() && batch.memo.is_empty() {
                        self.carry_out(batch.effects);
                        continue;
                    }
                    pending = Some(PendingWrite { call: self.write(&batch), batch });
                } else if self.driver.engine().state().ended().is_some() {
                    return Stopped::Ended;
                }
            }
            let deadline = self
                .driver
                .next_deadline()
                .map_or(NO_DEADLINE, |deadline| Duration::from_millis(deadline.0.saturating_sub(self.now().0)));
            let takes_mail = goes_on && self.has_space();
            let continues = takes_mail && self.driver.has_more_to_do();
            if pending.is_some() || continues || !queue.is_empty() {
                last_work = Instant::now();
            }
            let turn_left = TURN_PATIENCE.saturating_sub(last_work.elapsed());
            tokio::select! {
                biased;
                written = async { match &mut pending { Some(pending) => (&mut pending.call).await, None => Ok(()) } },
                    if pending.is_some() =>
                {
                    match (written, pending.take()) {
                        (Ok(()), Some(done)) => {
                            last_write = since.elapsed().clamp(MIN_GATHERING, MAX_GATHERING);
                            since = Instant::now();
                            self.unrecorded = None;
                            self.carry_out(done.batch.effects);
                            self.memory.set(self.driver.bytes());
                            self.update_status(waits.clone());
                        }
                        (Err(Error::NotOwned(_) | Error::Unknown(_)), done) => return self.taken_over(done, queue),
                        (Err(error), Some(PendingWrite { batch, .. })) => {
                            self.on_repository_unavailable(&error);
                            if self.mailbox.mail.is_closed() {
                                return Stopped::ShutDown;
                            }
                            let write = self.write(&batch);
                            let call = Box::pin(async move {
                                tokio::time::sleep(REPOSITORY_RETRY_INTERVAL).await;
                                write.await
                            });
                            pending = Some(PendingWrite { call, batch });
                        }
                        (_, None) => {}
                    }
                }
                // Whatever else the process does or waits for, users get an answer.
                Some(request) = self.mailbox.requests.recv() => {
                    if matches!(request, ProcessMail::TakenOver) {
                        return self.taken_over(pending, queue);
                    }
                    self.on_mail(request);
                    // Many requests do not keep the process from its work.
                    if takes_mail {
                        queue.extend(std::iter::from_fn(|| self.mailbox.mail.try_recv().ok()).take(MAIL_AT_ONCE));
                        self.on_queue(&mut queue);
                    }
                    if continues {
                        self.handle(ProcessInput::Continued);
                    }
                }
                () = std::future::ready(()), if takes_mail && !queue.is_empty() => self.on_queue(&mut queue),
                count = self.mailbox.mail.recv_many(&mut mails, MAIL_AT_ONCE), if takes_mail => {
                    if count == 0 {
                        return Stopped::ShutDown;
                    }
                    queue.extend(mails.drain(..));
                    last_work = Instant::now();
                    self.on_queue(&mut queue);
                }
                // The loop takes it at its beginning, also when there is always mail.
                Ok(()) = self.mailbox.load.changed() => self.mailbox.load.mark_changed(),
                changed = self.share.changed() => {
                    if changed.is_err() {
                        return Stopped::ShutDown;
                    }
                    self.update_share();
                    if goes_on {
                        self.handle(ProcessInput::Continued);
                    }
                }
                // Other tasks get their turn first.
                () = tokio::task::yield_now(), if continues => self.handle(ProcessInput::Continued),
                () = tokio::time::sleep(deadline), if goes_on => self.handle(ProcessInput::TimePassed),
                () = tokio::time::sleep(MEMORY_POLL_INTERVAL), if !goes_on => {}
                () = tokio::time::sleep(turn_left), if self.memory.has_turn() => self.memory.pass_turn(self.began.elapsed()),
                () = tokio::time::sleep(gathering), if pending.is_none() && !gathering.is_zero() => {}
            }
        }
    }

    fn taken_over(&mut self, pending: Option<PendingWrite>, queue: VecDeque<ProcessMail>) -> Stopped {
        let mut answers = self.driver.unacknowledged(pending.map(|pending| pending.batch));
        answers.extend(queue.into_iter().flat_map(ProcessMail::into_unacknowledged));
        Stopped::TakenOver(answers)
    }

    /// Is it better to write now than to gather more events for the same record?
    fn writes_at_once(&self) -> bool {
        let backlog = self.driver.backlog();
        backlog == 0
            || backlog >= GATHERED_ENOUGH
            || self.driver.backlog_bytes() >= GATHERED_ENOUGH_BYTES
            || self.driver.engine().state().counts().outstanding < MIN_OUTSTANDING_TO_GATHER
    }

    fn write(&self, batch: &EffectBatch<Orders, DecisionSender>) -> RepositoryCall {
        let record = batch.journal.clone().map(|write| -> RepositoryCall {
            let (repository, id) = (self.repository.clone(), self.id.clone());
            Box::pin(async move {
                match write {
                    JournalWrite::Append(record) => repository.append(&id, record).await,
                    JournalWrite::Compact(snapshot) => repository.compact(&id, snapshot).await,
                }
            })
        });
        if batch.cache.is_empty() && batch.memo.is_empty() {
            return record.unwrap_or_else(|| Box::pin(async { Ok(()) }));
        }
        let (cache, has_record, mut calls) = (self.cache.clone(), record.is_some(), self.cache.calls(&batch.cache));
        calls.extend(memo_store::calls(&self.repository, &self.id, &batch.memo));
        calls.extend(record);
        Box::pin(async move {
            let mut results = join_in_order(calls).await;
            let recorded = if has_record { results.pop().unwrap_or(Ok(())) } else { Ok(()) };
            for error in results.into_iter().filter_map(Result::err) {
                // A later lookup finds nothing, and its activity runs.
                warn!(%error, "could not store a result for reuse");
            }
            cache.evict_in_background();
            recorded
        })
    }

    /// Searches the cache in the background; the outcome comes back as an input.
    fn search_cache(&self, key: AttemptKey, mut lookup: Box<CacheLookup>) {
        let (cache, processes) = (self.cache.clone(), self.processes.clone());
        tokio::spawn(async move {
            let found = match lookup.former.take() {
                None => cache.search(&key.process, &lookup).await,
                Some(former) => match cache.pin_hit(&key.process, former.hit).await {
                    Err(_) if lookup.in_cache => cache.search(&key.process, &lookup).await,
                    found => found,
                },
            };
            let outcome = if found.is_ok() { CacheOutcome::Reused } else { CacheOutcome::Missed };
            metrics().cache_lookups.of(outcome).inc();
            if let Some(process) = processes.find(&key.process) {
                process.notify(ProcessInput::CacheSearched(key, found)).await;
            }
        });
    }

    /// Carries out effects whose reason is recorded.
    fn carry_out(&mut self, effects: Vec<ProcessEffect<Orders, DecisionSender>>) {
        let mut acknowledged = false;
        perform_effects(effects, |step| match step {
            EffectStep::Pool(input) => self.pool.handle(*input),
            // A peer whose connection broke asks again.
            EffectStep::Send(orders, order) => {
                acknowledged |= matches!(order, Order::Acknowledge(_));
                let _ = orders.send(order);
            }
            EffectStep::Decide(asker, decision) => drop(asker.send(decision)),
            EffectStep::SearchCache(key, lookup) => self.search_cache(key, lookup),
            EffectStep::Publish { product, reused } => self.outputs.add(product, reused),
        });
        if acknowledged && std::mem::take(&mut self.on_probation) {
            self.marks.on_progress(&self.id);
        }
    }

    /// Handles mail for the time of one turn, then leaves the rest.
    fn on_queue(&mut self, queue: &mut VecDeque<ProcessMail>) {
        let began = Instant::now();
        while let Some(mail) = queue.pop_front() {
            let ProcessMail::Inputs(inputs) = mail else {
                self.on_mail(mail);
                continue;
            };
            let mut inputs = inputs.into_iter();
            while let Some(input) = inputs.next() {
                self.handle(input);
                if began.elapsed() >= MAX_TURN || !self.has_space() {
                    if inputs.len() > 0 {
                        queue.push_front(ProcessMail::Inputs(inputs.collect()));
                    }
                    return;
                }
            }
        }
    }

    fn on_mail(&mut self, mail: ProcessMail) {
        match mail {
            ProcessMail::Inputs(inputs) => inputs.into_iter().for_each(|input| self.handle(input)),
            ProcessMail::Called(call, orders) => {
                match self.parent.as_ref().filter(|_| !self.driver.is_home_of(&call)) {
                    Some(parent) => parent.forward(call, &orders),
                    None => self.handle(ProcessInput::Called(call, orders)),
                }
            }
            ProcessMail::Printed { element, line, left_out } => {
                let path = self.driver.engine().path(element_from(element));
                if left_out > 0 {
                    info!(process = %self.id, lines = left_out, "printed lines left out; the logs of activities have them");
                }
                match &self.printed {
                    Some(printed) => drop(printed.send((path, line))),
                    None => info!(element = path, line, "printed"),
                }
            }
            ProcessMail::Show { path, depth, forwards, answer } => self.on_show(&path, depth, forwards, answer),
            // The loop returns before.
            ProcessMail::TakenOver => {}
        }
    }

    pub(super) fn on_repository_unavailable(&mut self, error: &Error) {
        warn!(process = %self.id, %error, "repository unavailable; the process waits");
        self.unrecorded = Some(v1::stall_reason::Kind::RepositoryUnavailable(error.to_string()).into());
        self.update_status(None);
    }

    fn outcome(&self) -> &'static str {
        match self.driver.engine().state().ended() {
            Some((Outcome::Completed, _)) => "completed",
            Some((Outcome::Cancelled, _)) => "cancelled",
            _ => "failed",
        }
    }

    /// Updates the status for watchers. They see the end only when it is stored. `waits` says why the process waits for memory.
    pub(super) fn update_status(&self, waits: Option<v1::StallReason>) {
        let stalled = self.unrecorded.clone().or(waits);
        if self.driver.engine().state().ended().is_some() && stalled.is_none() {
            return;
        }
        self.status.send_if_modified(|status| {
            let now = live_status(&self.driver, stalled, status);
            let changed = now != *status;
            *status = now;
            changed
        });
    }
}
