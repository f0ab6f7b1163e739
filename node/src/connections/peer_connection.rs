//! What a node knows of a connection: its peer, and whether it has calls.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;

use parking_lot::Mutex;

/// What a node knows of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) number: u64,
    pub(super) address: IpAddr,
    calls: AtomicUsize,
    last_used: Mutex<Instant>,
    closed: AtomicBool,
    /// Wakes the task that reads from the connection.
    reader: Mutex<Option<Waker>>,
}

impl Connection {
    pub(super) fn new(number: u64, address: IpAddr, now: Instant) -> Self {
        Self {
            number,
            address,
            calls: AtomicUsize::new(0),
            last_used: Mutex::new(now),
            closed: AtomicBool::new(false),
            reader: Mutex::new(None),
        }
    }

    /// Since when the connection has had no call; `None` while it has one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.calls.load(Ordering::Acquire) == 0).then(|| *self.last_used.lock())
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if let Some(reader) = self.reader.lock().take() {
            reader.wake();
        }
    }

    /// Wakes this task when the connection is closed.
    pub(super) fn set_reader(&self, waker: &Waker) {
        *self.reader.lock() = Some(waker.clone());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A call begins. It ends when the returned value is dropped.
    pub(super) fn begin_call(self: &Arc<Self>) -> OpenCall {
        self.calls.fetch_add(1, Ordering::AcqRel);
        OpenCall(self.clone())
    }
}

/// A call of a connection.
#[derive(Debug)]
pub(super) struct OpenCall(Arc<Connection>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        *self.0.last_used.lock() = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}
