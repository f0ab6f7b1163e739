//! Processes that change hands: this coordinator recovers its own after a restart, takes over those of coordinators that
//! died, and leaves those that another coordinator took over.

use std::sync::Arc;

use tracing::{error, info, warn};
use xavantes_engine::Time;
use xavantes_repository::{Claimed, Entry, Error, Journal};

use crate::codec;
use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::process::driver::Driver;
use crate::process::journal::{self, Head};
use crate::subtrees::parents::Parent;
use crate::workers::messages::Order;

/// Why a process cannot be recovered.
#[derive(Debug, thiserror::Error)]
enum RecoveryError {
    #[error(transparent)]
    Repository(#[from] Error),
    #[error(transparent)]
    Unreadable(#[from] codec::Unreadable),
    #[error("its program is not there, or not valid in this version")]
    NoProgram,
    #[error("its journal is of another program")]
    OtherProgram,
}

impl Coordinator {
    /// Claims processes of the repository: recovers the gained ones and leaves the lost ones.
    pub(crate) async fn take_over(self: &Arc<Self>) -> Result<(), Error> {
        let Claimed { gained, lost } = self.repository.claim().await?;
        self.processes.set_recovering(gained.iter().map(|process| process.as_str().into()));
        for process in lost {
            if let Err(error) = self.on_taken_over(&process).await {
                warn!(process, %error, "could not leave a process that another coordinator has taken over");
            }
        }
        for process in gained {
            if let Err(problem) = self.recover(&process).await {
                error!(process, %problem, "could not recover the process");
                self.set_foreign(process.into());
            }
        }
        Ok(())
    }

    /// Leaves all processes that other coordinators run: their answers are for those coordinators.
    pub(crate) async fn leave_foreign(self: &Arc<Self>) -> Result<(), Error> {
        for entry in self.repository.list().await? {
            if entry.summary.is_none() && self.processes.find(&entry.process).is_none() {
                self.leave(&entry);
            }
        }
        Ok(())
    }

    /// Another coordinator has taken over a process that ran here.
    async fn on_taken_over(self: &Arc<Self>, process: &str) -> Result<(), Error> {
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
        let head = codec::decode::<Head>("head", &entry.head).ok();
        if let Some(parent) = head.and_then(|head| self.parent_of(&head)) {
            parent.leave(&process);
        }
        self.set_foreign(process);
    }

    fn set_foreign(&self, process: Arc<str>) {
        self.processes.set_foreign(process.clone());
        self.pool.process_lost(process);
    }

    fn parent_of(&self, head: &Head) -> Option<Parent> {
        Parent::of(head.parent.as_ref()?, &self.parents)
    }

    async fn recover(self: &Arc<Self>, process: &str) -> Result<(), RecoveryError> {
        let Journal { head, snapshot, records, epoch, .. } = self.repository.load(process).await?;
        let head: Head = codec::decode("head", &head)?;
        let loaded = self.programs.fetch(&head.program).await?;
        let LoadedProgram { program, wire } = loaded.ok_or(RecoveryError::NoProgram)?;
        let restored = journal::restore(&program, &head, snapshot.as_deref(), &records)?;
        drop((snapshot, records));
        let (id, root): (Arc<str>, _) = (process.into(), head.root());
        let process_type = program.processes.get(root.process);
        if process_type.is_none_or(|process| root.node.index() >= process.nodes.len()) {
            return Err(RecoveryError::OtherProgram);
        }
        let min_time = Time(restored.at);
        let (driver, attempts) = Driver::recover(id.clone(), program, wire, root, restored);
        let parent = self.parent_of(&head);
        if let (Some(parent), Some(origin)) = (&parent, &head.parent) {
            parent.restore(&id);
            self.report_place(parent.clone(), origin.address.clone(), epoch, false);
        }
        info!(process, outstanding = attempts.len(), "process recovered");
        self.pool.process_recovered(id.clone(), epoch, attempts);
        self.run(&id, driver, &head, min_time, parent);
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

    /// Acknowledges the answers that arrived here for foreign processes that have ended: no other coordinator will.
    pub(crate) async fn acknowledge_late_answers(&self) -> Result<(), Error> {
        for process in self.processes.foreign_with_answers() {
            if !self.is_unfinished(&process).await? {
                for (key, orders) in self.processes.remove_foreign(&process) {
                    let _ = orders.send(Order::Acknowledge(key));
                }
            }
        }
        Ok(())
    }
}
