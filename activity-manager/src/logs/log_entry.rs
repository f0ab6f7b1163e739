//! What the index of the log store says about an ended attempt.

use serde::{Deserialize, Serialize};
use xavantes_proto::v1;

/// Names the log of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogTitle {
    pub realm: String,
    /// The path of the element.
    pub path: String,
    pub attempt: u32,
}

/// Resource usage of an ended attempt. The index holds it as an array of numbers in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub(crate) struct LoggedUsage {
    pub wall_ms: u64,
    pub user_ms: u64,
    pub system_ms: u64,
    pub peak_memory: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl From<[u64; 6]> for LoggedUsage {
    fn from([wall_ms, user_ms, system_ms, peak_memory, read_bytes, written_bytes]: [u64; 6]) -> Self {
        Self { wall_ms, user_ms, system_ms, peak_memory, read_bytes, written_bytes }
    }
}

impl From<LoggedUsage> for [u64; 6] {
    fn from(it: LoggedUsage) -> Self {
        [it.wall_ms, it.user_ms, it.system_ms, it.peak_memory, it.read_bytes, it.written_bytes]
    }
}

impl From<&v1::Usage> for LoggedUsage {
    fn from(usage: &v1::Usage) -> Self {
        Self {
            wall_ms: usage.wall_ms,
            user_ms: usage.user_ms,
            system_ms: usage.system_ms,
            peak_memory: usage.peak_memory,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }
    }
}

/// An ended attempt. Each is one line of JSON in the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    #[serde(flatten)]
    pub title: LogTitle,
    /// The number in the names of the files.
    pub number: u64,
    pub began_ms: u64,
    pub ended_ms: u64,
    pub state: String,
    /// Bytes that the attempt wrote to each stream.
    pub written: [u64; 2],
    /// Bytes that each file holds at most.
    pub limit: u64,
    pub usage: LoggedUsage,
    pub node: String,
    /// Why the attempt failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl LogEntry {
    /// Bytes in the files.
    pub fn stored_bytes(&self) -> u64 {
        self.written.iter().map(|written| *written.min(&self.limit)).fold(0, u64::saturating_add)
    }

    pub fn to_record(&self) -> v1::AttemptRecord {
        let LoggedUsage { wall_ms, user_ms, system_ms, peak_memory, read_bytes, written_bytes } = self.usage;
        let node = self.node.clone();
        v1::AttemptRecord {
            attempt: self.title.attempt,
            began_ms: self.began_ms,
            ended_ms: self.ended_ms,
            state: v1::State::from_word(&self.state).into(),
            usage: Some(v1::Usage { wall_ms, user_ms, system_ms, peak_memory, read_bytes, written_bytes, node }),
            stdout_bytes: self.written[0],
            stderr_bytes: self.written[1],
            reason: self.reason.clone(),
        }
    }
}

/// Why an attempt failed, in one line.
pub(crate) fn failure_reason(failure: &v1::Failure) -> String {
    let message = failure.message.lines().next().unwrap_or_default();
    match failure.exit_status {
        Some(status) => format!("{message}, exit status {status}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_an_array_in_the_index() {
        let usage =
            LoggedUsage { wall_ms: 1, user_ms: 2, system_ms: 3, peak_memory: 4, read_bytes: 5, written_bytes: 6 };
        assert_eq!(serde_json::to_string(&usage).expect("numbers are JSON"), "[1,2,3,4,5,6]");
        assert_eq!(serde_json::from_str::<LoggedUsage>("[1,2,3,4,5,6]").expect("the array is complete"), usage);
    }

    #[test]
    fn a_failure_reason_is_one_line_with_the_exit_status() {
        let failed = v1::Failure { message: "no\nmore".into(), exit_status: Some(3), ..v1::Failure::default() };
        assert_eq!(failure_reason(&failed), "no, exit status 3");
    }
}
