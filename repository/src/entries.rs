//! All processes of a store, one after the other. Results of ended processes may be large, so the store reads few at a time.

use std::vec::IntoIter;

use crate::error::Error;
use crate::repository::{Entry, Store};

/// Bytes of the processes that are read together.
const BATCH_BYTES: usize = 16 << 20;

/// The processes of a store in the order of ids. A process that is created or removed meanwhile may be left out.
pub struct Entries {
    store: Store,
    batch: IntoIter<Entry>,
    /// The last id that was read.
    last: String,
}

impl Entries {
    /// All processes of a store.
    pub fn of(store: &Store) -> Self {
        Self { store: store.clone(), batch: Vec::new().into_iter(), last: String::new() }
    }

    /// The next process.
    pub async fn next(&mut self) -> Result<Option<Entry>, Error> {
        if let Some(entry) = self.batch.next() {
            return Ok(Some(entry));
        }
        let batch = self.store.list_after(&self.last, BATCH_BYTES).await?;
        if let Some(entry) = batch.last() {
            self.last.clone_from(&entry.process);
        }
        self.batch = batch.into_iter();
        Ok(self.batch.next())
    }
}
