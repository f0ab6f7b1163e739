//! Subtrees that another coordinator of their realm has taken over. The new coordinator reports the move to the coordinator
//! of the parent. If that one has lost the parent, it leaves a [`MoveNotice`] in the repository for the one that has it.

use std::sync::Arc;
use std::time::Duration;

use tracing::info;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{call_with_timeout, connect, v1};
use xavantes_repository::Error;

use crate::coordinator::Coordinator;
use crate::handover::SubtreePlace;
use crate::process::driver_input::ProcessInput;
use crate::process::end_process::discard;
use crate::process::handle::ProcessHandle;
use crate::record_codec;
use crate::subtrees::move_notice::{
    MoveNotice, MoveReportStep, NoticeStep, ParentState, STILL_WANTED_INTERVAL, on_move_report, on_notice,
};
use crate::subtrees::parent_links::UnwantedSubtree;
use crate::subtrees::parent_streams::Parent;
use crate::workers::worker_messages::MoveOutcome;
use xavantes_proto::AttemptKey;

/// A move that the parent has not recorded yet is reported again at this interval.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Kind of the repository's documents that are [`MoveNotice`]s.
const MOVE_NOTICES: &str = "moved";

impl Coordinator {
    /// Reports to the parent of a subtree where it runs, until the parent has recorded that. Afterwards asks now and then
    /// whether the parent still waits: it may have given up the subtree, and crashed before it could cancel it.
    pub(crate) fn report_place(self: &Arc<Self>, parent: Parent, address: String, epoch: u64, mut recorded: bool) {
        let request = v1::MovedRequest {
            attempt: Some(parent.key().to_wire()),
            node: self.options.node.clone(),
            address: self.options.address.clone(),
            epoch,
        };
        let coordinator = Arc::downgrade(self);
        let mut pause = Duration::ZERO;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(if recorded { STILL_WANTED_INTERVAL } else { pause }).await;
                pause = REPORT_INTERVAL;
                if !parent.waits() {
                    return;
                }
                if let Ok(channel) = connect(&address).await
                    && let Ok(moved) =
                        call_with_timeout(ProcessCoordinatorClient::new(channel).moved(request.clone())).await
                {
                    recorded = moved.recorded;
                    if moved.unwanted {
                        let Some(coordinator) = coordinator.upgrade() else { return };
                        return coordinator.stop_unwanted(&parent).await;
                    }
                }
            }
        });
    }

    /// Stops a subtree for which the parent does not wait, or removes it if it has ended.
    async fn stop_unwanted(&self, parent: &Parent) {
        let unwanted = parent.forget();
        info!(attempt = %parent.key(), ?unwanted, "the parent does not wait for this subtree any more");
        match unwanted {
            UnwantedSubtree::Discard(process) => self.discard(&process),
            UnwantedSubtree::Cancel(process) => {
                // Nobody else cancels a held subtree that its parent has forgotten.
                while self.notify_subtree(Some(process.clone()), ProcessInput::ParentCancelled).await.is_err() {
                    tokio::time::sleep(REPORT_INTERVAL).await;
                }
            }
            UnwantedSubtree::Gone => {}
        }
    }

    /// Removes a subtree that has ended.
    pub(crate) fn discard(&self, process: &Arc<str>) {
        discard(&self.repository, &self.pool, &self.processes, process);
    }

    /// A subtree of a process of this realm runs at another coordinator now.
    pub(crate) async fn on_moved(&self, key: AttemptKey, place: SubtreePlace) -> Result<MoveOutcome, Error> {
        let (parent, handle) = self.find_parent(&key.process).await?;
        let name = MoveNotice::document_name(&key);
        let refused = parent == ParentState::RunsElsewhere && self.is_refused_by_notice(&name).await?;
        match (on_move_report(parent, refused), handle) {
            (MoveReportStep::AskPool, Some(process)) => Ok(self.note_move(&process, key, place).await),
            // The caller reports the move again.
            (MoveReportStep::AskPool, None) => Ok(MoveOutcome::Recording),
            (MoveReportStep::Unwanted, _) => Ok(MoveOutcome::Unwanted),
            (MoveReportStep::UnwantedByNotice, _) => {
                self.repository.remove(MOVE_NOTICES, &name).await?;
                Ok(MoveOutcome::Unwanted)
            }
            (MoveReportStep::LeaveNotice, _) => {
                let notice = MoveNotice::new(&key, Some(place));
                self.repository.put(MOVE_NOTICES, &name, record_codec::encode(&notice)).await?;
                Ok(MoveOutcome::Recording)
            }
        }
    }

    /// Answers the parents of subtrees that moved and have ended since: the answer may be lost. Called at the interval
    /// [`STILL_WANTED_INTERVAL`].
    pub(crate) async fn end_moved_subtrees(&self) -> Result<(), Error> {
        for process in self.parents.moved() {
            if !self.is_unfinished(&process).await? {
                self.parents.end_moved(&process);
            }
        }
        Ok(())
    }

    /// Where the parent of a subtree runs, with its handle if it runs here.
    async fn find_parent(&self, process: &str) -> Result<(ParentState, Option<ProcessHandle>), Error> {
        let handle = self.processes.find(process);
        let state = if handle.is_some() {
            ParentState::RunsHere
        } else if self.is_unfinished(process).await? {
            ParentState::RunsElsewhere
        } else {
            ParentState::Ended
        };
        Ok((state, handle))
    }

    async fn is_refused_by_notice(&self, name: &str) -> Result<bool, Error> {
        let notices = self.repository.documents(MOVE_NOTICES).await?;
        let notice = notices.iter().find(|(other, _)| other == name).and_then(|(_, bytes)| MoveNotice::decode(bytes));
        Ok(notice.is_some_and(|notice| notice.place.is_none()))
    }

    async fn note_move(&self, parent: &ProcessHandle, key: AttemptKey, place: SubtreePlace) -> MoveOutcome {
        match self.pool.moved(key.clone(), place).await {
            // The pool has the answer of the attempt, but the process may not have recorded it yet.
            MoveOutcome::Unwanted if parent.still_wants(key).await => MoveOutcome::Recording,
            outcome => outcome,
        }
    }

    /// Reads the notices that other coordinators left. The coordinator of a moved subtree reports it until it is recorded.
    pub(crate) async fn read_move_notices(&self) -> Result<(), Error> {
        for (name, notice) in self.repository.documents(MOVE_NOTICES).await? {
            if let Some(notice) = MoveNotice::decode(&notice) {
                let key = notice.key();
                let (parent, handle) = self.find_parent(&key.process).await?;
                match (on_notice(parent, notice.place), handle) {
                    (NoticeStep::AskPool(place), Some(parent)) => {
                        if self.note_move(&parent, key.clone(), place).await == MoveOutcome::Unwanted {
                            let notice = MoveNotice::new(&key, None);
                            self.repository.put(MOVE_NOTICES, &name, record_codec::encode(&notice)).await?;
                            continue;
                        }
                    }
                    (NoticeStep::Keep | NoticeStep::AskPool(_), _) => continue,
                    (NoticeStep::Remove, _) => {}
                }
            }
            self.repository.remove(MOVE_NOTICES, &name).await?;
        }
        Ok(())
    }
}
