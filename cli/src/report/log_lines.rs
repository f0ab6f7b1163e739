//! The output of an activity.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

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
