//! Reports to a coordinator that delegated subtrees, and the messages that carry them. Pure, so that the simulation sends
//! the same messages as the coordinator.

use xavantes_proto::{Message, count_fitting, v1};

/// A report to the coordinator of a parent.
#[derive(Debug)]
pub enum ParentReport {
    /// A subtree has ended, or is refused.
    Answer(Box<v1::Answer>),
    /// A call of a shared object of the parent.
    Call(v1::SharedCall),
    /// The attempts of claimed processes that this coordinator knows.
    Known(v1::Known),
}

impl ParentReport {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.encoded_len(),
            Self::Call(call) => call.encoded_len(),
            Self::Known(known) => known.encoded_len(),
        }
    }
}

/// Drains the reports that fit into one message, and gives that message; `None` if no report is left.
pub fn next_parent_message(batch: &mut Vec<ParentReport>) -> Option<v1::WorkReport> {
    if batch.is_empty() {
        return None;
    }
    let count = count_fitting(batch.iter().map(ParentReport::encoded_len));
    let mut message = v1::WorkReport::default();
    for report in batch.drain(..count) {
        match report {
            ParentReport::Answer(answer) => message.answers.push(*answer),
            ParentReport::Call(call) => message.calls.push(call),
            // One message may answer several claims.
            ParentReport::Known(mut known) => match &mut message.known {
                None => message.known = Some(known),
                Some(before) => {
                    before.processes.append(&mut known.processes);
                    before.running.append(&mut known.running);
                    before.answered.append(&mut known.answered);
                }
            },
        }
    }
    Some(message)
}
