//! Reports that wait for a coordinator's stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};
use xavantes_proto::{Message, v1};

use crate::attempts::action::Report;

/// Backlog above which printing activities and new orders wait.
const MAX_BACKLOG: usize = 1024;
/// Upper bound on the reports in one message.
const MAX_BATCH: usize = 256;
/// Encoded size of the flag that says that this worker drains.
const DRAINING_BYTES: usize = 2;

/// A report on its way to a coordinator.
pub(crate) enum OutgoingReport {
    Hello(v1::WorkerHello),
    Printed(v1::Printed),
    Attempt(Report),
}

impl OutgoingReport {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Hello(hello) => hello.encoded_len(),
            Self::Printed(printed) => printed.encoded_len(),
            Self::Attempt(Report::Answer(answer)) => answer.encoded_len(),
            Self::Attempt(Report::Call(call)) => call.encoded_len(),
            Self::Attempt(Report::Known(known)) => known.encoded_len(),
            Self::Attempt(Report::Draining) => DRAINING_BYTES,
        }
    }

    /// True for reports that need a message of their own, because later reports must not come before them.
    fn is_alone(&self) -> bool {
        matches!(self, Self::Hello(_) | Self::Attempt(Report::Known(_)))
    }
}

/// How many reports wait.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: AtomicUsize,
    closed: AtomicBool,
    shrunk: Notify,
}

impl Backlog {
    /// Returns when the backlog is below its bound, or when the stream has ended.
    pub async fn wait_for_space(&self) {
        loop {
            let shrunk = self.shrunk.notified();
            if self.waiting.load(Ordering::Acquire) < MAX_BACKLOG || self.closed.load(Ordering::Acquire) {
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
        let first = self.batch.first()?;
        let count = if first.is_alone() {
            1
        } else {
            let together = self.batch.iter().take_while(|report| !report.is_alone());
            xavantes_proto::count_fitting(together.map(OutgoingReport::encoded_len))
        };
        Some(message(self.batch.drain(..count)))
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        self.backlog.closed.store(true, Ordering::Release);
        self.backlog.shrunk.notify_waiters();
    }
}

fn message(reports: impl Iterator<Item = OutgoingReport>) -> v1::WorkReport {
    let mut message = v1::WorkReport::default();
    for report in reports {
        match report {
            OutgoingReport::Hello(hello) => message.hello = Some(hello),
            OutgoingReport::Printed(printed) => message.printed.push(printed),
            OutgoingReport::Attempt(Report::Answer(answer)) => message.answers.push(Arc::unwrap_or_clone(answer)),
            OutgoingReport::Attempt(Report::Call(call)) => message.calls.push(Arc::unwrap_or_clone(call)),
            OutgoingReport::Attempt(Report::Known(known)) => message.known = Some(known),
            OutgoingReport::Attempt(Report::Draining) => message.draining = true,
        }
    }
    message
}
