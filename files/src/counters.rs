//! What moved, for tests and for those who watch a node.

use std::sync::atomic::{AtomicU64, Ordering};

/// What moved since the node started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that came from other nodes and users.
    pub bytes_in: u64,
    /// Objects of which the last byte came.
    pub objects_in: u64,
    /// Bytes that went to others.
    pub bytes_out: u64,
    /// Objects of which the last byte went.
    pub objects_out: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes_in: AtomicU64,
    objects_in: AtomicU64,
    bytes_out: AtomicU64,
    objects_out: AtomicU64,
}

impl Counters {
    pub fn came(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn arrived(&self) {
        self.objects_in.fetch_add(1, Ordering::Relaxed);
    }

    pub fn went(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn delivered(&self) {
        self.objects_out.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> Counted {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            bytes_in: read(&self.bytes_in),
            objects_in: read(&self.objects_in),
            bytes_out: read(&self.bytes_out),
            objects_out: read(&self.objects_out),
        }
    }
}
