//! The trait that all stores implement, and the types in its methods.
//!
//! [`create`](Repository::create) starts a process with a head, which never changes. Records are appended to the journal
//! of the process. A snapshot replaces all records before it. A summary closes the process and replaces everything but
//! the head. A closed process can be reopened with a snapshot. A document is a small value under a kind and a key. The repository treats all of them as bytes.
//!
//! A change for which the store returned `Ok` is durable: it survives `kill -9` and the loss of power. The store carries
//! out the calls for one process in the order in which the caller first polled them, even if the caller does not await
//! one before it makes the next. A store may still carry out a call whose future was dropped. Calls for many processes
//! share one write to the disk.
//!
//! Process ids, kinds and keys are texts of at most [`MAX_NAME`](crate::MAX_NAME) bytes without the character NUL.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, check_name};

/// Epoch of all processes in a store whose processes never change their owner.
pub(crate) const FIXED_EPOCH: u64 = 1;

/// Journals and documents.
#[async_trait]
pub trait Repository: Send + Sync + 'static {
    /// Name of the stored data. The store chooses it once, when it creates the data. Process ids are unique within a
    /// realm. All nodes that open the same data have the same realm.
    fn realm(&self) -> &str;

    /// Starts a process that this node owns and returns its epoch. [`Error::Exists`] if the id belongs to a running or
    /// ended process.
    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error>;

    /// Adds a record to the journal of a process.
    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error>;

    /// Replaces all records of a journal by a snapshot.
    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error>;

    /// Ends a process, also a damaged one. The head, if it can be read, and the summary stay; the journal goes.
    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error>;

    /// Ends a process as [`close`](Self::close) does. The same change stores a document of this kind under the id of the
    /// process, or removes it if `document` is `None`. Neither happens without the other.
    async fn close_with(&self, process: &str, summary: Bytes, kind: &str, document: Option<Bytes>)
    -> Result<(), Error>;

    /// Makes a process that ended with this summary a running one that this node owns, with this snapshot as its journal.
    /// Returns its epoch. [`Error::Unknown`] if there is no such process, if it has not ended, or if it ended with another
    /// summary: it ran again since the caller read the summary.
    async fn reopen(&self, process: &str, summary: &Bytes, snapshot: Bytes) -> Result<u64, Error>;

    /// Makes this node the owner of the running processes that it owned before it restarted, and of those whose owner
    /// let its lease expire. Includes processes that cannot be read; their data stays as it is.
    async fn claim(&self) -> Result<Claimed, Error>;

    /// Reads the journal of a process that this node owns.
    async fn load(&self, process: &str) -> Result<Journal, Error>;

    /// Lists all processes of all nodes, running and ended, in the order of ids. A process whose head cannot be read
    /// has an empty head here.
    async fn list(&self) -> Result<Vec<Entry>, Error>;

    /// Lists some processes in the order of their creation, at the cost of those that it lists.
    async fn page(&self, request: &PageRequest) -> Result<Vec<Entry>, Error>;

    /// Ids that begin with a text and have no slash, in their order; at most so many. Includes processes that cannot be read.
    async fn ids(&self, prefix: &str, max_items: usize) -> Result<Vec<String>, Error>;

    /// Finds one process of [`list`](Self::list). [`Error::Damaged`] if it cannot be read.
    async fn find(&self, process: &str) -> Result<Option<Entry>, Error>;

    /// The lease under which its owner holds a process. `None` if the process is unknown, or the owner holds no lease:
    /// it shut down, or this store has no leases because its processes never change their owner.
    async fn lease(&self, _process: &str) -> Result<Option<OwnerLease>, Error> {
        Ok(None)
    }

    /// Removes ended and damaged processes permanently. Ignores unknown ones. Gives the others: they run, and stay.
    async fn forget(&self, processes: &[String]) -> Result<Vec<String>, Error>;

    /// Stores a document. Replaces an earlier document with the same kind and key.
    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error>;

    /// Reads one document. `None` if it does not exist or cannot be read.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error>;

    /// Reads the documents of a kind with their keys, in the order of keys.
    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error>;

    /// Removes a document if it exists.
    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error>;

    /// Writes a backup of one moment to a file without a name, from its beginning on. [`Error::NoBackup`] if the store has
    /// no backups of its own.
    async fn backup(&self) -> Result<File, Error> {
        Err(Error::NoBackup)
    }

    /// Ends all leases of this node and closes all files. Every later call fails.
    async fn shut_down(&self);
}

/// Any store.
pub type Store = Arc<dyn Repository>;

/// Changes of ownership since the last claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Processes that this node owns now and did not own before, in the order of ids.
    pub gained: Vec<String>,
    /// Processes that this node owned, and that another node owns now or has ended.
    pub lost: Vec<String>,
}

/// The data from which a node continues a process that it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Grows whenever the owner changes. Larger than the epoch of any earlier process with the same id. Constant in
    /// stores where the owner never changes.
    pub epoch: u64,
    /// Head from the creation of the process.
    pub head: Bytes,
    /// Last snapshot.
    pub snapshot: Option<Bytes>,
    /// Records since the last snapshot, in order.
    pub records: Vec<Bytes>,
}

/// The lease of a node that owns processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerLease {
    /// Time since the node last renewed it.
    pub renewed: Duration,
    /// Other nodes may claim the processes.
    pub expired: bool,
}

/// Which processes a page has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The page begins behind this place; `None`: with the first process.
    pub after: Option<Place>,
    /// The order: the latest creation first.
    pub newest_first: bool,
    /// Only processes that have not ended, and those whose end cannot be read.
    pub unfinished: bool,
    /// Upper bound on the processes.
    pub max_items: usize,
    /// The page ends when the heads and summaries of its processes have so many bytes together. It has at least one
    /// process, if there is one.
    pub max_bytes: usize,
}

/// Where a process stands in the order of creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Grows with each process that the store creates. Processes from the time before a store numbered them have the same.
    pub number: u64,
    /// Id of the process.
    pub process: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.process)
    }
}

impl Place {
    /// The place that a text names, if [`Display`](fmt::Display) could have written the text.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, process) = text.split_once('/')?;
        check_name(process).ok()?;
        Some(Self { number: number.parse().ok()?, process: process.to_owned() })
    }
}

/// A process as every node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Id of the process.
    pub process: String,
    /// Head from the creation of the process.
    pub head: Bytes,
    /// Summary, if the process has ended.
    pub summary: Option<Bytes>,
    /// Node that owns the process, or owned it last.
    pub owner: String,
    /// Bytes that the process takes in the store.
    pub size: u64,
    /// Epoch of the process. See [`Journal::epoch`].
    pub epoch: u64,
    /// Number of the process in the order of creation. See [`Place`].
    pub number: u64,
}

impl Entry {
    /// Where the process stands in the order of creation.
    pub fn place(&self) -> Place {
        Place { number: self.number, process: self.process.clone() }
    }

    /// Bytes of the head and the summary.
    pub(crate) fn bytes(&self) -> usize {
        self.head.len() + self.summary.as_ref().map_or(0, Bytes::len)
    }
}
