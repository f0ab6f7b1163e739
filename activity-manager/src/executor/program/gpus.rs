//! Graphics processors of a worker, by number.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// The graphics processors that activities may use.
#[derive(Debug)]
pub(crate) struct Gpus {
    pub count: u32,
    free: Mutex<BTreeSet<u32>>,
}

impl Gpus {
    pub fn new(count: u32) -> Self {
        Self { count, free: Mutex::new((0..count).collect()) }
    }

    /// Reserves processors. Admission guarantees that enough are free.
    pub fn reserve(&self, count: u32) -> ReservedGpus<'_> {
        let mut free = self.free.lock();
        let numbers = (0..count).map_while(|_| free.pop_first()).collect();
        ReservedGpus { gpus: self, numbers }
    }
}

/// The processors of one attempt. They become free when this is dropped.
#[derive(Debug)]
pub(crate) struct ReservedGpus<'a> {
    gpus: &'a Gpus,
    pub numbers: Vec<u32>,
}

impl Drop for ReservedGpus<'_> {
    fn drop(&mut self) {
        self.gpus.free.lock().extend(self.numbers.drain(..));
    }
}
