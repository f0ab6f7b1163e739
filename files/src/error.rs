//! The error of this crate.

use xavantes_model::digest::Digest;
use xavantes_proto::v1;

/// What can go wrong with files.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A path cannot be used.
    #[error("{path:?} {why}")]
    Path {
        /// The path.
        path: String,
        /// The problem, as the predicate of a sentence about the path.
        why: String,
    },
    /// A directory or data source cannot be used.
    #[error("{0}")]
    Directory(String),
    /// The store has no space left that it may free.
    #[error("the file store has no room for {wanted} bytes: of {limit} bytes {used} are in use or needed by processes")]
    Full {
        /// Size of the object to store.
        wanted: u64,
        /// Size limit of the store.
        limit: u64,
        /// Bytes of the store that cannot be evicted.
        used: u64,
    },
    /// The received bytes do not have the requested digest.
    #[error("{0} is damaged: its bytes have another digest")]
    Damaged(Digest),
    /// The store does not have the object.
    #[error("{0} is not here")]
    Missing(Digest),
    /// Another transfer receives the object at this moment.
    #[error("another transfer is receiving {0}")]
    Busy(Digest),
    /// No node delivers the object.
    #[error("{failure}")]
    Gone {
        /// The object.
        digest: Digest,
        /// The nodes that were asked, and why each did not deliver.
        failure: v1::FetchFailure,
    },
    /// The operating system refused an operation.
    #[error("{what}: {cause}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the operating system.
        cause: String,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        |cause| Self::Io { what: what.into(), cause: cause.to_string() }
    }

    pub(crate) fn path(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Path { path: path.into(), why: why.into() }
    }

    /// A blocking task was cancelled, because its runtime shuts down.
    pub(crate) fn shutting_down(what: impl Into<String>) -> Self {
        Self::Io { what: what.into(), cause: "the node is shutting down".into() }
    }
}
