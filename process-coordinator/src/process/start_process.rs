//! The start of a process: its head is stored, then its task runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::info;
use xavantes_engine::{Engine, Start, StepOutput, Time};
use xavantes_proto::v1;
use xavantes_proto::v1::held_reason::Kind as HeldKind;
use xavantes_repository::Error;

use crate::clock::unix_ms;
use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::memo::former_activities::FormerActivities;
use crate::memo::memo_log::{MemoDocument, MemoLog};
use crate::memo::memo_store;
use crate::process::driver::Driver;
use crate::process::handle::{DecisionSender, ProcessHandle};
use crate::process::held_processes::panic_message;
use crate::process::journal::{Head, Origin, ProcessTags};
use crate::process::memory_budget::ProcessMemory;
use crate::process::outputs::Outputs;
use crate::process::runner::{Runner, live_status};
use crate::process::stepping::Stepping;
use crate::record_codec;
use crate::subtrees::parent_streams::Parent;
use crate::workers::handle::Orders;

const MIB: f64 = (1 << 20) as f64;

/// How a process is to be started.
#[derive(Default)]
pub(crate) struct StartOptions<'a> {
    /// Id of the request; empty if it has none.
    pub request: &'a str,
    /// All activities run: cached results are not reused.
    pub no_reuse: bool,
    /// Recipes of the files that a subtree is given.
    pub recipes: Vec<v1::Recipe>,
    /// Coordinators that fetch files for a subtree, the nearest first.
    pub relays: Vec<String>,
    /// Name and labels.
    pub tags: ProcessTags,
    /// What the former process completed, if the process is a rerun.
    pub former: Option<FormerActivities>,
}

/// Why a process was not started.
pub(crate) enum StartError {
    /// Another process has the id.
    IdTaken,
    /// The parameters do not fit the process type.
    InvalidParameters(String),
    /// The repository did not store the process.
    NotStored(Error),
}

impl Coordinator {
    /// Stores a process and runs it; gives its epoch. Invalid parameters leave nothing behind.
    pub(crate) async fn start(
        self: &Arc<Self>,
        id: Arc<str>,
        LoadedProgram { program, wire }: LoadedProgram,
        start: Start,
        options: StartOptions<'_>,
        parent: Option<(Origin, Parent)>,
    ) -> Result<u64, StartError> {
        let (root, parameters) = (start.root, start.parameters.clone());
        let process_type = program.processes[root.process].name.to_string();
        let mut output = StepOutput::default();
        let engine = Engine::start(program, start, Time(0), &mut output)
            .map_err(|problems| StartError::InvalidParameters(problems.join("\n")))?;
        let (bytes, limit) = (engine.state().bytes(), self.options.process_bytes);
        if bytes > limit {
            return Err(StartError::InvalidParameters(format!(
                "the parameters take {:.1} MiB; the coordinator allows {:.1} MiB for a process (--process-mib)",
                bytes as f64 / MIB,
                limit as f64 / MIB
            )));
        }
        self.programs.store(&wire).await.map_err(StartError::NotStored)?;
        let mut driver = Driver::new(id.clone(), engine, root, wire.clone(), output);
        driver.inherit(options.recipes);
        let (origin, parent) = parent.unzip();
        let head = Head {
            program: wire.digest.clone(),
            process_type,
            root: (root.process as u32, root.node.0),
            submitted_ms: unix_ms(),
            request: options.request.to_owned(),
            parent: origin,
            no_reuse: options.no_reuse,
            relays: options.relays,
            tags: options.tags,
            first: driver.first_record().into(),
        };
        let epoch = self.repository.create(&id, record_codec::encode(&head)).await.map_err(|error| match error {
            Error::Exists(_) => StartError::IdTaken,
            error => StartError::NotStored(error),
        })?;
        if parent.is_some() {
            driver.keep_memo(MemoLog::of_subtree());
        } else {
            let rerun_of = options.former.as_ref().map(|former| former.id().to_string());
            let memo = MemoDocument { rerun_of, ..MemoDocument::default() };
            if memo.rerun_of.is_some() {
                memo_store::create(&self.repository, &id, &memo).await.map_err(StartError::NotStored)?;
            }
            driver.keep_memo(MemoLog::new(memo));
            options.former.into_iter().for_each(|former| driver.take_over(former));
        }
        // Before the process runs, because it may end at once.
        self.pinning.pin_parameters(&id, &parameters);
        info!(process = %id, "process started");
        self.pool.process_began(id.clone(), epoch);
        self.run(&id, driver, &head, Time(0), parent, false);
        Ok(epoch)
    }

    /// Spawns the task of a process.
    pub(super) fn run(
        self: &Arc<Self>,
        id: &Arc<str>,
        mut driver: Driver<Orders, DecisionSender>,
        head: &Head,
        min_time: Time,
        parent: Option<Parent>,
        is_recovered: bool,
    ) {
        let status = live_status(&driver, None, &self.status_from_head(id, head, &self.options.node));
        let (status, watcher) = watch::channel(status);
        let (path, outputs) = (driver.engine().id().clone(), Outputs::default());
        driver.publish_products();
        if head.no_reuse {
            driver.disable_reuse();
        }
        driver.set_relays([&self.options.address].into_iter().chain(&head.relays).cloned().collect());
        driver.set_max_bytes(self.options.process_bytes);
        let logs_printed = self.options.printed.is_none();
        let (handle, mailbox) = ProcessHandle::new(path, watcher, outputs.clone(), logs_printed);
        self.processes.add(id.clone(), handle);
        // The engine's clock goes on while no coordinator runs the process.
        let passed = Duration::from_millis(unix_ms().saturating_sub(head.submitted_ms));
        let now = Instant::now();
        let runner = Runner {
            id: id.clone(),
            driver,
            began: now.checked_sub(passed).unwrap_or(now),
            min_time,
            repository: self.repository.clone(),
            cache: self.cache.clone(),
            pinning: self.pinning.clone(),
            outputs,
            processes: self.processes.clone(),
            pool: self.pool.clone(),
            share: self.share.clone(),
            max_activities: if parent.is_some() { self.options.foreign_slots.into() } else { u64::MAX },
            parent,
            mailbox,
            stepping: Stepping::new(),
            memory: ProcessMemory::new(self.memory.clone(), is_recovered),
            status,
            printed: self.options.printed.clone(),
            on_probation: self.marks.is_pending(id),
            marks: self.marks.clone(),
            unrecorded: None,
            status_changed: false,
        };
        let (task, coordinator, id) = (tokio::spawn(runner.run()), Arc::downgrade(self), id.clone());
        tokio::spawn(async move {
            // An error in this program ends the task of one process, and no more.
            if let Err(error) = task.await
                && error.is_panic()
                && let Some(coordinator) = coordinator.upgrade()
            {
                coordinator.hold(id, HeldKind::InternalError(panic_message(error))).await;
            }
        });
    }
}
