//! All processes of a store, one after the other. Results of ended processes may be large, so the store reads few at a time.

use std::vec::IntoIter;

use crate::error::Error;
use crate::repository::{Entry, PageRequest, Place, Store};

/// Bytes of the processes that are read together.
const BATCH_BYTES: usize = 16 << 20;
/// Upper bound on the processes that are read together.
const BATCH_ITEMS: usize = 10_000;

/// The processes of a store in the order of their creation. A process that is removed meanwhile may be left out.
pub struct Entries {
    store: Store,
    batch: IntoIter<Entry>,
    /// What is read next.
    request: PageRequest,
}

impl Entries {
    /// All processes of a store.
    pub fn of(store: &Store) -> Self {
        Self::page(store, None, false, BATCH_ITEMS)
    }

    /// The processes of a store behind a place, read at most `batch_items` at a time.
    pub fn page(store: &Store, after: Option<Place>, newest_first: bool, batch_items: usize) -> Self {
        let request =
            PageRequest { after, newest_first, max_items: batch_items.min(BATCH_ITEMS), max_bytes: BATCH_BYTES };
        Self { store: store.clone(), batch: Vec::new().into_iter(), request }
    }

    /// The next process.
    pub async fn next(&mut self) -> Result<Option<Entry>, Error> {
        if let Some(entry) = self.batch.next() {
            return Ok(Some(entry));
        }
        let batch = self.store.page(&self.request).await?;
        if let Some(entry) = batch.last() {
            self.request.after = Some(entry.place());
        }
        self.batch = batch.into_iter();
        Ok(self.batch.next())
    }
}
