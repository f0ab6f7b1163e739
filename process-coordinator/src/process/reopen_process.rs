//! Ended processes that did not complete: what is kept of them, and how they go on.
//!
//! When such a process ends, its coordinator stores its last state as a document, beside its summary. A user who retries the
//! process has it reopened: the engine brings the elements that failed or were cancelled back to life, the repository makes
//! the process a running one with that state, and this coordinator continues it like a recovered process.

use std::sync::Arc;

use bytes::Bytes;
use tracing::info;
use xavantes_engine::{Rejection, Time};
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_repository::{Entry, Error};

use crate::clock::unix_ms;
use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::process::driver::Driver;
use crate::process::ended_summary::ENDED_STATES;
use crate::process::held_processes::panic_message;
use crate::process::journal::{Head, Snapshot};
use crate::record_codec::{self, Unreadable};
use crate::repository_calls::{RepositoryCall, join_in_order};

/// Upper bound on the documents that are removed together.
const REMOVALS_AT_ONCE: usize = 1000;

/// Why an ended process does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReopenError {
    /// The repository has no state of it.
    #[error("the coordinator has not kept its last state")]
    NotKept,
    /// The engine rejects it.
    #[error("{0}")]
    Rejected(#[from] Rejection),
    /// The repository does not let it run again.
    #[error("{0}")]
    Repository(#[from] Error),
    /// What the repository has cannot be read.
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
    /// An error in this program.
    #[error("{0}")]
    Internal(String),
}

impl Coordinator {
    /// Lets an ended process go on. `path` names it, or an element in it that failed or was cancelled; `by` is the user.
    pub(crate) async fn reopen(self: &Arc<Self>, entry: &Entry, path: String, by: String) -> Result<(), ReopenError> {
        let id: Arc<str> = entry.process.as_str().into();
        let summary = entry.summary.as_ref().ok_or_else(|| Error::Unknown(id.to_string()))?;
        let state = self.repository.get(ENDED_STATES, &id).await?.ok_or(ReopenError::NotKept)?;
        let head: Head = record_codec::decode("head", &entry.head)?;
        let loaded = self.programs.fetch(&head.program).await?.ok_or(Unreadable("program"))?;
        let (process, max_bytes) = (id.clone(), self.options.process_bytes);
        let reopened =
            tokio::task::spawn_blocking(move || reopened(process, &head, loaded, &state, path, by, max_bytes));
        let snapshot = reopened.await.map_err(|error| ReopenError::Internal(panic_message(error)))??;
        let stored = snapshot.len() as u64;
        // Refused if the process ran again since the caller read the summary: the state may be older than its end.
        self.repository.reopen(&id, summary, snapshot).await?;
        info!(process = %id, "a user reopened the process");
        self.recover_or_hold(id, stored, None).await;
        Ok(())
    }

    /// Removes the states of ended processes.
    pub(super) async fn forget_ended_states(&self, processes: &[String]) -> Result<(), Error> {
        for some in processes.chunks(REMOVALS_AT_ONCE) {
            let removals = some.iter().map(|process| -> RepositoryCall {
                let (repository, process) = (self.repository.clone(), process.clone());
                Box::pin(async move { repository.remove(ENDED_STATES, &process).await })
            });
            join_in_order(removals.collect()).await.into_iter().collect::<Result<(), Error>>()?;
        }
        Ok(())
    }
}

/// The snapshot of a process after it was reopened.
fn reopened(
    id: Arc<str>,
    head: &Head,
    LoadedProgram { program, wire }: LoadedProgram,
    state: &Bytes,
    path: String,
    by: String,
    max_bytes: u64,
) -> Result<Bytes, ReopenError> {
    let restored: Snapshot = record_codec::decode("last state", state)?;
    let now = Time(unix_ms().saturating_sub(head.submitted_ms));
    let (mut driver, _) = Driver::<(), ()>::recover(id, program, wire, head.root(), restored);
    driver.set_max_bytes(max_bytes);
    let sandbox = Sandbox::new(ScriptLimits::CONTROL, false);
    let mut sandbox = sandbox.map_err(|error| ReopenError::Internal(error.to_string()))?;
    driver.reopen(&mut sandbox, path, by, now)?;
    Ok(driver.snapshot())
}
