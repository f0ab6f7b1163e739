//! Commands that change something. They print nothing as text if the command says all: no news is good news.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// An element that a command steered.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Steered {
    /// Path of the element
    pub path: String,
    /// The command
    #[cfg_attr(test, schemars(extend("enum" = ["cancel", "pause", "resume", "retry", "set"])))]
    pub action: &'static str,
    /// After `retry`: a try `begins` that waited or was held, a running element is stopped and `restarts`, or an ended process
    /// `goes_on`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("enum" = ["begins", "restarts", "goes_on"])))]
    pub effect: Option<&'static str>,
}

/// Processes and results that were removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Forgotten {
    /// Ids of the processes
    pub forgotten: Vec<String>,
    /// Whether all results in the cache were removed, too
    pub reusable: bool,
}

/// A node that began to drain.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Drained {
    /// Name of the node
    pub node: String,
    /// Always true
    pub draining: bool,
}

/// A data source that was added or removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SourceChange {
    /// Name of the source
    pub source: String,
    /// Its place; absent if it was removed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// Steps that brought a shared repository up to date.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Migrated {
    /// The steps, as sentences
    pub steps: Vec<String>,
}
