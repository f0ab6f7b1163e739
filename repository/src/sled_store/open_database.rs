//! The database while it is open. Readers share it with the committer.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::database::Database;
use super::index::RecordIndex;
use crate::error::Error;

/// An open database and its index; cheap to clone.
#[derive(Clone)]
pub(super) struct OpenDatabase {
    /// `None` after the store was closed. Readers hold the lock, so that the committer does not close the database.
    database: Arc<RwLock<Option<Database>>>,
    pub(super) index: Arc<Mutex<RecordIndex>>,
}

impl OpenDatabase {
    pub(super) fn new(database: Database, index: Arc<Mutex<RecordIndex>>) -> Self {
        Self { database: Arc::new(RwLock::new(Some(database))), index }
    }

    /// Runs a read on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database, &Mutex<RecordIndex>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let opened = self.clone();
        blocking(move || match &*opened.database.read() {
            Some(database) => read(database, &opened.index),
            None => Err(Error::ended()),
        })
        .await
    }

    /// Waits for all readers and drops the database.
    pub(super) fn close(&self) {
        *self.database.write() = None;
    }
}

/// Runs work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Broken(error.to_string())))
}
