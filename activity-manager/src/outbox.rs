//! Reports that wait for a coordinator's stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};
use xavantes_proto::v1;

use crate::report_batch::{OutgoingReport, next_report_message};

/// Backlog above which new orders wait.
const MAX_BACKLOG: usize = 1024;
/// Backlog above which printing activities wait. It is lower, so that they do not delay the orders of others.
const MAX_PRINTING_BACKLOG: usize = 256;
/// Upper bound on the reports in one message.
const MAX_BATCH: usize = 256;

/// How many reports wait.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: AtomicUsize,
    closed: AtomicBool,
    shrunk: Notify,
}

impl Backlog {
    /// Returns when the backlog leaves space for the answers to new orders, or when the stream has ended.
    pub async fn wait_for_space(&self) {
        self.wait_below(MAX_BACKLOG).await;
    }

    /// Returns when the backlog leaves space for a printed line, or when the stream has ended.
    pub async fn wait_for_space_to_print(&self) {
        self.wait_below(MAX_PRINTING_BACKLOG).await;
    }

    async fn wait_below(&self, bound: usize) {
        loop {
            let shrunk = self.shrunk.notified();
            if self.waiting.load(Ordering::Acquire) < bound || self.closed.load(Ordering::Acquire) {
                return;
            }
            shrunk.await;
        }
    }
}

/// The sending end. The number of attempts bounds answers and calls in it; senders of other reports wait for space first.
#[derive(Clone)]
pub(crate) struct Outbox {
    reports: mpsc::UnboundedSender<OutgoingReport>,
    pub backlog: Arc<Backlog>,
}

impl Outbox {
    pub fn push(&self, report: OutgoingReport) {
        self.backlog.waiting.fetch_add(1, Ordering::AcqRel);
        // If the stream has ended, the hello of the next stream covers what is lost here.
        let _ = self.reports.send(report);
    }

    /// Adds a report that the next one of its kind replaces, unless the coordinator does not read what it gets.
    pub fn push_if_read(&self, report: OutgoingReport) {
        if self.backlog.waiting.load(Ordering::Acquire) < MAX_BACKLOG {
            self.push(report);
        }
    }
}

/// The receiving end. It ends when all outboxes are dropped and no report is left.
pub(crate) struct OutboxReceiver {
    reports: mpsc::UnboundedReceiver<OutgoingReport>,
    pub backlog: Arc<Backlog>,
    batch: Vec<OutgoingReport>,
}

/// An outbox and its receiver.
pub(crate) fn outbox() -> (Outbox, OutboxReceiver) {
    let (sender, reports) = mpsc::unbounded_channel();
    let backlog = Arc::<Backlog>::default();
    (Outbox { reports: sender, backlog: backlog.clone() }, OutboxReceiver { reports, backlog, batch: Vec::new() })
}

impl OutboxReceiver {
    /// The next message, or `None` at the end. Cancel safe: a dropped future loses no report.
    pub async fn next(&mut self) -> Option<v1::WorkReport> {
        if self.batch.is_empty() {
            let count = self.reports.recv_many(&mut self.batch, MAX_BATCH).await;
            self.backlog.waiting.fetch_sub(count, Ordering::AcqRel);
            self.backlog.shrunk.notify_waiters();
        }
        next_report_message(&mut self.batch)
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        self.backlog.closed.store(true, Ordering::Release);
        self.backlog.shrunk.notify_waiters();
    }
}
