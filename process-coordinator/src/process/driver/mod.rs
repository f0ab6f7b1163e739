//! The driver of one process: inputs go in, journal records and effects come out, and no effect comes out before the record
//! that it follows from. Without I/O, clock or threads.
//!
//! | file | is about |
//! |---|---|
//! | `answers` | answers of attempts, and what they report |
//! | `reuse` | lookups in the result cache and in the memo of a former process; the memo of this one |
//! | `missing_files` | attempts that lack files, lost attempts |
//! | `steering` | users and parents that steer; calls of shared objects |
//! | `status` | what the process is doing, and the counts of its activities |
//! | `tasks` | tasks for workers and other coordinators |
//! | `recording` | records, snapshots, batches |
//! | `recover_driver` | processes that are recovered from their journal |

mod answers;
mod missing_files;
mod recording;
mod recover_driver;
mod reuse;
mod status;
mod steering;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_engine::{Answer, Command, ElementId, Engine, Input, Rejection, Root, StepOutput, Time};
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;
use xavantes_proto::v1;

use crate::cache::cache_entry::CacheWrite;
use crate::cache::decide::Lookups;
use crate::data::repair::Repairs;
use crate::engine_messages::element_from;
use crate::memo::former_activities::FormerActivities;
use crate::memo::memo_log::MemoLog;
use crate::process::driver_input::ProcessInput;
use crate::process::effect::ProcessEffect;
use crate::process::process_history::ProcessHistory;
use crate::process::process_notes::{Note, ProcessNotes};
use crate::process::usage::UsageTotals;
use crate::workers::worker_messages::{PoolLoad, Share};
use xavantes_proto::AttemptKey;

/// Smallest journal that is compacted: below it a snapshot costs more than it saves.
const COMPACTION_THRESHOLD_BYTES: usize = 1 << 20;
/// Upper bound on the activities that may be outstanding beyond the process's capacity because their cache lookup is under
/// way: no worker has them. An activity whose lookup finds nothing waits for its turn.
const MAX_EXTRA_LOOKUPS: u64 = 200;

/// The driver of one process. For `C` and `A` see [`ProcessInput`].
#[derive(Debug)]
pub struct Driver<C, A> {
    /// Process id in the names of attempts. Unlike the id of the engine, no other process ever has it.
    id: Arc<str>,
    engine: Engine,
    root: Root,
    program: Arc<v1::Program>,
    /// Events, commands and products of the engine that are not recorded or converted yet.
    output: StepOutput,
    notes: ProcessNotes,
    /// Notes that are applied, and not recorded yet.
    unrecorded_notes: Vec<Note>,
    /// Resource usage that is not noted yet, by activity type.
    unrecorded_usage: BTreeMap<u32, UsageTotals>,
    effects: Vec<ProcessEffect<C, A>>,
    cache_writes: Vec<CacheWrite>,
    lookups: Lookups,
    /// The activities of the former process, if this one is a rerun.
    former: Option<Box<FormerActivities>>,
    /// The memo of this process.
    memo: Option<Box<MemoLog>>,
    repairs: Repairs,
    /// Upper bound on outstanding activities, without those whose cache lookup is under way.
    capacity: u64,
    /// Addition to the capacity for cache lookups.
    lookup_capacity: u64,
    now: Time,
    has_more_to_do: bool,
    /// The engine's answer to the shared call that is being handled.
    reply: Option<Result<Value, String>>,
    /// Bytes of the journal since the last snapshot.
    journal_bytes: usize,
    /// Bytes of the last snapshot.
    snapshot_bytes: usize,
    /// Smallest journal that is compacted.
    compaction_threshold: usize,
    /// Upper bound on the bytes of the engine's state.
    max_bytes: u64,
    /// Nodes that fetch files for workers that cannot reach the holders, the nearest first.
    relays: Vec<String>,
    /// Where the activities are that the pool has, as it told last.
    load: PoolLoad,
    /// What delegated attempts are doing, by element and attempt, as their coordinators reported last.
    subtrees: BTreeMap<(u64, u32), v1::SubtreeStatus>,
    /// Workers at which elements failed that are retried. A hint for placement, so the journal does not have it.
    failed_at: BTreeMap<u64, Arc<str>>,
}

impl<C, A> Driver<C, A> {
    /// The driver of a new process. The output of its start goes into the head of its journal ([`Self::first_record`]).
    pub fn new(id: Arc<str>, engine: Engine, root: Root, program: Arc<v1::Program>, output: StepOutput) -> Self {
        Self {
            id,
            engine,
            root,
            program,
            output,
            notes: ProcessNotes::default(),
            unrecorded_notes: Vec::new(),
            unrecorded_usage: BTreeMap::new(),
            effects: Vec::new(),
            cache_writes: Vec::new(),
            lookups: Lookups::default(),
            former: None,
            memo: None,
            repairs: Repairs::default(),
            capacity: 0,
            lookup_capacity: 0,
            now: Time(0),
            has_more_to_do: true,
            reply: None,
            journal_bytes: 0,
            snapshot_bytes: 0,
            compaction_threshold: COMPACTION_THRESHOLD_BYTES,
            max_bytes: u64::MAX,
            relays: Vec::new(),
            load: PoolLoad::default(),
            subtrees: BTreeMap::new(),
            failed_at: BTreeMap::new(),
        }
    }

    /// The engine, to read.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What the process runs.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The engine's clock at the last input.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Does the process have more to do without another input?
    pub fn has_more_to_do(&self) -> bool {
        self.has_more_to_do
    }

    /// Does a call concern a shared object of this process? The object may belong to a process that this one is part of.
    pub fn is_home_of(&self, call: &v1::SharedCall) -> bool {
        call.object.as_ref().is_none_or(|object| *object.home == **self.engine.id())
    }

    /// Did any activity of this process make files?
    pub fn made_files(&self) -> bool {
        self.notes.lineage.made_files()
    }

    /// From now on the results of completed elements are published.
    pub fn publish_products(&mut self) {
        self.engine.set_followed(true);
    }

    /// All activities run: cached results are not reused.
    pub fn disable_reuse(&mut self) {
        self.lookups.disabled = true;
    }

    /// From now on a memo is kept. It continues `memo`.
    pub fn keep_memo(&mut self, memo: MemoLog) {
        self.memo = Some(Box::new(memo));
    }

    /// The process is a rerun: it takes over what the former process completed.
    pub fn take_over(&mut self, former: FormerActivities) {
        self.lookups.is_rerun = true;
        self.former = Some(Box::new(former));
    }

    /// When the next input is due: a deadline of the engine, or of the memo.
    pub fn next_deadline(&self) -> Option<Time> {
        let memo = self.memo.as_ref().and_then(|memo| memo.deadline());
        self.engine.next_deadline().into_iter().chain(memo).min()
    }

    /// Sets the nodes that fetch files for workers that cannot reach the holders, the nearest first.
    pub fn set_relays(&mut self, relays: Vec<String>) {
        self.relays = relays;
    }

    /// Sets the size from which on a journal is compacted.
    pub fn set_compaction_threshold(&mut self, bytes: usize) {
        self.compaction_threshold = bytes;
    }

    /// Sets the budget of the process: how many bytes the state of its engine may take.
    pub fn set_max_bytes(&mut self, bytes: u64) {
        self.max_bytes = bytes;
        self.engine.set_max_bytes(bytes);
    }

    /// Sets what may be outstanding at once: the process's share of the pool, but at most this many activities.
    pub fn set_share(&mut self, share: Share, max_activities: u64) {
        self.capacity = share.room.min(max_activities);
        self.engine.set_capacity(self.capacity.saturating_add(self.lookup_capacity));
        // Other coordinators do not know what a rerun can take over.
        let takes_over = self.former.as_ref().is_some_and(|former| former.untaken() > 0);
        self.engine.set_max_delegations(if takes_over { 0 } else { share.delegations });
        self.engine.set_max_auto_delegations(share.auto_delegations);
    }

    /// Fits the capacity to the number of cache lookups that are under way.
    fn fit_lookup_capacity(&mut self) {
        let lookups = self.lookups.pending().min(MAX_EXTRA_LOOKUPS);
        if lookups != self.lookup_capacity {
            self.has_more_to_do |= lookups > self.lookup_capacity;
            self.lookup_capacity = lookups;
            self.engine.set_capacity(self.capacity.saturating_add(lookups));
        }
    }

    /// The history of the process and its subtrees, if the engine's clock began at this time.
    pub fn history(&self, began_ms: u64) -> ProcessHistory {
        let mut history = ProcessHistory::of(self.engine.state().history(), began_ms);
        history.add(&self.notes.subtrees.history);
        let usage = self.notes.usage.iter().chain(&self.unrecorded_usage);
        usage.for_each(|(activity, usage)| history.add_usage(*activity, usage));
        history
    }

    /// Handles an input.
    pub fn handle(&mut self, sandbox: &mut Sandbox, input: ProcessInput<C, A>, now: Time) {
        self.now = self.now.max(now);
        match input {
            ProcessInput::Answered { key, outcome, extras, from } => {
                self.on_answered(sandbox, &key, outcome, extras);
                self.effects.extend(from.map(|from| ProcessEffect::Acknowledge(from, key)));
            }
            // A repeated answer of a peer that had the attempt is acknowledged, so that the peer forgets it. Nobody else's answer
            // to an outstanding attempt counts.
            ProcessInput::Doubted { key, from } => {
                if !self.is_outstanding(&key) {
                    self.effects.extend(from.map(|from| ProcessEffect::Acknowledge(from, key)));
                }
            }
            ProcessInput::CacheSearched(key, found) => self.on_cache_searched(sandbox, &key, found),
            ProcessInput::Lost(key) => self.on_lost(sandbox, &key),
            ProcessInput::Placed(key, place) => {
                self.note(Note::Placed(key.element, key.attempt, place));
                self.effects.push(ProcessEffect::HandOver(key));
            }
            ProcessInput::SubtreeReported(key, status) => self.on_subtree_reported(&key, *status),
            ProcessInput::Called(call, from) => self.on_called(sandbox, call, from),
            ProcessInput::Steered { path, steering, by, asker } => self.on_steered(sandbox, path, steering, by, asker),
            ProcessInput::StillWanted { key, asker } => {
                let decision = self.is_outstanding(&key).then(Default::default).ok_or(Rejection::Ended);
                self.effects.push(ProcessEffect::Decide(asker, decision));
            }
            ProcessInput::ParentCancelled => self.on_parent_cancelled(sandbox),
            ProcessInput::ParentPaused(paused) => self.on_parent_paused(sandbox, paused),
            ProcessInput::TimePassed => drop(self.step(sandbox, Input::TimePassed)),
            ProcessInput::Continued => drop(self.step(sandbox, Input::Continued)),
        }
    }

    /// Steps the engine, and turns its commands into effects.
    fn step(&mut self, sandbox: &mut Sandbox, input: Input) -> Result<(), Rejection> {
        self.has_more_to_do = false;
        let mut cancelled = Vec::new();
        let decision = self.engine.step(sandbox, input, self.now, &mut self.output);
        for command in std::mem::take(&mut self.output.commands) {
            let effect = match command {
                Command::Dispatch { element, attempt, activity, parameters, timeout } => {
                    let task = self.task(element, attempt, activity, &parameters, timeout);
                    self.search_or_dispatch(task, activity, &parameters)
                }
                Command::Delegate(delegation) => ProcessEffect::Delegate(self.subtree(&delegation)),
                Command::Cancel { element, attempt } => {
                    let key = self.key(element, attempt);
                    if self.repairs.is_waiting(&key) || self.lookups.end(&key).is_some() {
                        cancelled.push(key);
                        continue;
                    }
                    ProcessEffect::Cancel(key)
                }
                Command::Pause { element, attempt, paused } => ProcessEffect::Pause(self.key(element, attempt), paused),
                Command::Continue => {
                    self.has_more_to_do = true;
                    continue;
                }
                // The step of a call has exactly one reply.
                Command::Reply { result, .. } => {
                    self.reply = Some(result);
                    continue;
                }
                // The state of the engine shows it.
                Command::Finish { .. } => continue,
            };
            self.effects.push(effect);
        }
        let products = self.output.products.drain(..);
        self.effects.extend(products.map(|product| ProcessEffect::Publish { product, reused: false }));
        // No worker has these attempts, so the driver answers for them.
        for key in cancelled {
            self.repairs.stop_waiting(&key);
            let has_more_to_do = self.has_more_to_do;
            let _ = self.step_answered(sandbox, &key, Answer::Cancelled);
            self.has_more_to_do |= has_more_to_do;
        }
        self.fit_lookup_capacity();
        decision
    }

    fn step_answered(&mut self, sandbox: &mut Sandbox, key: &AttemptKey, answer: Answer) -> Result<(), Rejection> {
        let input = Input::Answered { element: element_from(key.element), attempt: key.attempt, answer };
        self.step(sandbox, input)
    }

    /// Is this attempt the outstanding one of its element?
    fn is_outstanding(&self, key: &AttemptKey) -> bool {
        self.engine.view(element_from(key.element)).is_some_and(|view| view.outstanding && view.attempts == key.attempt)
    }

    fn key(&self, element: ElementId, attempt: u32) -> AttemptKey {
        AttemptKey::new(self.id.clone(), element.bits(), attempt)
    }

    /// Applies a note, and has it recorded.
    fn note(&mut self, note: Note) {
        self.notes.apply(&note);
        self.unrecorded_notes.push(note);
    }
}
