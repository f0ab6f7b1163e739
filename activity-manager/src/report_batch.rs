//! Reports to a coordinator, and the messages that carry them. Pure, so that the simulation sends the same messages as the
//! activity manager.

use std::sync::Arc;

use xavantes_proto::{Message, count_fitting, v1};

use crate::attempts::action::WorkerReport;

/// Encoded size of the flag that says that this worker drains.
const DRAINING_BYTES: usize = 2;

/// A report on its way to a coordinator.
#[derive(Debug)]
pub enum OutgoingReport {
    /// The first report of a stream.
    Hello(v1::WorkerHello),
    /// A line that an activity printed.
    Printed(v1::Printed),
    /// A report of the attempt table.
    Attempt(WorkerReport),
}

impl OutgoingReport {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Hello(hello) => hello.encoded_len(),
            Self::Printed(printed) => printed.encoded_len(),
            Self::Attempt(WorkerReport::Answer(answer)) => answer.encoded_len(),
            Self::Attempt(WorkerReport::Call(call)) => call.encoded_len(),
            Self::Attempt(WorkerReport::Known(known)) => known.encoded_len(),
            Self::Attempt(WorkerReport::Draining) => DRAINING_BYTES,
            Self::Attempt(WorkerReport::Running(running)) => running.encoded_len(),
            Self::Attempt(WorkerReport::Impairment(impairment)) => impairment.encoded_len(),
        }
    }

    /// True for reports that need a message of their own, because later reports must not come before them.
    fn is_alone(&self) -> bool {
        matches!(self, Self::Hello(_) | Self::Attempt(WorkerReport::Known(_)))
    }
}

/// Drains the reports that go into one message, and gives that message; `None` if no report is left.
pub fn next_report_message(batch: &mut Vec<OutgoingReport>) -> Option<v1::WorkReport> {
    let count = if batch.first()?.is_alone() {
        1
    } else {
        let together = batch.iter().take_while(|report| !report.is_alone());
        count_fitting(together.map(OutgoingReport::encoded_len))
    };
    let mut message = v1::WorkReport::default();
    for report in batch.drain(..count) {
        match report {
            OutgoingReport::Hello(hello) => message.hello = Some(hello),
            OutgoingReport::Printed(printed) => message.printed.push(printed),
            OutgoingReport::Attempt(WorkerReport::Answer(answer)) => message.answers.push(Arc::unwrap_or_clone(answer)),
            OutgoingReport::Attempt(WorkerReport::Call(call)) => message.calls.push(Arc::unwrap_or_clone(call)),
            OutgoingReport::Attempt(WorkerReport::Known(known)) => message.known = Some(known),
            OutgoingReport::Attempt(WorkerReport::Draining) => message.draining = true,
            // The last of several is right.
            OutgoingReport::Attempt(WorkerReport::Running(running)) => message.running = Some(running),
            OutgoingReport::Attempt(WorkerReport::Impairment(impairment)) => message.impairment = Some(impairment),
        }
    }
    Some(message)
}
