//! The database while it is open. Readers share it with the committer.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::database::Database;
use super::record_index::RecordIndex;
use crate::error::Error;

/// An open database and its index; cheap to clone.
#[derive(Clone)]
pub(super) struct OpenDatabase {
    /// While the store is closed: why. Readers hold the lock, so that the committer does not close the database.
    database: Arc<RwLock<Result<Database, Error>>>,
    pub(super) index: Arc<Mutex<RecordIndex>>,
}

impl OpenDatabase {
    pub(super) fn new(database: Database, index: Arc<Mutex<RecordIndex>>) -> Self {
        Self { database: Arc::new(RwLock::new(Ok(database))), index }
    }

    /// Runs a read on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database, &Mutex<RecordIndex>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let opened = self.clone();
        blocking(move || match &*opened.database.read() {
            Ok(database) => read(database, &opened.index),
            Err(error) => Err(error.clone()),
        })
        .await
    }

    /// Waits for all readers and drops the database. Later readers get the error.
    pub(super) fn close(&self, error: Error) {
        *self.database.write() = Err(error);
    }

    /// Readers use this database from now on.
    pub(super) fn open(&self, database: Database) {
        *self.database.write() = Ok(database);
    }
}

/// Runs work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Broken(error.to_string())))
}
