//! All processes of a store, one after the other. Results of ended processes may be large, so the store reads few at a time.

use std::vec::IntoIter;

use crate::error::Error;
use crate::repository::{Entry, PageRequest, Store};

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
        let request = PageRequest {
            after: None,
            newest_first: false,
            unfinished: false,
            max_items: BATCH_ITEMS,
            max_bytes: BATCH_BYTES,
        };
        Self::behind(store, request)
    }

    /// The processes of a store that a request describes. Its bounds are those of what is read together.
    pub fn behind(store: &Store, request: PageRequest) -> Self {
        let (max_items, max_bytes) = (request.max_items.min(BATCH_ITEMS), request.max_bytes.min(BATCH_BYTES));
        let request = PageRequest { max_items, max_bytes, ..request };
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
