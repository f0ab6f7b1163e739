//! Files and directories of processes: kept by what is in them, moved from node to node, laid into working directories and
//! taken out of them.
//!
//! | file | is about |
//! |---|---|
//! | `path` | which paths may be used: those that stay where they are; pure |
//! | `manifest` | directories as lists of what is in them; pure |
//! | `index` | how much is kept, what goes first, what must stay; pure |
//! | `store` | objects on disk |
//! | `layout` | where the files of a value are laid; pure |
//! | `take`, `lay` | out of a directory into the store, and back |
//! | `service` | gives objects to other nodes, and takes them from users |
//! | `fetch` | gets them from other nodes |
//! | `sources` | data outside the grid, registered by administrators |
//! | `send` | brings them to a node |

mod counters;
mod fetch;
mod index;
mod lay;
mod layout;
mod manifest;
mod path;
mod send;
mod service;
mod sources;
mod store;
mod take;

pub use counters::Counted;
pub use fetch::{Fetcher, Wanted};
pub use index::Index;
pub use lay::{Laid, Laying};
pub use layout::{Piece, Place, last_name, lay_out};
pub use manifest::{Entry, EntryKind, Manifest};
pub use path::check_path;
pub use send::{Local, Sender};
pub use service::Service;
pub use sources::Sources;
pub use store::{Hold, Receiving, Reception, Store};
pub use take::{Taken, Workplace, digest_of};

use xavantes_model::digest::Digest;

/// Chunks of files are so large: large enough that their number does not matter, small enough that some of them for each
/// transfer do not either.
pub const CHUNK: usize = 256 << 10;

/// What can go wrong with files.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A path cannot be used.
    #[error("{path:?} {why}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A directory that cannot be kept or laid.
    #[error("{0}")]
    Directory(String),
    /// Too much is in use.
    #[error("the file store has no room for {wanted} bytes: of {limit} bytes {used} are in use or needed by processes")]
    Full {
        /// For so many bytes there is no room.
        wanted: u64,
        /// How much it may keep.
        limit: u64,
        /// How much of it cannot be removed.
        used: u64,
    },
    /// The bytes are not those that were asked for.
    #[error("{0} is damaged: its bytes have another digest")]
    Damaged(Digest),
    /// It is not here.
    #[error("{0} is not here")]
    Missing(Digest),
    /// Somebody else brings it at this moment.
    #[error("{0} is being brought by somebody else")]
    Busy(Digest),
    /// Nobody gives it.
    #[error("{} cannot be had from any node: {why}", digest.short())]
    Gone {
        /// What is gone.
        digest: Digest,
        /// Who was asked, and what was answered.
        why: String,
    },
    /// The operating system says no.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it did not succeed.
        cause: String,
    },
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        |cause| Self::Io { what: what.into(), cause: cause.to_string() }
    }

    fn path(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Path { path: path.into(), why: why.into() }
    }
}
