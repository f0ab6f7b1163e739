//! Attempts that wait at workers, and free slots, with the times since when.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_activity_manager::attempts::realm_attempt::RealmAttempt;

/// Attempts that wait, and slots that are free.
#[derive(Debug, Default)]
pub struct FreeSlots {
    /// Since when each attempt has waited at a worker, for the coordinator that it belongs to.
    pub waiting: BTreeMap<(usize, RealmAttempt, Arc<str>), u64>,
    /// Since when each worker has had a free slot.
    pub free: BTreeMap<usize, u64>,
}

impl FreeSlots {
    /// An activity begins at a worker.
    pub fn on_begin(&mut self, w: usize) {
        self.free.remove(&w);
    }
}
