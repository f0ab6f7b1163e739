//! The handle of a committer: its methods send a request and await the answer.
//!
//! The committer is the thread or task of a store that carries out all changes, in the order of the requests.

use std::fs::File;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::repository::{Claimed, Journal};

/// Upper bound on waiting requests. A caller waits for a free place before its request enters the queue.
const MAX_QUEUED_REQUESTS: usize = 4096;

/// Bytes of keys and framing that a store writes beside each payload, roughly.
const OVERHEAD_BYTES: u64 = 128;

/// Channel for the answer to a request.
pub(crate) type CommitReply<T> = oneshot::Sender<Result<T, Error>>;

/// A request to the committer.
pub(crate) enum StoreRequest {
    CommitChange {
        change: CommitChange,
        answer: CommitReply<ChangeResult>,
    },
    Claim {
        answer: CommitReply<Claimed>,
    },
    Load {
        process: String,
        answer: CommitReply<Journal>,
    },
    Get {
        kind: String,
        key: String,
        answer: CommitReply<Option<Bytes>>,
    },
    Documents {
        kind: String,
        answer: CommitReply<Vec<(String, Bytes)>>,
    },
    /// The answer is a file with a backup, which has no name.
    Backup {
        answer: CommitReply<File>,
    },
    ShutDown {
        answer: oneshot::Sender<()>,
    },
}

impl StoreRequest {
    /// Answers the request with an error. Returns the channel for the answer to a request to shut down.
    pub(crate) fn refuse(self, error: &Error) -> Option<oneshot::Sender<()>> {
        match self {
            Self::CommitChange { answer, .. } => reply(answer, Err(error.clone())),
            Self::Claim { answer } => reply(answer, Err(error.clone())),
            Self::Load { answer, .. } => reply(answer, Err(error.clone())),
            Self::Get { answer, .. } => reply(answer, Err(error.clone())),
            Self::Documents { answer, .. } => reply(answer, Err(error.clone())),
            Self::Backup { answer } => reply(answer, Err(error.clone())),
            Self::ShutDown { answer } => return Some(answer),
        }
        None
    }
}

/// A change that the committer makes durable.
pub(crate) enum CommitChange {
    Create {
        process: String,
        head: Bytes,
    },
    Append {
        process: String,
        record: Bytes,
    },
    Compact {
        process: String,
        snapshot: Bytes,
    },
    Close {
        process: String,
        summary: Bytes,
        document: Option<EndDocument>,
    },
    /// The summary is the one with which the process ended.
    Reopen {
        process: String,
        summary: Bytes,
        snapshot: Bytes,
    },
    Forget {
        processes: Vec<String>,
    },
    Put {
        kind: String,
        key: String,
        document: Bytes,
    },
    Remove {
        kind: String,
        key: String,
    },
}

/// Result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeResult {
    Done,
    /// Epoch of a created or reopened process.
    Epoch(u64),
    /// Processes that a store was to forget, and that run.
    Running(Vec<String>),
}

impl ChangeResult {
    /// The epoch of a created or reopened process, otherwise 0.
    fn epoch(&self) -> u64 {
        match self {
            Self::Epoch(epoch) => *epoch,
            Self::Done | Self::Running(_) => 0,
        }
    }
}

/// A document that a store changes when it closes a process. Its key is the id of the process.
pub(crate) struct EndDocument {
    pub(crate) kind: String,
    /// `None` removes the document.
    pub(crate) content: Option<Bytes>,
}

impl CommitChange {
    /// Estimate of the bytes that the change adds to the store. `None` if it adds nothing.
    pub(crate) fn added_bytes(&self) -> Option<u64> {
        match self {
            Self::Create { head: payload, .. }
            | Self::Append { record: payload, .. }
            | Self::Compact { snapshot: payload, .. }
            | Self::Reopen { snapshot: payload, .. }
            | Self::Put { document: payload, .. } => Some(payload.len() as u64 + OVERHEAD_BYTES),
            Self::Close { summary, document, .. } => {
                let content = document.as_ref().and_then(|document| document.content.as_ref());
                Some(summary.len() as u64 + content.map_or(0, |content| content.len() as u64) + OVERHEAD_BYTES)
            }
            Self::Forget { .. } | Self::Remove { .. } => None,
        }
    }
}

/// Sends requests to the committer of a store.
pub(crate) struct CommitterHandle {
    requests: mpsc::Sender<StoreRequest>,
}

impl CommitterHandle {
    /// Makes a handle, and the queue from which the committer receives requests.
    pub(crate) fn new() -> (Self, mpsc::Receiver<StoreRequest>) {
        let (requests, queue) = mpsc::channel(MAX_QUEUED_REQUESTS);
        (Self { requests }, queue)
    }

    pub(crate) async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        let change = CommitChange::Create { process: process.into(), head };
        self.change(change).await.map(|created| created.epoch())
    }

    pub(crate) async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        self.change(CommitChange::Append { process: process.into(), record }).await.map(drop)
    }

    pub(crate) async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        self.change(CommitChange::Compact { process: process.into(), snapshot }).await.map(drop)
    }

    pub(crate) async fn close(
        &self,
        process: &str,
        summary: Bytes,
        document: Option<EndDocument>,
    ) -> Result<(), Error> {
        self.change(CommitChange::Close { process: process.into(), summary, document }).await.map(drop)
    }

    pub(crate) async fn reopen(&self, process: &str, summary: &Bytes, snapshot: Bytes) -> Result<u64, Error> {
        let change = CommitChange::Reopen { process: process.into(), summary: summary.clone(), snapshot };
        self.change(change).await.map(|reopened| reopened.epoch())
    }

    pub(crate) async fn forget(&self, processes: Vec<String>) -> Result<Vec<String>, Error> {
        self.change(CommitChange::Forget { processes }).await.map(|forgotten| match forgotten {
            ChangeResult::Running(processes) => processes,
            ChangeResult::Done | ChangeResult::Epoch(_) => Vec::new(),
        })
    }

    pub(crate) async fn claim(&self) -> Result<Claimed, Error> {
        self.request(|answer| StoreRequest::Claim { answer }).await
    }

    pub(crate) async fn load(&self, process: &str) -> Result<Journal, Error> {
        self.request(|answer| StoreRequest::Load { process: process.into(), answer }).await
    }

    pub(crate) async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        self.change(CommitChange::Put { kind: kind.into(), key: key.into(), document }).await.map(drop)
    }

    pub(crate) async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        self.request(|answer| StoreRequest::Get { kind: kind.into(), key: key.into(), answer }).await
    }

    pub(crate) async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        self.request(|answer| StoreRequest::Documents { kind: kind.into(), answer }).await
    }

    pub(crate) async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        self.change(CommitChange::Remove { kind: kind.into(), key: key.into() }).await.map(drop)
    }

    pub(crate) async fn backup(&self) -> Result<File, Error> {
        self.request(|answer| StoreRequest::Backup { answer }).await
    }

    /// Ends the committer and waits for its end.
    pub(crate) async fn shut_down(&self) {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(StoreRequest::ShutDown { answer }).await.is_ok() {
            // An error means that the committer has ended already.
            let _ = answered.await;
        }
    }

    async fn change(&self, change: CommitChange) -> Result<ChangeResult, Error> {
        self.request(|answer| StoreRequest::CommitChange { change, answer }).await
    }

    /// The request enters the queue when the caller first polls this future. `unconstrained` ignores the budget of the
    /// task, because a request that had to yield would lose its place in the order.
    async fn request<T>(&self, request: impl FnOnce(CommitReply<T>) -> StoreRequest) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        tokio::task::unconstrained(self.requests.send(request(answer))).await.map_err(|_| Error::ended())?;
        answered.await.map_err(|_| Error::ended())?
    }
}

/// Answers a request. Ignores that the caller may have dropped its future.
pub(crate) fn reply<T>(answer: CommitReply<T>, result: Result<T, Error>) {
    let _ = answer.send(result);
}
