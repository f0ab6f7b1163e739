//! Whether the result of an activity came from the cache, and if not, why not.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_proto::v1;
use xavantes_proto::v1::reuse_reason::Kind;

use super::{some_number, some_text};

/// The decision about the reuse of a result.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Reuse {
    /// Whether an earlier result was used
    pub reused: bool,
    /// Why the result was reused, or why not
    pub reason: ReuseReason,
    /// Path of the earlier activity
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
    /// When that activity ended, in milliseconds since 1970
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_ms: Option<u64>,
    /// When the coordinator decided, in milliseconds since 1970
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<u64>,
    /// If the code changed: its digest now
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// If the code changed: its digest before
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_before: Option<String>,
    /// Parameters that changed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ParameterChangeReport>,
    /// The reason in more detail, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Of `too-large`: size of the results
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Of `undecided`: the parameter that prevents a decision
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

/// Why a result was reused, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReuseReason {
    /// The result of an earlier activity was used
    Reused,
    /// The activity type does not say CACHE="true"
    NotAsked,
    /// The process was started with --no-reuse
    NotWanted,
    /// No earlier activity of the type is known
    First,
    /// No earlier activity is the same
    Changed,
    /// The same activity failed before
    Failed,
    /// The results were too large for the cache
    TooLarge,
    /// The results were removed from the cache
    Removed,
    /// No node has a file of the results any more
    FilesGone,
    /// The value of a parameter cannot be compared
    Undecided,
    /// The cache could not be read
    Unavailable,
    /// No decision is known
    Unknown,
    /// The process is a rerun, and the former process did not complete the activity
    NotCompleted,
    /// The process is a rerun, and another activity in it took over the results
    TakenOver,
}

/// A parameter whose value changed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "ParameterChange"))]
pub(crate) struct ParameterChangeReport {
    /// Name of the parameter
    pub name: String,
    /// Value before, shortened; empty if there was none
    pub before: String,
    /// Value now, shortened; empty if there is none
    pub after: String,
}

impl From<&v1::ExplainResponse> for Reuse {
    fn from(answer: &v1::ExplainResponse) -> Self {
        let reason = |reason| Self {
            reused: reason == ReuseReason::Reused,
            reason,
            earlier: None,
            earlier_ms: None,
            decided_ms: some_number(answer.decided_ms),
            code: None,
            code_before: None,
            changes: Vec::new(),
            detail: None,
            size_bytes: None,
            parameter: None,
        };
        let unknown = Kind::Unknown(v1::Nothing {});
        let kind = answer.reason.as_ref().and_then(|reason| reason.kind.as_ref()).unwrap_or(&unknown);
        match kind {
            Kind::Reused(activity) => reason(ReuseReason::Reused).after(Some(activity)),
            Kind::NotCached(_) => reason(ReuseReason::NotAsked),
            Kind::Disabled(_) => reason(ReuseReason::NotWanted),
            Kind::First(_) => reason(ReuseReason::First),
            Kind::Changed(change) => Self {
                code: some_text(&change.code),
                code_before: some_text(&change.code).map(|_| change.code_before.clone()),
                changes: change.parameters.iter().map(ParameterChangeReport::from).collect(),
                ..reason(ReuseReason::Changed).after(change.nearest.as_ref())
            },
            Kind::Failed(activity) => reason(ReuseReason::Failed).after(Some(activity)),
            Kind::TooLarge(large) => Self {
                detail: Some(format!("{} bytes", large.size_bytes)),
                size_bytes: Some(large.size_bytes),
                ..reason(ReuseReason::TooLarge).after(large.earlier.as_ref())
            },
            Kind::Evicted(activity) => reason(ReuseReason::Removed).after(Some(activity)),
            Kind::FileGone(gone) => {
                Self { detail: Some(gone.file.clone()), ..reason(ReuseReason::FilesGone).after(gone.earlier.as_ref()) }
            }
            Kind::UnknownContent(v1::ReuseUnknownContent { parameter, uri }) => Self {
                detail: Some(format!("the content of {parameter}, {uri}, is not known before a worker has read it")),
                parameter: Some(parameter.clone()),
                ..reason(ReuseReason::Undecided)
            },
            Kind::SharedObject(parameter) => Self {
                detail: Some(format!("{parameter} holds a shared object")),
                parameter: Some(parameter.clone()),
                ..reason(ReuseReason::Undecided)
            },
            Kind::Unavailable(error) => Self { detail: Some(error.clone()), ..reason(ReuseReason::Unavailable) },
            Kind::Unknown(_) => reason(ReuseReason::Unknown),
            Kind::NotCompleted(v1::ReuseNotCompleted { process, left_out }) => Self {
                detail: Some(match left_out {
                    0 => format!("{process} did not complete it"),
                    left_out => format!(
                        "{process} did not complete it, or did not keep its results: those of {left_out} completed \
                         activities were too large"
                    ),
                }),
                ..reason(ReuseReason::NotCompleted)
            },
            Kind::WritesOutside(parameter) => Self {
                detail: Some(format!("it writes {parameter} to a data source")),
                parameter: Some(parameter.clone()),
                ..reason(ReuseReason::Undecided)
            },
            Kind::TakenOver(activity) => reason(ReuseReason::TakenOver).after(Some(activity)),
        }
    }
}

impl Reuse {
    fn after(self, earlier: Option<&v1::EarlierActivity>) -> Self {
        Self {
            earlier: earlier.map(|activity| activity.path.clone()),
            earlier_ms: earlier.map(|activity| activity.ended_ms),
            ..self
        }
    }
}

impl From<&v1::ParameterChange> for ParameterChangeReport {
    fn from(change: &v1::ParameterChange) -> Self {
        Self { name: change.name.clone(), before: change.before.clone(), after: change.after.clone() }
    }
}
