//! Reports that wait for a coordinator's stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};
use xavantes_proto::{Message, v1};

use crate::books;

/// When so many wait, what could do without adding another waits too.
const MANY: usize = 1024;
/// Reports in one message at most.
const BATCH: usize = 256;

/// Something to send.
pub(crate) enum Report {
    Hello(v1::WorkerHello),
    Printed(v1::Printed),
    Other(books::Report),
}

impl Report {
    /// How much room it takes in a message.
    fn size(&self) -> usize {
        match self {
            Self::Hello(hello) => hello.encoded_len(),
            Self::Printed(printed) => printed.encoded_len(),
            Self::Other(books::Report::Answer(answer)) => answer.encoded_len(),
            Self::Other(books::Report::Call(call)) => call.encoded_len(),
            Self::Other(books::Report::Known(known)) => known.encoded_len(),
            Self::Other(books::Report::Draining) => 2,
        }
    }

    /// It has a message of its own: others must not get before it.
    fn alone(&self) -> bool {
        matches!(self, Self::Hello(_) | Self::Other(books::Report::Known(_)))
    }
}

/// How many reports wait.
#[derive(Default)]
pub(crate) struct Level {
    waiting: AtomicUsize,
    closed: AtomicBool,
    sunk: Notify,
}

impl Level {
    /// Returns when few reports wait, or nobody takes them any more.
    pub async fn room(&self) {
        loop {
            let sunk = self.sunk.notified();
            if self.waiting.load(Ordering::Acquire) < MANY || self.closed.load(Ordering::Acquire) {
                return;
            }
            sunk.await;
        }
    }
}

/// Takes reports at once, in their order. Answers and calls in it are bounded by attempts; whoever adds anything else
/// waits for room first.
#[derive(Clone)]
pub(crate) struct Outbox {
    reports: mpsc::UnboundedSender<Report>,
    pub level: Arc<Level>,
}

impl Outbox {
    pub fn push(&self, report: Report) {
        self.level.waiting.fetch_add(1, Ordering::AcqRel);
        // If the stream is no more, the next one is told what it must know.
        let _ = self.reports.send(report);
    }
}

/// The other end. There is nothing more in it when all outboxes are gone and it is empty.
pub(crate) struct Outgoing {
    reports: mpsc::UnboundedReceiver<Report>,
    pub level: Arc<Level>,
    batch: Vec<Report>,
}

/// An outbox and its other end.
pub(crate) fn outbox() -> (Outbox, Outgoing) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let level = Arc::<Level>::default();
    (Outbox { reports: sender, level: level.clone() }, Outgoing { reports: receiver, level, batch: Vec::new() })
}

impl Outgoing {
    /// The next message; nothing when there will be none. Nothing is lost if it is not waited for to the end.
    pub async fn next(&mut self) -> Option<v1::WorkReport> {
        if self.batch.is_empty() {
            let count = self.reports.recv_many(&mut self.batch, BATCH).await;
            self.level.waiting.fetch_sub(count, Ordering::AcqRel);
            self.level.sunk.notify_waiters();
        }
        let first = self.batch.first()?;
        let count = if first.alone() {
            1
        } else {
            let together = self.batch.iter().take_while(|report| !report.alone());
            xavantes_proto::count_fitting(together.map(Report::size))
        };
        Some(message(self.batch.drain(..count)))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.level.closed.store(true, Ordering::Release);
        self.level.sunk.notify_waiters();
    }
}

fn message(reports: impl Iterator<Item = Report>) -> v1::WorkReport {
    let mut message = v1::WorkReport::default();
    for report in reports {
        match report {
            Report::Hello(hello) => message.hello = Some(hello),
            Report::Printed(printed) => message.printed.push(printed),
            Report::Other(books::Report::Answer(answer)) => message.answers.push(Arc::unwrap_or_clone(answer)),
            Report::Other(books::Report::Call(call)) => message.calls.push(Arc::unwrap_or_clone(call)),
            Report::Other(books::Report::Known(known)) => message.known = Some(known),
            Report::Other(books::Report::Draining) => message.draining = true,
        }
    }
    message
}
