//! Why a node does not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::settings::{InvalidSetting, PasswordFileError};

/// A node did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is not valid.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The password of the database cannot be read.
    #[error(transparent)]
    PasswordFile(#[from] PasswordFileError),
    /// A group manager that is missing from its own list of managers.
    #[error("{address} is not among the managers of the group ({managers}): say --advertise, or correct --join")]
    NotAmongManagers {
        /// The address of this manager.
        address: String,
        /// The list.
        managers: String,
    },
    /// Another program listens on the address.
    #[error(
        "cannot listen on {address}: the address is in use; is another node running there? choose another with {flag}"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
    },
    /// The system refuses the address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The repository cannot be opened.
    #[error(transparent)]
    Repository(#[from] xavantes_repository::Error),
    /// The environment names no home directory for the data directory.
    #[error("there is no home directory to keep data in: say where with --data-dir, or keep nothing with --in-memory")]
    NoHomeDirectory,
    /// The data directory cannot be used.
    #[error("cannot keep data in {}: {cause}; choose another place with --data-dir", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// Another node uses the data directory.
    #[error(
        "the data directory {} is in use by a node that runs: stop that one first, or choose another with --data-dir",
        .0.display()
    )]
    DataDirInUse(PathBuf),
    /// Control groups are required and cannot be used.
    #[error(
        "control groups are required, but cannot be used: {0}; see \"Limits\" in docs/nodes.md, or say --cgroups auto"
    )]
    Cgroups(String),
    /// The description of the services cannot be built.
    #[error("cannot offer reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

impl Error {
    /// Whether the same start may succeed later: the disk is full, or the database does not answer.
    pub(crate) fn may_pass(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Repository(xavantes_repository::Error::Unavailable(_)) => true,
            Self::DataDir { cause, .. } => matches!(cause.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }
}
