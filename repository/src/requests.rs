//! How calls reach the one place in a store that carries them out, in order.

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::{Claimed, Error, Journal};

/// How many calls may wait in the queue. Whoever makes more waits for a place in it.
const QUEUE: usize = 4096;

/// Where a result is awaited.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// What a store is asked for.
pub(crate) enum Request {
    /// Gives the epoch of a process that begins; otherwise 0.
    Change(Change, Answer<u64>),
    Claim(Answer<Claimed>),
    Load(String, Answer<Journal>),
    /// Kind and key.
    Get(String, String, Answer<Option<Bytes>>),
    Documents(String, Answer<Vec<(String, Bytes)>>),
    ShutDown(oneshot::Sender<()>),
}

/// What is to be made durable.
pub(crate) enum Change {
    /// Process and head.
    Create(String, Bytes),
    /// Process and record.
    Append(String, Bytes),
    /// Process and snapshot.
    Compact(String, Bytes),
    /// Process and summary.
    Close(String, Bytes),
    /// Processes.
    Forget(Vec<String>),
    /// Kind, key and document.
    Put(String, String, Bytes),
    /// Kind and key.
    Remove(String, String),
}

impl Change {
    /// How many bytes it adds, if it adds any: the payload and about what is written besides.
    pub(crate) fn adds(&self) -> Option<u64> {
        match self {
            Self::Create(_, bytes)
            | Self::Append(_, bytes)
            | Self::Compact(_, bytes)
            | Self::Close(_, bytes)
            | Self::Put(_, _, bytes) => Some(bytes.len() as u64 + 128),
            Self::Forget(_) | Self::Remove(..) => None,
        }
    }
}

/// The near end of the queue.
pub(crate) struct Queue(mpsc::Sender<Request>);

impl Queue {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }

    /// The place in the queue is taken when this is polled first. The runtime's budget for a task, for which some calls
    /// would have to come back later, must not disturb the order.
    pub(crate) async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        tokio::task::unconstrained(self.0.send(request(answer))).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// Gives the epoch.
    pub(crate) async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        self.ask(|answer| Request::Change(Change::Create(process.into(), head), answer)).await
    }

    pub(crate) async fn change(&self, change: Change) -> Result<(), Error> {
        self.ask(|answer| Request::Change(change, answer)).await.map(drop)
    }

    pub(crate) async fn shut_down(&self) {
        let (answer, answered) = oneshot::channel();
        if self.0.send(Request::ShutDown(answer)).await.is_ok() {
            // An error says that the store has ended already.
            let _ = answered.await;
        }
    }
}

/// Whoever asked may have gone.
pub(crate) fn send<T>(answer: Answer<T>, result: Result<T, Error>) {
    let _ = answer.send(result);
}

pub(crate) fn ended() -> Error {
    Error::Broken("the repository has been shut down, or has failed before".into())
}
