//! What a node keeps: journals of processes, and documents.
//!
//! A process is created with a head, which never changes; facts are appended to its journal; a snapshot replaces all
//! that was appended before it; a summary closes it and replaces everything but the head. Documents are small things
//! under a kind and a key. To the repository all of them are bytes.
//!
//! Whatever returns `Ok` is durable: it survives `kill -9` and the loss of power. Calls for one process are carried out
//! in the order in which they were first polled, even if the first has not been answered before the second is made. A
//! call that is dropped may be carried out all the same. Many calls of many processes share one write to the disk.
//!
//! Ids of processes, kinds and keys are any text without the character NUL of at most [`MAX_NAME`] bytes.

mod embedded;
mod frame;
mod memory;
mod requests;
mod shared;
#[cfg(feature = "testing")]
pub mod testing;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

/// Journals and documents; the same for every store.
#[async_trait]
pub trait Repository: Send + Sync + 'static {
    /// The name of what is kept here, given once and for all when it was made: ids of processes are unique in it, and
    /// whoever opens it again, or shares it, is to others the same.
    fn realm(&self) -> &str;

    /// Begins a process, which is this node's from now on; gives its epoch. [`Error::Exists`] if the id is taken, also by
    /// one that ended.
    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error>;

    /// Adds a record to a journal.
    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error>;

    /// Replaces all records of a journal by one that says the same.
    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error>;

    /// Ends a process: of it are kept the head and this.
    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error>;

    /// Makes processes this node's that were its own before it died, or whose node is silent for too long. One that cannot
    /// be read is among them too, and stays as it is.
    async fn claim(&self) -> Result<Claimed, Error>;

    /// All that is known of a process of this node.
    async fn load(&self, process: &str) -> Result<Journal, Error>;

    /// Everything that is kept, whosever it is: running and ended, in the order of ids. Heads and summaries only. One
    /// whose head cannot be read is in it with an empty one.
    async fn list(&self) -> Result<Vec<Entry>, Error>;

    /// One of [`list`](Self::list); but one that cannot be read is [`Error::Damaged`].
    async fn find(&self, process: &str) -> Result<Option<Entry>, Error>;

    /// Removes ended and damaged processes for good; those that run, or are not there, are left alone.
    async fn forget(&self, processes: &[String]) -> Result<(), Error>;

    /// Keeps a document, instead of one that was kept before under this kind and key.
    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error>;

    /// One document, if it is there and can be read.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error>;

    /// The documents of a kind, with their keys, in the order of keys.
    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error>;

    /// Removes a document, if it is there.
    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error>;

    /// Gives back what it holds: leases end at once, files are closed. Every later call fails.
    async fn shut_down(&self);
}

/// Any store.
pub type Store = Arc<dyn Repository>;

/// What has changed hands since the last time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimed {
    /// What this node has now and did not have before, in the order of ids.
    pub gained: Vec<String>,
    /// What it had, and another one has now, or has brought to its end.
    pub lost: Vec<String>,
}

/// A process of this node, as it is to be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Larger whenever the process has changed hands, and than that of any former process of the same id. The same for
    /// all where nothing ever changes hands.
    pub epoch: u64,
    /// As created.
    pub head: Bytes,
    /// The last one.
    pub snapshot: Option<Bytes>,
    /// What was appended since, in order.
    pub records: Vec<Bytes>,
}

/// A process, as anybody may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub process: String,
    /// As created.
    pub head: Bytes,
    /// If it has ended.
    pub summary: Option<Bytes>,
    /// The node that has it, or had it last.
    pub owner: String,
    /// How many bytes it takes.
    pub size: u64,
}

/// Why something was not kept, or not found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The id is taken.
    #[error("there is a process {0:?} already")]
    Exists(String),
    /// It is too long for an id, a kind or a key, or has NUL in it. Nothing of this call was kept.
    #[error("{0:?} cannot be a name in the repository: names have at most {MAX_NAME} bytes, and none is NUL")]
    Name(String),
    /// There is no such process, or it has ended.
    #[error("there is no running process {0:?} in the repository")]
    Unknown(String),
    /// Another node has it now.
    #[error("process {0:?} belongs to another node now")]
    NotOwned(String),
    /// What was read is not what was written. Only this process is concerned.
    #[error("process {process:?} is damaged: {file}, record {record}: {problem}")]
    Damaged {
        /// Whose.
        process: String,
        /// Where.
        file: String,
        /// Which.
        record: u64,
        /// What is wrong, and what can be done.
        problem: String,
    },
    /// There is no room on the disk, or the database does not answer. Nothing of this call was kept; it can be made
    /// again later.
    #[error("the repository is not available: {0}")]
    Unavailable(String),
    /// It cannot be opened, or does not work any more.
    #[error("{0}")]
    Broken(String),
}

/// A store that ends with the program.
pub fn in_memory() -> Store {
    Arc::new(memory::Memory::new())
}

/// The store in a folder of this machine, made if it is not there. One program at a time can have it open.
pub async fn embedded(folder: &std::path::Path, node: &str) -> Result<Store, Error> {
    Ok(Arc::new(embedded::Embedded::open(folder, node).await?))
}

/// The store in a PostgreSQL database, which several nodes share. Its tables must have been made by [`migrate`].
pub async fn shared(url: &str, node: &str) -> Result<Store, Error> {
    Ok(Arc::new(shared::Shared::open(url, node).await?))
}

/// Makes the tables of a shared store, or brings them up to date; tells what it did, a line for each step.
pub async fn migrate(url: &str) -> Result<Vec<String>, Error> {
    shared::migrate(url).await
}

/// The epoch of processes that never change hands.
const EPOCH: u64 = 1;

/// The longest id, kind or key, in bytes.
pub const MAX_NAME: usize = 1024;

/// Every store can hold what passes this.
fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > MAX_NAME || name.contains('\0') { Err(Error::Name(name.into())) } else { Ok(()) }
}

/// A new name of 128 random bits, in hexadecimal digits.
fn random_name() -> String {
    let mut bits = [0; 16];
    // The system gives random bytes on every platform that Rust's own hash maps run on.
    getrandom::fill(&mut bits).expect("the system has random numbers");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}
