//! The output of an activity.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::reason::FailureReport;

/// The output of one attempt of an activity; with `--follow`, of the later attempts, too.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Log {
    /// Path of the activity
    pub path: String,
    /// Number of the first attempt
    pub attempt: u32,
    /// Name of the worker that ran it
    pub node: String,
    /// Standard output, unless only the standard error was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Standard error, unless only the standard output was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

/// What the failed activities of a process wrote: the answer of `logs --failed`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FailedLogs {
    /// Path of the process, or of the element in which the activities are
    pub path: String,
    /// The failed elements
    pub logs: Vec<FailedLog>,
    /// Number of failed activities that are not among them
    pub left_out: u64,
}

/// What a failed activity wrote.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FailedLog {
    /// Path of the activity, or of an element whose own code failed
    pub path: String,
    /// Why it failed, as a sentence
    pub error: String,
    /// Number of its last attempt
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Name of the worker that ran it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Last lines of its standard output, unless only the standard error was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Last lines of its standard error, unless only the standard output was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Bytes of these lines that are left out
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_bytes: Option<u64>,
    /// Why there is no output, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl FailedLog {
    /// A failed element. Of its output, this has what the failure quotes.
    pub(crate) fn new(path: &str, mut failure: FailureReport) -> Self {
        let stderr = failure.stderr.take();
        Self {
            path: path.to_owned(),
            error: failure.to_string(),
            attempt: None,
            node: None,
            stdout: None,
            stderr,
            left_out_bytes: None,
            missing: None,
        }
    }
}
