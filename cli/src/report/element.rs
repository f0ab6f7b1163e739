//! An element of a process, with its attempts and everything in it.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_proto::v1;

use super::process::{Activities, LiveActivities, labels};
use super::reason::{FailureReport, HeldReason, WaitReason};
use super::reuse::Reuse;
use super::{shell_word, some_number, some_text};

/// An activity, subprocess or controller of a process, or the process itself.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Element {
    /// Id of the process; only of the element that the command names
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Path of the element; `[*]` in it stands for all iterations
    pub path: String,
    /// Tag in the definition: `ACTIVITY`, `PARFOR`, …
    pub element: String,
    /// Activity or process type
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// State of the element; a controller is in the state of the elements in it that have come furthest. `ended` stands for
    /// several elements that ended in different ways
    #[cfg_attr(test, schemars(extend("enum" = [
        "waiting", "queued", "running", "paused", "held", "stopping", "completed", "failed", "cancelled", "ended", "unknown"
    ])))]
    pub state: &'static str,
    /// Whether nothing new starts in it: a user paused it, or an element around it
    pub paused: bool,
    /// Whether its result came from the cache
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// Activities in it that have begun and not ended, by state: the sums of those of the elements in it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveActivities>,
    /// Name that its user gave it; only of a process
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels that its user gave it: values by key; only of a process
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Counts of activities; only of a process
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activities: Option<Activities>,
    /// Parameters that it was given, if it is shown alone
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<ShownParameter>,
    /// Results of a process that has completed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ShownParameter>,
    /// Number of inputs and outputs that are not shown
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_parameters: Option<u32>,
    /// Bounds of a loop or parallel controller as they are now, if it is shown alone
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<LoopBounds>,
    /// Name of the worker or coordinator that runs it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// What it waits for, or why a process is held, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// What it waits for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    /// Of a process that its coordinator holds: why
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_reason: Option<HeldReason>,
    /// Number of attempts so far
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Elements in it, or iterations, that completed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<u64>,
    /// Elements in it, or iterations, that failed permanently
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Elements in it, or iterations, that were cancelled
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<u64>,
    /// Number of all elements in it, or iterations, if known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// After the end: number of elements that this one stands for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// After the end: attempts after the first
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried: Option<u64>,
    /// After the end: attempts that were lost with a worker or coordinator
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// When it began, or after the end the first of the elements that this one stands for, in milliseconds since 1970
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// Of an activity that runs: since when, in milliseconds since 1970, as far as its coordinator knows
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since_ms: Option<u64>,
    /// After the end: when the last of the elements that this one stands for ended, in milliseconds since 1970
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// After the end: path of another call of the same process type, whose counts include this one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_at: Option<String>,
    /// Why it failed, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it failed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReport>,
    /// Whether its result came from the cache; only of `explain`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// Attempts of the program of an activity
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<AttemptRecord>,
    /// After the end, of an activity: no worker knows its attempts any more, so it is not known where it ran
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attempts_unknown: bool,
    /// Resource usage of the programs of a process, by activity type
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub took: Vec<TypeUsage>,
    /// First failures and last interventions: of a process all, of an element before the end those at its path
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventReport>,
    /// Elements in it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Element>,
    /// Number of children that are not shown
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u32>,
}

impl From<&v1::Element> for Element {
    fn from(element: &v1::Element) -> Self {
        let failure = element.failure.as_ref().map(FailureReport::from);
        Self {
            process: None,
            path: element.path.clone(),
            element: element.tag.clone(),
            r#type: some_text(&element.r#type),
            state: element.state().word(),
            paused: element.paused,
            reused: element.reused,
            live: element.live.as_ref().map(LiveActivities::from),
            name: None,
            labels: BTreeMap::new(),
            activities: None,
            inputs: element.inputs.iter().map(ShownParameter::from).collect(),
            outputs: element.outputs.iter().map(ShownParameter::from).collect(),
            more_parameters: some_number(element.more_parameters),
            bounds: element.bounds.as_ref().map(LoopBounds::from),
            worker: some_text(&element.worker),
            waits: waits(element),
            wait_reason: element.wait_reason.as_ref().map(WaitReason::from),
            held_reason: element.held_reason.as_ref().map(HeldReason::from),
            attempts: some_number(element.attempts),
            completed: element.completed,
            failed: element.failed,
            cancelled: element.cancelled,
            total: element.total,
            runs: some_number(element.runs),
            retried: some_number(element.retried),
            lost: some_number(element.lost),
            began_ms: some_number(element.began_ms),
            running_since_ms: some_number(element.running_since_ms),
            ended_ms: some_number(element.ended_ms),
            counted_at: some_text(&element.counted_at),
            error: failure.as_ref().map(ToString::to_string),
            failure,
            reuse: None,
            records: element.records.iter().map(AttemptRecord::from).collect(),
            attempts_unknown: element.attempts_unknown,
            took: element.usage.iter().map(TypeUsage::from).collect(),
            events: element.remarks.iter().map(EventReport::from).collect(),
            children: element.children.iter().map(Element::from).collect(),
            hidden: some_number(element.hidden),
        }
    }
}

impl Element {
    /// The element that a command asked for. `status` is that of its process, if the element is a process.
    pub(crate) fn asked_for(element: &v1::Element, status: Option<&v1::ProcessStatus>) -> Self {
        let mut shown = Self::from(element);
        shown.process = shown.path.split('/').next().map(str::to_owned);
        shown.activities = status.map(Activities::from);
        shown.name = status.and_then(|status| some_text(&status.name));
        shown.labels = status.map(labels).unwrap_or_default();
        shown
    }

    /// An activity of which nothing but the decision about its reuse is known.
    pub(crate) fn forgotten(path: &str) -> Self {
        let element = v1::Element { path: path.to_owned(), tag: "ACTIVITY".into(), ..v1::Element::default() };
        Self::asked_for(&element, None)
    }
}

/// Why no worker runs an element, or why a process is held, and what to do about it.
fn waits(element: &v1::Element) -> Option<String> {
    if let Some(reason) = &element.held_reason {
        return Some(reason.to_string());
    }
    let reason = element.wait_reason.as_ref()?;
    Some(match reason.kind {
        Some(v1::wait_reason::Kind::CoordinatorSilentMs(_)) if element.delegated => {
            format!("{reason}; if it is gone permanently: xavantes retry {} --elsewhere", shell_word(&element.path))
        }
        _ => reason.to_string(),
    })
}

/// A parameter of an element.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Parameter"))]
pub(crate) struct ShownParameter {
    /// Name of the parameter
    pub name: String,
    /// Its value as JSON text, cut if it is long; absent if it is secret
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether the definition declares it as secret
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

impl From<&v1::ShownParameter> for ShownParameter {
    fn from(parameter: &v1::ShownParameter) -> Self {
        let value = Some(parameter.text.clone()).filter(|_| !parameter.hidden);
        Self { name: parameter.name.clone(), value, hidden: parameter.hidden }
    }
}

/// Bounds of a loop or parallel controller.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LoopBounds {
    /// First value of the counter
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// Last value of the counter
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<i64>,
    /// Difference between a value of the counter and the next
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    /// `MAX_PARALLEL`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u64>,
    /// `JOIN`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<u64>,
    /// `EXIT_CONDITION`, if a user set it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_condition: Option<String>,
}

impl From<&v1::CurrentBounds> for LoopBounds {
    fn from(bounds: &v1::CurrentBounds) -> Self {
        Self {
            from: bounds.from,
            to: bounds.to,
            step: bounds.step,
            max_parallel: bounds.max_parallel,
            join: bounds.join,
            exit_condition: some_text(&bounds.exit_condition),
        }
    }
}

/// One attempt of the program of an activity.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AttemptRecord {
    /// Number of the attempt, from 1
    pub attempt: u32,
    /// State of the attempt
    #[cfg_attr(test, schemars(extend("enum" = ["running", "completed", "failed", "cancelled", "unknown"])))]
    pub state: &'static str,
    /// When it began, in milliseconds since 1970
    pub began_ms: u64,
    /// When it ended, in milliseconds since 1970
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Bytes that it wrote to its standard output
    pub stdout_bytes: u64,
    /// Bytes that it wrote to its standard error
    pub stderr_bytes: u64,
    /// Why it failed, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Resource usage
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl From<&v1::AttemptRecord> for AttemptRecord {
    fn from(record: &v1::AttemptRecord) -> Self {
        Self {
            attempt: record.attempt,
            state: record.state().word(),
            began_ms: record.began_ms,
            ended_ms: some_number(record.ended_ms),
            stdout_bytes: record.stdout_bytes,
            stderr_bytes: record.stderr_bytes,
            error: some_text(&record.reason),
            usage: record.usage.as_ref().map(Usage::from),
        }
    }
}

/// Resource usage of one attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Usage {
    /// Name of the worker
    pub node: String,
    /// Milliseconds from start to end
    pub wall_ms: u64,
    /// Milliseconds of processor time in the program itself
    pub user_ms: u64,
    /// Milliseconds of processor time in the kernel
    pub system_ms: u64,
    /// Largest memory, in bytes
    pub peak_memory: u64,
    /// Bytes read
    pub read_bytes: u64,
    /// Bytes written
    pub written_bytes: u64,
}

impl From<&v1::Usage> for Usage {
    fn from(usage: &v1::Usage) -> Self {
        Self {
            node: usage.node.clone(),
            wall_ms: usage.wall_ms,
            user_ms: usage.user_ms,
            system_ms: usage.system_ms,
            peak_memory: usage.peak_memory,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }
    }
}

/// Resource usage of all attempts of an activity type.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TypeUsage {
    /// Activity type
    pub r#type: String,
    /// Number of attempts
    pub attempts: u64,
    /// Milliseconds from start to end, summed over all attempts
    pub wall_ms: u64,
    /// Milliseconds of the longest attempt
    pub longest_ms: u64,
    /// Milliseconds of processor time in the program itself
    pub user_ms: u64,
    /// Milliseconds of processor time in the kernel
    pub system_ms: u64,
    /// Largest memory of one attempt, in bytes
    pub peak_memory: u64,
    /// Bytes read
    pub read_bytes: u64,
    /// Bytes written
    pub written_bytes: u64,
}

impl From<&v1::UsageTotals> for TypeUsage {
    fn from(usage: &v1::UsageTotals) -> Self {
        Self {
            r#type: usage.r#type.clone(),
            attempts: usage.attempts,
            wall_ms: usage.wall_ms,
            longest_ms: usage.longest_ms,
            user_ms: usage.user_ms,
            system_ms: usage.system_ms,
            peak_memory: usage.peak_memory,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }
    }
}

/// A failure or an intervention in a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Event"))]
pub(crate) struct EventReport {
    /// When it happened, in milliseconds since 1970
    pub at_ms: u64,
    /// Path of the element
    pub path: String,
    /// Of a failure: why, as a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of a failure: why
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReport>,
    /// Of an intervention: the command
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steered: Option<String>,
    /// Of an intervention: name and host of the user, as the command gave them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl From<&v1::Remark> for EventReport {
    fn from(remark: &v1::Remark) -> Self {
        let (failure, steered) = match &remark.what {
            Some(v1::remark::What::Failed(failure)) => (Some(FailureReport::from(failure)), None),
            Some(v1::remark::What::Steered(command)) => (None, Some(command.clone())),
            None => (None, None),
        };
        let error = failure.as_ref().map(ToString::to_string);
        Self { at_ms: remark.at_ms, path: remark.path.clone(), error, failure, steered, by: some_text(&remark.by) }
    }
}

/// An element alone: the answer of `show`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Shown(pub Element);

/// An element and everything in it: the answer of `tree`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Tree(pub Element);

/// An element with the decision about its reuse: the answer of `explain`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Explanation {
    pub element: Element,
    /// The coordinator still knows the element itself.
    #[serde(skip)]
    pub is_known: bool,
}
