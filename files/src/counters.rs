//! Counters of transferred bytes and objects, for tests and for monitoring a node.

use std::sync::atomic::{AtomicU64, Ordering};

/// Transfers since the node started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferCounts {
    /// Bytes received from other nodes and users.
    pub bytes_in: u64,
    /// Objects received completely.
    pub objects_in: u64,
    /// Bytes sent to other nodes and users.
    pub bytes_out: u64,
    /// Objects sent completely.
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
    pub fn add_bytes_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn add_object_in(&self) {
        self.objects_in.fetch_add(1, Ordering::Relaxed);
    }

    pub fn add_bytes_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn add_object_out(&self) {
        self.objects_out.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> TransferCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransferCounts {
            bytes_in: read(&self.bytes_in),
            objects_in: read(&self.objects_in),
            bytes_out: read(&self.bytes_out),
            objects_out: read(&self.objects_out),
        }
    }
}
