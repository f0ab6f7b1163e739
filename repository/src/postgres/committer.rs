//! The task that makes all changes of the PostgreSQL store.
//!
//! The committer makes all waiting changes in one transaction. More requests gather while the database writes.

use std::collections::HashMap;
use std::time::Instant;

use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgPool};
use tokio::sync::{mpsc, oneshot};
use xavantes_telemetry::metrics;

use super::database_connection::{Retries, STATEMENT_TIMEOUT, connect, with_timeout};
use super::lease::Session;
use super::ownership::{Owned, Ownership};
use super::queries;
use super::statements::{ObsoleteRecords, remove_obsolete_records};
use super::transaction::{Committed, commit};
use crate::committer_handle::{ChangeResult, CommitChange, CommitReply, StoreRequest, reply};
use crate::error::Error;
use crate::repository::Claimed;

/// Bytes of payloads after which the committer commits a batch though more requests wait.
const MAX_BATCH_BYTES: u64 = 16 * 1024 * 1024;

/// Starts the task and the renewal of the lease. Both end after a request to shut down, or when the last handle is
/// dropped.
pub(super) fn start(
    options: PgConnectOptions,
    connection: PgConnection,
    pool: PgPool,
    session: Session,
    node: String,
    requests: mpsc::Receiver<StoreRequest>,
) {
    let renewal = tokio::spawn(session.clone().renew_forever(pool.clone(), node.clone()));
    let ownership = Ownership::new(session, node);
    let mut committer = PostgresCommitter { options, connection: Some(connection), pool, ownership };
    tokio::spawn(async move {
        let ended = committer.run(requests).await;
        renewal.abort();
        if let Some(answer) = ended {
            if let Err(error) = committer.ownership.session.end(&committer.pool).await {
                tracing::warn!(%error, "cannot end the lease in the repository; it expires");
            }
            committer.pool.close().await;
            // The caller may have dropped its future.
            let _ = answer.send(());
        }
    });
}

struct PostgresCommitter {
    options: PgConnectOptions,
    /// Connection for writing. `None` after an error on it.
    connection: Option<PgConnection>,
    /// Connections for reading.
    pool: PgPool,
    ownership: Ownership,
}

/// Changes that share one transaction, with the channels for their answers.
struct WriteBatch {
    changes: Vec<CommitChange>,
    answers: Vec<CommitReply<ChangeResult>>,
    bytes: u64,
}

impl WriteBatch {
    fn add(&mut self, change: CommitChange, answer: CommitReply<ChangeResult>) {
        self.bytes += change.added_bytes().unwrap_or_default();
        self.changes.push(change);
        self.answers.push(answer);
    }

    /// Collects a change and the waiting changes after it. Also returns the first request that does not belong to the
    /// batch. A change that forgets or reopens processes is a batch of its own, because the change before it may close one of
    /// the processes, and the change after it may create the same process again.
    fn collect(
        change: CommitChange,
        answer: CommitReply<ChangeResult>,
        requests: &mut mpsc::Receiver<StoreRequest>,
    ) -> (Self, Option<StoreRequest>) {
        let is_alone =
            |change: &CommitChange| matches!(change, CommitChange::Forget { .. } | CommitChange::Reopen { .. });
        let alone = is_alone(&change);
        let mut batch = Self { changes: Vec::new(), answers: Vec::new(), bytes: 0 };
        batch.add(change, answer);
        while !alone && batch.bytes < MAX_BATCH_BYTES {
            match requests.try_recv() {
                Ok(StoreRequest::CommitChange { change, answer }) if !is_alone(&change) => {
                    batch.add(change, answer);
                }
                Ok(other) => return (batch, Some(other)),
                Err(_) => break,
            }
        }
        (batch, None)
    }
}

impl PostgresCommitter {
    /// Runs until a request to shut down arrives, or the last handle is dropped. Returns the channel for the answer to
    /// the request to shut down.
    async fn run(&mut self, mut requests: mpsc::Receiver<StoreRequest>) -> Option<oneshot::Sender<()>> {
        let mut next = None;
        loop {
            let request = match next.take() {
                Some(request) => request,
                None => requests.recv().await?,
            };
            match request {
                StoreRequest::CommitChange { change, answer } => {
                    let (batch, following) = WriteBatch::collect(change, answer, &mut requests);
                    next = following;
                    let (results, obsolete) = self.commit(&batch.changes).await;
                    for (answer, result) in batch.answers.into_iter().zip(results) {
                        reply(answer, result);
                    }
                    self.remove_obsolete(obsolete).await;
                }
                StoreRequest::Claim { answer } => reply(answer, self.claim().await),
                StoreRequest::Load { process, answer } => {
                    let (pool, owned) = (self.pool.clone(), self.ownership.owned.get(&process).cloned());
                    tokio::spawn(async move { reply(answer, queries::load(&pool, &process, owned).await) });
                }
                StoreRequest::Get { kind, key, answer } => {
                    let pool = self.pool.clone();
                    tokio::spawn(async move { reply(answer, queries::document(&pool, &kind, &key).await) });
                }
                StoreRequest::Documents { kind, answer } => {
                    let pool = self.pool.clone();
                    tokio::spawn(async move { reply(answer, queries::documents(&pool, &kind).await) });
                }
                StoreRequest::Backup { answer } => reply(answer, Err(Error::NoBackup)),
                StoreRequest::ShutDown { answer } => return Some(answer),
            }
        }
    }

    /// Commits changes in one transaction, and repeats it while it fails temporarily.
    async fn commit(&mut self, changes: &[CommitChange]) -> (Vec<Result<ChangeResult, Error>>, ObsoleteRecords) {
        let retries = Retries::new();
        loop {
            let began = Instant::now();
            match with_timeout(STATEMENT_TIMEOUT, self.try_commit(changes)).await {
                Ok(committed) => {
                    metrics().journal_sync.observe(began.elapsed().as_secs_f64());
                    metrics().journal_bytes.inc_by(changes.iter().filter_map(CommitChange::added_bytes).sum());
                    self.ownership.on_undone();
                    self.ownership.owned.extend(committed.owned);
                    for process in &committed.closed {
                        self.ownership.owned.remove(process);
                    }
                    return (committed.results, committed.obsolete);
                }
                Err(error) => {
                    if let Err(error) = retries.wait_after(error).await {
                        let results = changes.iter().map(|_| Err(error.clone())).collect();
                        return (results, ObsoleteRecords::default());
                    }
                }
            }
        }
    }

    async fn claim(&mut self) -> Result<Claimed, Error> {
        let retries = Retries::new();
        loop {
            match with_timeout(STATEMENT_TIMEOUT, self.try_claim()).await {
                Ok(now) => return Ok(self.ownership.on_claimed(now)),
                Err(error) => retries.wait_after(error).await?,
            }
        }
    }

    /// An error drops the connection.
    async fn try_commit(&mut self, changes: &[CommitChange]) -> sqlx::Result<Committed> {
        let mut connection = self.take_connection().await?;
        let committed = commit(&mut self.ownership, &mut connection, changes).await?;
        self.connection = Some(connection);
        Ok(committed)
    }

    /// An error drops the connection.
    async fn try_claim(&mut self) -> sqlx::Result<HashMap<String, Owned>> {
        let mut connection = self.take_connection().await?;
        let claimed = self.ownership.claim(&mut connection).await?;
        self.connection = Some(connection);
        Ok(claimed)
    }

    async fn take_connection(&mut self) -> sqlx::Result<PgConnection> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => connect(&self.options).await,
        }
    }

    /// If this fails, the records stay until the process is compacted again or forgotten.
    async fn remove_obsolete(&mut self, obsolete: ObsoleteRecords) {
        let (Some(connection), false) = (&mut self.connection, obsolete.is_empty()) else { return };
        if let Err(error) = with_timeout(STATEMENT_TIMEOUT, remove_obsolete_records(connection, obsolete)).await {
            tracing::debug!(%error, "cannot remove obsolete records");
            self.connection = None;
        }
    }
}
