//! Durable storage of a node: journals of processes, and documents.
//!
//! | module | is about |
//! |---|---|
//! | `repository` | the trait [`Repository`] that all stores implement, and its types |
//! | `entries` | all processes of a store, a few at a time |
//! | `error` | [`Error`], the same for all stores |
//! | `names` | valid ids, kinds and keys; random names |
//! | `committer_handle` | requests to the committer of a store |
//! | `sled_store` | the store in a directory of this machine |
//! | `postgres` | the store in a PostgreSQL database that several nodes share |
//! | `memory` | the store that ends with the program |
//! | `testing` | a PostgreSQL server for tests (feature `testing`) |

mod committer_handle;
mod entries;
mod error;
mod memory;
mod names;
mod places;
mod postgres;
mod repository;
mod sled_store;
#[cfg(feature = "testing")]
pub mod testing;

use std::path::Path;
use std::sync::Arc;

pub use entries::Entries;
pub use error::Error;
pub use names::MAX_NAME;
pub use repository::{Claimed, Entry, Journal, OwnerLease, PageRequest, Place, Repository, Store};
pub use sled_store::{BackupContent, Inspection, fuzzing};

/// Opens a store that ends with the program.
pub fn in_memory() -> Store {
    Arc::new(memory::MemoryStore::new())
}

/// Opens the store in a directory of this machine and creates the directory if necessary. One program at a time can
/// have it open.
pub async fn open_sled(directory: &Path, node: &str) -> Result<Store, Error> {
    Ok(Arc::new(sled_store::SledStore::open(directory, node).await?))
}

/// Finds out what is damaged in the store of a directory that no node uses. Changes nothing.
pub async fn check_sled(directory: &Path) -> Result<Inspection, Error> {
    sled_store::check(directory).await
}

/// Saves what can be read of the store in a directory that no node uses, as opening it does.
pub async fn repair_sled(directory: &Path) -> Result<Inspection, Error> {
    sled_store::repair(directory).await
}

/// Makes a store of a backup in a directory that does not exist yet.
pub async fn restore_sled(backup: &Path, directory: &Path) -> Result<BackupContent, Error> {
    sled_store::restore(backup, directory).await
}

/// Opens the store in a PostgreSQL database that several nodes share. [`migrate`] creates its tables.
pub async fn open_postgres(url: &str, node: &str) -> Result<Store, Error> {
    Ok(Arc::new(postgres::PostgresStore::open(url, node).await?))
}

/// Creates the tables of a PostgreSQL store or brings them up to date. Returns one line for each migration that it
/// applied.
pub async fn migrate(url: &str) -> Result<Vec<String>, Error> {
    postgres::migrate(url).await
}
