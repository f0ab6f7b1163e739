//! Held processes: this coordinator owns them and does not run them, because it cannot, or because they would bring it
//! down. A user resumes, cancels or removes them. Only the attempt to resume one loads it.

use std::sync::Arc;

use tokio::task::JoinError;
use tracing::{info, warn};
use xavantes_proto::v1;
use xavantes_proto::v1::held_reason::Kind as HeldKind;
use xavantes_repository::Error;

use crate::clock::unix_ms;
use crate::coordinator::Coordinator;
use crate::process::ended_summary::{ENDED_STATES, Summary};
use crate::process::journal::Head;
use crate::process::process_history::ProcessHistory;
use crate::process::process_registry::HeldProcess;
use crate::record_codec;
use crate::subtrees::hosted_subtrees;
use crate::subtrees::parent_streams::Parent;
use crate::workers::worker_messages::Order;

/// The epoch in which attempts of a process end that is removed without being loaded: later than all others.
const LAST_EPOCH: u64 = u64::MAX;

impl Coordinator {
    /// Holds a process.
    pub(crate) async fn hold(self: &Arc<Self>, id: Arc<str>, reason: HeldKind) {
        let reason = v1::HeldReason::from(reason);
        warn!(process = %id, %reason, "the process is held");
        let entry = self.repository.find(&id).await.ok().flatten();
        let epoch = entry.as_ref().map_or(0, |entry| entry.epoch);
        let head = entry.and_then(|entry| record_codec::decode::<Head>("head", &entry.head).ok());
        let status = match &head {
            Some(head) => v1::ProcessStatus {
                state: v1::State::Held.into(),
                ..self.status_from_head(&id, head, &self.options.node)
            },
            None => v1::ProcessStatus {
                process: id.to_string(),
                path: id.to_string(),
                state: v1::State::Held.into(),
                node: self.options.node.clone(),
                group: self.options.group.clone(),
                ..v1::ProcessStatus::default()
            },
        };
        let stalled = Some(v1::stall_reason::Kind::Held(reason).into());
        let origin = head.and_then(|head| head.parent);
        if let Some(parent) = origin.as_ref().and_then(|origin| Parent::of(origin, &self.parents)) {
            // The parent goes on waiting, learns where the subtree is, and can cancel it.
            parent.restore(&id);
            let address = origin.as_ref().map_or_else(String::new, |origin| origin.address.clone());
            self.report_place(parent, address, epoch, false);
        }
        self.processes.hold(id.clone(), HeldProcess { status: v1::ProcessStatus { stalled, ..status }, origin });
        self.pool.process_lost(id);
    }

    /// Tries to continue a held process. Gives the reason if it is held again, and nothing if it is not held.
    pub(crate) async fn resume_held(self: &Arc<Self>, id: &Arc<str>) -> Option<Result<(), v1::StallReason>> {
        let held = self.processes.take_held(id)?;
        info!(process = %id, "a user resumes the held process");
        self.marks.remove(id).await;
        let stored = self.repository.find(id).await.ok().flatten().map_or(0, |entry| entry.size);
        self.recover_or_hold(id.clone(), stored, None).await;
        Some(match self.processes.find_held(id) {
            Some((_, process)) => Err(process.status.stalled.or(held.status.stalled).unwrap_or_default()),
            None => Ok(()),
        })
    }

    /// Ends a held process as cancelled, without loading it. False if it is not held.
    pub(crate) async fn cancel_held(&self, id: &Arc<str>) -> Result<bool, Error> {
        let Some((_, held)) = self.processes.find_held(id) else { return Ok(false) };
        let status = v1::ProcessStatus {
            state: v1::State::Cancelled.into(),
            stalled: None,
            ended_ms: unix_ms(),
            ..held.status.clone()
        };
        let summary = record_codec::encode(&Summary::new(&status, Vec::new(), &ProcessHistory::default()));
        // A state from an earlier end is not the last one.
        match self.repository.close_with(id, summary, ENDED_STATES, None).await {
            Ok(()) | Err(Error::Unknown(_)) => {}
            Err(error) => return Err(error),
        }
        info!(process = %id, "the held process is cancelled");
        self.processes.take_held(id);
        self.end_held(id, &held).await;
        Ok(true)
    }

    /// Removes a held process permanently, without loading it. False if it is not held.
    pub(crate) async fn forget_held(&self, id: &Arc<str>) -> Result<bool, Error> {
        let cancelled = self.cancel_held(id).await?;
        self.forget(&[id.to_string()]).await?;
        Ok(cancelled)
    }

    /// Releases everything that still waits for a process that was held and has ended.
    async fn end_held(&self, id: &Arc<str>, held: &HeldProcess) {
        self.marks.remove(id).await;
        // The claim makes workers report the attempts that they run; the pool cancels those of processes that ended.
        self.pool.process_recovered(id.clone(), LAST_EPOCH, Vec::new());
        self.pool.process_ended(id.clone());
        for (key, orders) in self.processes.remove_foreign(id) {
            let _ = orders.send(Order::Acknowledge(key));
        }
        self.pool.release(v1::Release { process: id.to_string(), ..v1::Release::default() }, true);
        let parent = held.origin.as_ref().and_then(|origin| Parent::of(origin, &self.parents));
        if let Some(parent) = parent {
            let cancelled = v1::answer::Outcome::Cancelled(v1::Nothing {});
            let (counts, history) = (v1::Counts::default(), ProcessHistory::default());
            parent.finish(hosted_subtrees::answer(parent.key(), id, cancelled, counts, &history, Vec::new()));
            if let Err(error) = self.repository.forget(&[id.to_string()]).await {
                info!(process = %id, %error, "could not remove an ended subtree");
            }
        }
    }
}

/// The message of a task that ended with an error in this program.
pub(crate) fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the task was stopped".into() };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown").to_owned()
}
