//! The thread that makes all changes of the sled store.
//!
//! The committer takes all waiting requests, applies their changes, syncs them to the disk once, and then answers all of
//! them. More requests gather while it waits for the disk. So a slower disk makes larger batches.

use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use xavantes_telemetry::metrics;

use super::reopening::{NotReopened, reopen};
use super::shared_database::OpenDatabase;
use super::store_writer::Writer;
use crate::committer_handle::{StoreRequest, reply};
use crate::error::Error;
use crate::repository::Claimed;

/// Bytes of payloads after which the committer commits a batch though more requests wait.
const MAX_BATCH_BYTES: u64 = 16 * 1024 * 1024;

/// Starts the thread. It ends after a request to shut down, or when the last handle is dropped.
pub(super) fn start(writer: Writer, opened: OpenDatabase, requests: mpsc::Receiver<StoreRequest>) -> Result<(), Error> {
    let committer = SledCommitter { writer };
    std::thread::Builder::new()
        .name("committer".into())
        .spawn(move || committer.run(&opened, requests))
        .map_err(|error| Error::Broken(format!("the system cannot start a thread: {error}")))?;
    Ok(())
}

struct SledCommitter {
    writer: Writer,
}

impl SledCommitter {
    fn run(mut self, opened: &OpenDatabase, mut requests: mpsc::Receiver<StoreRequest>) {
        // The answer to a request to shut down, and the committer, if its database is open.
        let (ended, committer) = loop {
            let Some(first) = requests.blocking_recv() else { break (None, Some(self)) };
            match self.batch(first, &mut requests) {
                Ok(None) => {}
                Ok(Some(ended)) => break (Some(ended), Some(self)),
                Err(error) if self.writer.failed().is_none() => {
                    break (refuse_all(&error, &mut requests), Some(self));
                }
                Err(error) => match reopen(self.writer, opened, &error, &mut requests) {
                    Ok(writer) => self = Self { writer },
                    Err(NotReopened::ShutDown(answer)) => break (answer, None),
                    Err(NotReopened::Failed(error)) => break (refuse_all(&error, &mut requests), None),
                },
            }
        };
        // Waits for readers, closes the database, and then releases the directory.
        opened.close(Error::ended());
        drop(committer);
        if let Some(answer) = ended {
            // The caller may have dropped its future.
            let _ = answer.send(());
        }
    }

    /// Carries out all waiting requests. Returns the channel for the answer to a request to shut down. An error ends the
    /// store.
    fn batch(
        &mut self,
        first: StoreRequest,
        requests: &mut mpsc::Receiver<StoreRequest>,
    ) -> Result<Option<oneshot::Sender<()>>, Error> {
        self.writer.begin();
        let (mut changes, mut backups) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut ended = None;
        let mut broken = None;
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                StoreRequest::CommitChange { change, answer } => {
                    bytes += change.added_bytes().unwrap_or_default();
                    let result = self.writer.apply(change);
                    broken = fatal(&result).or_else(|| self.writer.failed());
                    changes.push((answer, result));
                }
                StoreRequest::Claim { answer } => {
                    reply(answer, Ok(Claimed { gained: self.writer.claim(), lost: Vec::new() }));
                }
                StoreRequest::Load { process, answer } => {
                    let result = self.writer.load(&process);
                    broken = fatal(&result).or_else(|| self.writer.failed());
                    reply(answer, result);
                }
                StoreRequest::Get { kind, key, answer } => reply(answer, self.writer.database.document(&kind, &key)),
                StoreRequest::Documents { kind, answer } => reply(answer, self.writer.database.documents_of(&kind)),
                StoreRequest::Backup { answer } => backups.push(answer),
                StoreRequest::ShutDown { answer } => ended = Some(answer),
            }
            let full = bytes > MAX_BATCH_BYTES || ended.is_some() || broken.is_some();
            next = if full { None } else { requests.try_recv().ok() };
        }
        let began = Instant::now();
        let committed = broken.map_or_else(|| self.writer.commit(), Err);
        if committed.is_ok() {
            metrics().journal_sync.observe(began.elapsed().as_secs_f64());
            metrics().journal_bytes.inc_by(bytes);
        }
        for (answer, result) in changes {
            reply(answer, result.and_then(|result| committed.clone().map(|()| result)));
        }
        if let (Err(error), Some(ended)) = (&committed, ended.take_if(|_| committed.is_err())) {
            tracing::error!(%error, "the repository is shut down without its last changes");
            return Ok(Some(ended));
        }
        committed?;
        for answer in backups {
            reply(answer, self.writer.backup());
        }
        self.writer.collect_garbage()?;
        if ended.is_some() {
            self.writer.commit()?;
            self.writer.close_witness();
        }
        Ok(ended)
    }
}

/// The error after which the store cannot continue.
fn fatal<T>(result: &Result<T, Error>) -> Option<Error> {
    result.as_ref().err().filter(|error| matches!(error, Error::Broken(_) | Error::Corrupt(_))).cloned()
}

/// Answers every request with an error until a request to shut down arrives. Returns the channel for its answer.
fn refuse_all(error: &Error, requests: &mut mpsc::Receiver<StoreRequest>) -> Option<oneshot::Sender<()>> {
    tracing::error!(%error, "repository failed; it stores nothing any more");
    while let Some(request) = requests.blocking_recv() {
        if let Some(answer) = request.refuse(error) {
            return Some(answer);
        }
    }
    None
}
