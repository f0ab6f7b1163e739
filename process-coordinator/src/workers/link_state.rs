//! What the reader and the writer of a stream to a peer share, and the check of what the peer sends.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Status;
use xavantes_proto::message_limits::{MAX_QUEUE, MAX_SLOTS, check_worker_hello, shorten};
use xavantes_proto::v1;
use xavantes_proto::v1::refusal_reason;

use crate::workers::worker_messages::Order;

/// Upper bound on the replies and acknowledgements that wait for a peer: more than a worker can have attempts. Until it has
/// read some of them, its reports wait.
const MAX_UNREAD: usize = 4 * (MAX_SLOTS + MAX_QUEUE) as usize;
/// A peer that does not read its orders for this long is disconnected.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Upper bound on a printed line; workers send no longer ones.
const MAX_PRINTED_LINE_BYTES: usize = 64 << 10;
/// Upper bound on the processes for which a worker says that it keeps files.
const MAX_KEEPS: usize = 100_000;

/// Checks a report. Only the first one introduces the peer.
pub(super) fn check_report(report: &mut v1::WorkReport, first: bool) -> Result<(), Status> {
    match &mut report.hello {
        Some(_) if !first => return Err(Status::invalid_argument("a peer introduces itself twice")),
        Some(hello) => {
            check_worker_hello(hello)?;
            hello.keeps.truncate(MAX_KEEPS);
        }
        None => {}
    }
    for printed in &mut report.printed {
        printed.line = shorten(std::mem::take(&mut printed.line), MAX_PRINTED_LINE_BYTES);
    }
    Ok(())
}

/// What the reader and the writer of a stream share.
#[derive(Default)]
pub(super) struct LinkState {
    /// Digests of the programs that the peer has got on this stream.
    pub sent_programs: Mutex<HashSet<String>>,
    /// Replies and acknowledgements that the peer is to get and has not got, at most.
    unread: AtomicUsize,
    taken: Notify,
}

impl LinkState {
    /// Each answer and each call of a report leads to one order.
    pub fn on_report(&self, report: &v1::WorkReport) {
        self.unread.fetch_add(report.answers.len() + report.calls.len(), Ordering::AcqRel);
        let forgotten = |answer: &v1::Answer| match &answer.outcome {
            Some(v1::answer::Outcome::Refused(refusal)) => {
                let kind = refusal.reason.as_ref().and_then(|reason| reason.kind.as_ref());
                matches!(kind, Some(refusal_reason::Kind::UnknownProgram(_)))
            }
            _ => false,
        };
        if report.answers.iter().any(forgotten) {
            // The peer needed the memory for others: it gets its programs once more.
            self.sent_programs.lock().clear();
        }
    }

    /// The writer has taken orders from the queue.
    pub fn on_taken(&self, orders: &[Order]) {
        let led = orders.iter().filter(|order| matches!(order, Order::Reply(_) | Order::Acknowledge(_))).count();
        // Some answers, such as refusals, lead to no order.
        let subtract = |unread: usize| Some(if led == orders.len() { unread.saturating_sub(led) } else { 0 });
        let _ = self.unread.fetch_update(Ordering::AcqRel, Ordering::Acquire, subtract);
        self.taken.notify_waiters();
    }

    /// Returns when the peer has read enough of its orders. An error if it reads none.
    pub async fn wait_for_space(&self) -> Result<(), Status> {
        loop {
            let taken = self.taken.notified();
            if self.unread.load(Ordering::Acquire) < MAX_UNREAD {
                return Ok(());
            }
            if tokio::time::timeout(UNREAD_TIMEOUT, taken).await.is_err() {
                let seconds = UNREAD_TIMEOUT.as_secs();
                return Err(Status::aborted(format!("the peer has not read its orders for {seconds} seconds")));
            }
        }
    }
}
