//! Processes: that one was started, how it runs, how it ended, and what its elements return on the way.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use xavantes_proto::{v1, value_from};

use super::reason::{FailureReport, StallReason, WaitReason};
use super::some_number;
use crate::exit::Exit;

/// A process that was started.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Submitted {
    /// Id of the process
    pub process: String,
}

/// How a process ended.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Outcome"))]
pub(crate) struct OutcomeReport {
    /// Id of the process
    pub process: String,
    /// State of the process
    #[cfg_attr(test, schemars(extend("enum" = ["completed", "failed", "cancelled"])))]
    pub state: &'static str,
    /// Values of the OUT parameters by name; with `--download` a file is its local path
    #[serde(serialize_with = "as_object")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Json>"))]
    pub results: Vec<(String, Json)>,
    /// Counts of activities
    pub activities: Activities,
    /// Seconds from the submission to the end
    pub elapsed_seconds: f64,
    /// Why it failed, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it failed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReport>,
}

impl OutcomeReport {
    /// The outcome that a coordinator reports.
    pub(crate) fn new(response: v1::ResultsResponse) -> Self {
        let status = response.status.unwrap_or_default();
        let failure = status.failure.as_ref().map(FailureReport::from);
        Self {
            state: status.state().word(),
            results: results(&response.results),
            activities: (&status).into(),
            elapsed_seconds: elapsed_seconds(&status).unwrap_or_default(),
            error: failure.as_ref().map(ToString::to_string),
            failure,
            process: status.process,
        }
    }
}

/// A process that runs or ran.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Process {
    /// Id of the process
    pub process: String,
    /// Path with which the paths of its elements begin: the id of the process, or for a delegated subtree the path of the
    /// subtree in its process
    pub path: String,
    /// Process type
    pub r#type: String,
    /// State of the process
    #[cfg_attr(test, schemars(extend("enum" = [
        "waiting", "queued", "running", "paused", "held", "stopping", "completed", "failed", "cancelled", "unknown"
    ])))]
    pub state: &'static str,
    /// Whether a user paused it as a whole: nothing new starts in it
    pub paused: bool,
    /// Counts of activities
    pub activities: Activities,
    /// When it was submitted, in milliseconds since 1970
    pub submitted_ms: u64,
    /// When it ended, in milliseconds since 1970
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Seconds from the submission to the end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<f64>,
    /// Name of the coordinator that runs it
    pub node: String,
    /// Group of the coordinator that runs it
    pub group: String,
    /// Whether its coordinator did not answer in time: then the counts and whether it is paused are not known
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_silent: bool,
    /// What it waits for, why it stands still, or why little is known of it, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Why it stands still
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_reason: Option<StallReason>,
    /// What it waits for, if it does not stand still
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    /// Why it failed, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it failed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReport>,
}

impl From<&v1::ProcessStatus> for Process {
    fn from(status: &v1::ProcessStatus) -> Self {
        let failure = status.failure.as_ref().map(FailureReport::from);
        let silent = || {
            let node = &status.node;
            status.owner_silent.then(|| format!("its coordinator {node} does not answer; its counts are not known"))
        };
        let waits = || status.wait_reason.as_ref().map(ToString::to_string);
        Self {
            process: status.process.clone(),
            path: status.path.clone(),
            r#type: status.process_type.clone(),
            state: status.state().word(),
            paused: status.paused,
            activities: status.into(),
            submitted_ms: status.submitted_ms,
            ended_ms: some_number(status.ended_ms),
            elapsed_seconds: elapsed_seconds(status),
            node: status.node.clone(),
            group: status.group.clone(),
            owner_silent: status.owner_silent,
            trouble: status.stalled.as_ref().map(ToString::to_string).or_else(waits).or_else(silent),
            stall_reason: status.stalled.as_ref().map(StallReason::from),
            wait_reason: status.wait_reason.as_ref().map(WaitReason::from),
            error: failure.as_ref().map(ToString::to_string),
            failure,
        }
    }
}

/// Several processes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ProcessList {
    /// The processes
    pub processes: Vec<Process>,
}

impl ProcessList {
    pub(crate) fn new(statuses: &[v1::ProcessStatus]) -> Self {
        Self { processes: statuses.iter().map(Process::from).collect() }
    }
}

/// Processes that were waited for: the answer of `wait`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct EndedReport(pub ProcessList);

/// Counts of the activities of a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Activities {
    /// Activities that completed
    pub completed: u64,
    /// Activities that failed permanently
    pub failed: u64,
    /// Attempts that the coordinator handed out
    pub attempts: u64,
    /// Of the completed ones, those whose result came from the cache
    pub reused: u64,
    /// Activities that have begun and not ended, by state; only until the process ends
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveActivities>,
}

/// Activities that have begun and not ended, wherever they are. Each is counted once.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LiveActivities {
    /// A slot of a worker runs it; of very short activities this may lag behind
    pub running: u64,
    /// A worker has it, and no free slot for it yet
    pub queued: u64,
    /// It waits for a worker, for room or for its next attempt; a controller that waits for its next attempt is counted, too
    pub waiting: u64,
    /// It failed and waits for the decision of a user; a controller that does is counted, too
    pub held: u64,
}

impl From<&v1::Counts> for LiveActivities {
    fn from(counts: &v1::Counts) -> Self {
        Self { running: counts.running, queued: counts.queued, waiting: counts.waiting, held: counts.held }
    }
}

impl From<&v1::ProcessStatus> for Activities {
    fn from(status: &v1::ProcessStatus) -> Self {
        let counts = status.counts.unwrap_or_default();
        Self {
            completed: counts.completed,
            failed: counts.failed,
            attempts: counts.attempts,
            reused: counts.reused,
            live: status.state().is_live().then(|| (&counts).into()),
        }
    }
}

/// What an element returned when it completed: one line of `--stream`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ElementOutput {
    /// Path of the element
    pub path: String,
    /// Values of the OUT parameters by name
    #[serde(serialize_with = "as_object", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Json>"))]
    pub results: Vec<(String, Json)>,
    /// Of an iteration: the value that its loop collects
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collected: Option<Json>,
    /// Whether the result came from the cache
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// Number of outputs before this one that this reader missed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

impl From<&v1::Output> for ElementOutput {
    fn from(output: &v1::Output) -> Self {
        Self {
            path: output.path.clone(),
            results: results(&output.results),
            collected: output.collected.clone().map(json),
            reused: output.reused,
            missed: some_number(output.missed),
        }
    }
}

/// The exit code that the state of a process means.
pub(crate) fn exit_of(status: &v1::ProcessStatus) -> Exit {
    match status.state() {
        v1::State::Cancelled => Exit::Cancelled,
        v1::State::Failed | v1::State::Unspecified => Exit::Failed,
        _ => Exit::Success,
    }
}

fn elapsed_seconds(status: &v1::ProcessStatus) -> Option<f64> {
    (status.ended_ms > 0).then(|| status.ended_ms.saturating_sub(status.submitted_ms) as f64 / 1000.0)
}

/// Parameters in the order of their declaration.
fn results(parameters: &[v1::Parameter]) -> Vec<(String, Json)> {
    let value = |parameter: &v1::Parameter| json(parameter.value.clone().unwrap_or_default());
    parameters.iter().map(|parameter| (parameter.name.clone(), value(parameter))).collect()
}

fn json(value: v1::Value) -> Json {
    value_from(value).map_or(Json::Null, |value| value.to_json())
}

fn as_object<S: Serializer>(members: &[(String, Json)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
}
