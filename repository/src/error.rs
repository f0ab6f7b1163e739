//! The errors of all stores.

use crate::names::MAX_NAME;

/// Why a store did not carry out a call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The process id is in use.
    #[error("there is a process {0:?} already")]
    Exists(String),
    /// An id, kind or key is too long or contains NUL. The store did not change anything.
    #[error("{0:?} cannot be a name in the repository: names have at most {MAX_NAME} bytes, and none is NUL")]
    Name(String),
    /// No running process has this id.
    #[error("there is no running process {0:?} in the repository")]
    Unknown(String),
    /// Another node owns the process now.
    #[error("process {0:?} belongs to another node now")]
    NotOwned(String),
    /// Stored bytes differ from the bytes that the store wrote. Other processes are not affected.
    #[error("process {process:?} is damaged: {file}, record {record}: {problem}")]
    Damaged {
        /// Damaged process.
        process: String,
        /// File or table of the damaged record.
        file: String,
        /// Number of the damaged record.
        record: u64,
        /// What is wrong with the record, and how to repair it.
        problem: String,
    },
    /// The disk is full or the database does not answer. The store did not change anything; the caller can repeat the
    /// call later.
    #[error("the repository is not available: {0}")]
    Unavailable(String),
    /// The content of the store as a whole cannot be read. The next opening saves what can be read.
    #[error("{0}")]
    Corrupt(String),
    /// The store has no backups of its own.
    #[error("this repository has no backups of its own: use the tools of its database, for example pg_dump")]
    NoBackup,
    /// The store cannot be opened, or failed permanently.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    /// The error of every call after the end of a store.
    pub(crate) fn ended() -> Self {
        Self::Broken("the repository has been shut down, or has failed before".into())
    }
}

/// Refuses names that a store cannot hold.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > MAX_NAME || name.contains('\0') { Err(Error::Name(name.into())) } else { Ok(()) }
}
