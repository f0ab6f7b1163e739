//! Processes that change hands: this coordinator recovers its own after a restart, takes over those of coordinators that
//! died, and leaves those that another coordinator took over.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use xavantes_engine::{HANDLER_RESERVE, Time};
use xavantes_proto::v1;
use xavantes_proto::v1::held_reason::Kind as HeldKind;
use xavantes_repository::{Claimed, Entries, Entry, Error, Journal};

use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::memo::memo_log::MemoLog;
use crate::process::driver::Driver;
use crate::process::held_processes::panic_message;
use crate::process::journal::{self, Head};
use crate::process::recovery_marks::{PROBATION, RecoveryMark, RecoveryPlan};
use crate::record_codec;
use crate::subtrees::parent_streams::Parent;
use crate::workers::lease_documents::borrowed_workers;
use crate::workers::worker_messages::Order;

/// A process whose repository does not answer is loaded again at this interval.
const LOAD_RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// A process within its budget takes at most this many times the budget in the repository: a snapshot, and a journal of about
/// the same size that the next snapshot will replace.
const MAX_STORED_PER_BUDGET: u64 = 3;

/// Why a process cannot be recovered.
enum RecoveryError {
    /// It is held for this reason.
    Hold(HeldKind),
    /// Another coordinator has it, or it has ended.
    Gone,
    /// The repository does not answer now.
    Unavailable(Error),
}

impl From<Error> for RecoveryError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(_) => Self::Unavailable(error),
            Error::NotOwned(_) | Error::Unknown(_) => Self::Gone,
            Error::Damaged { .. } => Self::Hold(HeldKind::Damaged(error.to_string())),
            _ => Self::Hold(HeldKind::Unreadable(error.to_string())),
        }
    }
}

impl From<record_codec::Unreadable> for RecoveryError {
    fn from(error: record_codec::Unreadable) -> Self {
        Self::Hold(HeldKind::Unreadable(error.to_string()))
    }
}

impl Coordinator {
    /// Claims processes of the repository: recovers or holds the gained ones, and leaves the lost ones.
    pub(crate) async fn take_over(self: &Arc<Self>) -> Result<(), Error> {
        let Claimed { gained, lost } = self.repository.claim().await?;
        for process in lost {
            // At once: the task of the process may take its time.
            if self.processes.find(&process).is_some() {
                self.pool.process_lost(process.as_str().into());
            }
            if let Err(error) = self.on_taken_over(&process).await {
                warn!(process, %error, "could not leave a process that another coordinator has taken over");
            }
        }
        if !gained.is_empty() {
            self.restore_leases().await?;
            self.recover_all(gained).await;
        }
        Ok(())
    }

    /// Connects to the borrowed workers that may have attempts of processes of this repository.
    pub(crate) async fn restore_leases(&self) -> Result<(), Error> {
        for (worker, address) in borrowed_workers(&self.repository).await? {
            self.pool.lease_restored(worker, address);
        }
        Ok(())
    }

    async fn recover_all(self: &Arc<Self>, gained: Vec<String>) {
        // Without these facts the coordinator recovers all of them.
        let marks = self.marks.read().await.unwrap_or_else(|error| {
            warn!(%error, "could not read the marks of recovered processes");
            BTreeMap::new()
        });
        let sizes = self.stored_sizes().await.unwrap_or_else(|error| {
            warn!(%error, "could not read the sizes of processes");
            HashMap::new()
        });
        let size = |process: &str| sizes.get(process).copied().unwrap_or_default();
        let plan = RecoveryPlan::new(&gained, &marks, size);
        self.marks.store(&plan.together()).await;
        for process in &gained {
            let (id, stored) = (Arc::<str>::from(process.as_str()), size(process));
            match (plan.held.get(process), plan.marks.get(process)) {
                (Some(count), _) => {
                    self.marks.on_held(process, *count).await;
                    self.hold(id, HeldKind::CrashedOwners(*count)).await;
                }
                (None, mark) => self.recover_or_hold(id, stored, mark.copied()).await,
            }
        }
        let marks = self.marks.clone();
        tokio::spawn(async move {
            tokio::time::sleep(PROBATION).await;
            gained.into_iter().for_each(|process| marks.on_progress(&process.into()));
        });
    }

    async fn stored_sizes(&self) -> Result<HashMap<String, u64>, Error> {
        let (mut sizes, mut entries) = (HashMap::new(), Entries::of(&self.repository));
        while let Some(entry) = entries.next().await? {
            sizes.insert(entry.process, entry.size);
        }
        Ok(sizes)
    }

    /// Continues a process that takes this many bytes in the repository, or holds it.
    pub(super) async fn recover_or_hold(self: &Arc<Self>, id: Arc<str>, stored: u64, mark: Option<RecoveryMark>) {
        if self.try_recover(&id, stored, mark).await.is_ok() {
            return;
        }
        self.parents.on_unread(&id);
        self.set_foreign(id.clone());
        let coordinator = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOAD_RETRY_INTERVAL).await;
                let Some(coordinator) = coordinator.upgrade() else { return };
                if coordinator.try_recover(&id, stored, mark).await.is_ok() {
                    return coordinator.parents.on_read(&id);
                }
            }
        });
    }

    /// As [`Self::recover_or_hold`]; an error if the repository does not answer now.
    async fn try_recover(
        self: &Arc<Self>,
        id: &Arc<str>,
        stored: u64,
        mark: Option<RecoveryMark>,
    ) -> Result<(), Error> {
        let limit = self.options.process_bytes;
        let recovered = if stored > limit.saturating_mul(MAX_STORED_PER_BUDGET) {
            let size = v1::SizeOverLimit { bytes: stored, limit_bytes: limit };
            Err(RecoveryError::Hold(HeldKind::OverBudget(size)))
        } else {
            self.recover(id, mark).await
        };
        match recovered {
            Ok(()) => Ok(()),
            Err(RecoveryError::Hold(reason)) => {
                self.hold(id.clone(), reason).await;
                Ok(())
            }
            Err(RecoveryError::Gone) => {
                match self.repository.find(id).await?.filter(|entry| entry.summary.is_none()) {
                    Some(entry) => self.leave(&entry),
                    None => self.set_foreign(id.clone()),
                }
                Ok(())
            }
            Err(RecoveryError::Unavailable(problem)) => {
                warn!(process = %id, %problem, "could not load the process; trying again");
                Err(problem)
            }
        }
    }

    /// Leaves all processes that other coordinators run: their answers are for those coordinators.
    pub(crate) async fn leave_foreign(self: &Arc<Self>) -> Result<(), Error> {
        let mut entries = Entries::of(&self.repository);
        while let Some(entry) = entries.next().await? {
            let id = &entry.process;
            let is_here = self.processes.find(id).is_some() || self.processes.find_held(id).is_some();
            if entry.summary.is_none() && !is_here {
                self.leave(&entry);
            }
        }
        Ok(())
    }

    /// Another coordinator has taken over a process that ran here.
    async fn on_taken_over(self: &Arc<Self>, process: &str) -> Result<(), Error> {
        if self.processes.take_held(process).is_some() {
            return Ok(());
        }
        let Some(handle) = self.processes.find(process) else { return Ok(()) };
        if handle.taken_over().await {
            return Ok(());
        }
        // The process has ended here, and its parent has not acknowledged that.
        match self.repository.find(process).await? {
            Some(entry) => self.leave(&entry),
            None => self.processes.remove(process),
        }
        Ok(())
    }

    /// Leaves a process to another coordinator.
    fn leave(self: &Arc<Self>, entry: &Entry) {
        let process: Arc<str> = entry.process.as_str().into();
        let head = record_codec::decode::<Head>("head", &entry.head).ok();
        if let Some(parent) = head.and_then(|head| self.parent_of(&head)) {
            parent.leave(&process);
        }
        self.set_foreign(process);
    }

    fn set_foreign(&self, process: Arc<str>) {
        self.processes.set_foreign(process.clone());
        self.pool.process_lost(process);
    }

    pub(super) fn parent_of(&self, head: &Head) -> Option<Parent> {
        Parent::of(head.parent.as_ref()?, &self.parents)
    }

    async fn recover(self: &Arc<Self>, id: &Arc<str>, mark: Option<RecoveryMark>) -> Result<(), RecoveryError> {
        if let Some(loading @ RecoveryMark::Loading(_)) = &mark {
            self.marks.store([(&id.to_string(), loading)]).await;
        }
        let Journal { head, snapshot, records, epoch, .. } = self.repository.load(id).await?;
        let head: Head = record_codec::decode("head", &head)?;
        let loaded = self.programs.fetch(&head.program).await?;
        let unreadable = |what: &str| RecoveryError::Hold(HeldKind::Unreadable(what.to_owned()));
        let no_program = || unreadable("its program is not there, or not valid in this version");
        let LoadedProgram { program, wire } = loaded.ok_or_else(no_program)?;
        let root = head.root();
        let process_type = program.processes.get(root.process);
        if process_type.is_none_or(|process| root.node.index() >= process.nodes.len()) {
            return Err(unreadable("its journal is of another program"));
        }
        // A replay may take long, and an error in it must not end more than this process.
        let (process, replayed) = (id.clone(), head.clone());
        let replay = tokio::task::spawn_blocking(move || {
            let restored = journal::restore(&program, &replayed, snapshot.as_deref(), &records)?;
            drop((snapshot, records));
            let min_time = Time(restored.at);
            let (driver, attempts) = Driver::recover(process, program, wire, root, restored);
            Ok::<_, record_codec::Unreadable>((driver, attempts, min_time))
        });
        let replayed =
            replay.await.map_err(|error| RecoveryError::Hold(HeldKind::InternalError(panic_message(error))))?;
        let (mut driver, attempts, min_time) = replayed?;
        match head.parent {
            // What it completed before is not known any more.
            Some(_) => driver.keep_memo(MemoLog::of_subtree()),
            None => self.restore_memo(id, &mut driver).await?,
        }
        let (bytes, limit) = (driver.engine().state().bytes(), self.options.process_bytes);
        // Handlers of failures may use a part of the budget in addition.
        if bytes > limit.saturating_add(limit / HANDLER_RESERVE) {
            let size = v1::SizeOverLimit { bytes, limit_bytes: limit };
            return Err(RecoveryError::Hold(HeldKind::OverBudget(size)));
        }
        if let Some(mark) = mark {
            let counts = driver.engine().state().counts();
            let quick_end = min_time.0 < PROBATION.as_millis() as u64 && counts.completed + counts.failed == 0;
            self.marks.on_loaded(id, mark, quick_end).await;
        }
        let parent = self.parent_of(&head);
        if let (Some(parent), Some(origin)) = (&parent, &head.parent) {
            parent.restore(id);
            self.report_place(parent.clone(), origin.address.clone(), epoch, false);
        }
        info!(process = %id, outstanding = attempts.len(), "process recovered");
        self.pool.process_recovered(id.clone(), epoch, attempts);
        self.run(id, driver, &head, min_time, parent, true);
        Ok(())
    }

    /// Does the repository have this process, and has it not ended? A damaged process has not ended.
    pub(crate) async fn is_unfinished(&self, process: &str) -> Result<bool, Error> {
        match self.repository.find(process).await {
            Ok(entry) => Ok(entry.is_some_and(|entry| entry.summary.is_none())),
            Err(Error::Damaged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Acknowledges the answers that arrived here for foreign processes that have ended, and lets the pool cancel their
    /// attempts: no other coordinator will.
    pub(crate) async fn end_foreign(&self) -> Result<(), Error> {
        for process in self.processes.take_foreign_with_attempts() {
            if !self.is_unfinished(&process).await? {
                self.pool.process_ended(process.clone());
                for (key, orders) in self.processes.remove_foreign(&process) {
                    let _ = orders.send(Order::Acknowledge(key));
                }
            }
        }
        Ok(())
    }
}
