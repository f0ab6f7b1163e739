//! Why something failed, waits or stands still: typed, for scripts. The sentences beside them are for people.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_proto::v1;

/// Why an element failed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Failure"))]
pub(crate) struct FailureReport {
    /// What failed: an error in code, the exit status of a program, a time-out, …
    #[cfg_attr(test, schemars(extend("enum" = [
        "code", "exit", "timeout", "cancelled", "parameter", "limit", "worker", "unknown"
    ])))]
    pub kind: &'static str,
    /// The error message
    pub message: String,
    /// Path of the element that failed
    pub path: String,
    /// Line in the definition
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Name of the file with that line
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of the worker that ran it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Exit status of the program
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<i32>,
    /// Last lines of the standard error
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The failure that was being handled when this one happened
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<FailureReport>>,
}

impl From<&v1::Failure> for FailureReport {
    fn from(failure: &v1::Failure) -> Self {
        Self {
            kind: failure.kind().word(),
            message: failure.message.clone(),
            path: failure.path.clone(),
            line: failure.line,
            file: failure.file.clone(),
            worker: failure.worker.clone(),
            exit_status: failure.exit_status,
            stderr: failure.stderr.clone(),
            cause: failure.cause.as_deref().map(|cause| Box::new(cause.into())),
        }
    }
}

impl FailureReport {
    /// Where the definition has what failed: the file and the line.
    pub(crate) fn place(&self) -> Option<String> {
        let line = self.line?;
        Some(self.file.as_ref().map_or_else(|| format!("line {line}"), |file| format!("{file}:{line}")))
    }
}

/// A failure as a sentence, with everything that is known.
impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(place) = self.place() {
            write!(f, " ({place})")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(worker) = &self.worker {
            write!(f, ", on {worker}")?;
        }
        if let Some(status) = self.exit_status {
            write!(f, ", exit status {status}")?;
        }
        if let Some(stderr) = &self.stderr {
            write!(f, "\n{stderr}")?;
        }
        if let Some(cause) = &self.cause {
            write!(f, "\nwhile handling {cause}")?;
        }
        Ok(())
    }
}

/// What a worker must have to run an activity, as one of these members.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Requirement {
    /// An interpreter for this language
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// This tag
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// A container engine
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<bool>,
    /// This many graphics processors
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// This much memory
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// This many slots
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
}

impl From<&v1::Requirement> for Requirement {
    fn from(requirement: &v1::Requirement) -> Self {
        use v1::requirement::Kind;
        let none = Self::default();
        match requirement.kind.clone() {
            Some(Kind::Interpreter(language)) => Self { interpreter: Some(language), ..none },
            Some(Kind::Tag(tag)) => Self { tag: Some(tag), ..none },
            Some(Kind::Containers(_)) => Self { containers: Some(true), ..none },
            Some(Kind::Gpus(count)) => Self { gpus: Some(count), ..none },
            Some(Kind::MemoryBytes(bytes)) => Self { memory_bytes: Some(bytes), ..none },
            Some(Kind::Slots(count)) => Self { slots: Some(count), ..none },
            None => none,
        }
    }
}

/// What an element or a process waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum WaitReason {
    /// No worker is connected
    NoWorker,
    /// All workers that could run it are busy
    WorkersBusy,
    /// No connected worker has what the activity requires
    Unmet(Requirement),
    /// The coordinator that runs it has been silent for this time
    CoordinatorSilent {
        /// Milliseconds
        silent_ms: u64,
    },
    /// The processes of its coordinator together take too much memory
    CoordinatorFull {
        /// Bytes that they take
        bytes: u64,
        /// Bytes that they may take
        limit_bytes: u64,
    },
    /// All workers that could run it take no work for now
    Impaired {
        /// One of them
        node: String,
        /// Why it takes no work
        reason: ImpairmentReason,
    },
    /// Elements of the same controller must end first
    Siblings {
        /// Names of some of them
        names: Vec<String>,
        /// Number of the others
        more: u32,
    },
    /// Others must end before there is room for it
    Room,
    /// Its next attempt begins later
    Retry {
        /// Milliseconds until then
        in_ms: u64,
    },
    /// A user paused an element around it
    Paused {
        /// Path of the paused element
        path: String,
    },
    /// The worker that has it is not connected
    WorkerSilent {
        /// Name of the worker
        node: String,
        /// Milliseconds of its silence
        silent_ms: u64,
        /// Milliseconds of silence after which another worker runs it
        lost_after_ms: u64,
    },
    /// Its coordinator looks for another coordinator that runs it
    Placing,
    /// After a restart, its coordinator asks the workers which of them has it
    Recovering,
    /// Its coordinator records it, and then looks for a worker
    Preparing,
    /// Its coordinator looks for a result in the cache
    SearchingCache,
    /// Its coordinator makes files again that it needs and that are lost
    RestoringFiles,
    /// A reason that this version does not know
    Unknown,
}

impl From<&v1::WaitReason> for WaitReason {
    fn from(reason: &v1::WaitReason) -> Self {
        use v1::wait_reason::Kind;
        match &reason.kind {
            Some(Kind::NoWorker(_)) => Self::NoWorker,
            Some(Kind::WorkersBusy(_)) => Self::WorkersBusy,
            Some(Kind::Unmet(requirement)) => Self::Unmet(requirement.into()),
            Some(Kind::CoordinatorSilentMs(silent_ms)) => Self::CoordinatorSilent { silent_ms: *silent_ms },
            Some(Kind::CoordinatorFull(v1::SizeOverLimit { bytes, limit_bytes })) => {
                Self::CoordinatorFull { bytes: *bytes, limit_bytes: *limit_bytes }
            }
            Some(Kind::Impaired(worker)) => Self::Impaired {
                node: worker.node.clone(),
                reason: worker.reason.as_ref().map_or(ImpairmentReason::Unknown, ImpairmentReason::from),
            },
            Some(Kind::Siblings(v1::Siblings { names, more })) => Self::Siblings { names: names.clone(), more: *more },
            Some(Kind::Room(_)) => Self::Room,
            Some(Kind::RetryInMs(in_ms)) => Self::Retry { in_ms: *in_ms },
            Some(Kind::Paused(path)) => Self::Paused { path: path.clone() },
            Some(Kind::WorkerSilent(v1::SilentWorker { node, silent_ms, lost_after_ms })) => {
                Self::WorkerSilent { node: node.clone(), silent_ms: *silent_ms, lost_after_ms: *lost_after_ms }
            }
            Some(Kind::Placing(_)) => Self::Placing,
            Some(Kind::Recovering(_)) => Self::Recovering,
            Some(Kind::Preparing(_)) => Self::Preparing,
            Some(Kind::SearchingCache(_)) => Self::SearchingCache,
            Some(Kind::RestoringFiles(_)) => Self::RestoringFiles,
            None => Self::Unknown,
        }
    }
}

/// Why a node takes no work although it runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum ImpairmentReason {
    /// It cannot write the answers of activities to its disk
    AnswersUnwritable {
        /// Error of the system
        error: String,
    },
    /// The coordinator has not recorded too many of its answers
    AnswersUnacknowledged {
        /// Number of these answers
        answers: u64,
        /// Their bytes
        bytes: u64,
    },
    /// A reason that this version does not know
    Unknown,
}

impl From<&v1::ImpairmentReason> for ImpairmentReason {
    fn from(reason: &v1::ImpairmentReason) -> Self {
        use v1::impairment_reason::Kind;
        match reason.kind.clone() {
            Some(Kind::AnswersUnwritable(error)) => Self::AnswersUnwritable { error },
            Some(Kind::AnswersUnacknowledged(v1::AnswerBacklog { answers, bytes })) => {
                Self::AnswersUnacknowledged { answers, bytes }
            }
            None => Self::Unknown,
        }
    }
}

/// Why a process does not advance although it is neither paused nor ended.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum StallReason {
    /// The repository cannot write
    RepositoryUnavailable {
        /// Error of the repository
        error: String,
    },
    /// The coordinator keeps the process and does not run it, until a user decides
    Held {
        /// Why
        reason: HeldReason,
    },
    /// The process waits for memory: the processes of its coordinator together take too much
    CoordinatorFull {
        /// Bytes that they take
        bytes: u64,
        /// Bytes that they may take
        limit_bytes: u64,
    },
    /// The coordinator cannot read what its repository has of the ended process
    Unreadable {
        /// What went wrong
        error: String,
    },
    /// A reason that this version does not know
    Unknown,
}

impl From<&v1::StallReason> for StallReason {
    fn from(reason: &v1::StallReason) -> Self {
        use v1::stall_reason::Kind;
        match reason.kind.clone() {
            Some(Kind::RepositoryUnavailable(error)) => Self::RepositoryUnavailable { error },
            Some(Kind::Held(reason)) => Self::Held { reason: (&reason).into() },
            Some(Kind::CoordinatorFull(v1::SizeOverLimit { bytes, limit_bytes })) => {
                Self::CoordinatorFull { bytes, limit_bytes }
            }
            Some(Kind::Unreadable(error)) => Self::Unreadable { error },
            None => Self::Unknown,
        }
    }
}

/// Why a coordinator holds a process.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum HeldReason {
    /// Records of the process are damaged or missing
    Damaged {
        /// Error of the repository
        error: String,
    },
    /// The coordinator cannot continue from what its repository has
    Unreadable {
        /// What it cannot read
        error: String,
    },
    /// The process is larger than one process may be at this coordinator
    OverBudget {
        /// Bytes of the process
        bytes: u64,
        /// Bytes that it may take
        limit_bytes: u64,
    },
    /// Coordinators ended soon after they continued the process
    CrashedOwners {
        /// Number of these coordinators
        count: u32,
    },
    /// The coordinator found an error in itself while it ran the process
    InternalError {
        /// Message of the error
        error: String,
    },
    /// A reason that this version does not know
    Unknown,
}

impl From<&v1::HeldReason> for HeldReason {
    fn from(reason: &v1::HeldReason) -> Self {
        use v1::held_reason::Kind;
        match reason.kind.clone() {
            Some(Kind::Damaged(error)) => Self::Damaged { error },
            Some(Kind::Unreadable(error)) => Self::Unreadable { error },
            Some(Kind::OverBudget(v1::SizeOverLimit { bytes, limit_bytes })) => Self::OverBudget { bytes, limit_bytes },
            Some(Kind::CrashedOwners(count)) => Self::CrashedOwners { count },
            Some(Kind::InternalError(error)) => Self::InternalError { error },
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_wait_reason_names_its_kind_and_the_requirement() {
        let unmet = v1::Requirement::from(v1::requirement::Kind::Interpreter("R".into()));
        let reason = v1::WaitReason::from(v1::wait_reason::Kind::Unmet(unmet));
        assert_eq!(to_value(WaitReason::from(&reason)).unwrap(), json!({"kind": "unmet", "interpreter": "R"}));
        let silent = v1::WaitReason::from(v1::wait_reason::Kind::CoordinatorSilentMs(5));
        let expected = json!({"kind": "coordinator-silent", "silent_ms": 5});
        assert_eq!(to_value(WaitReason::from(&silent)).unwrap(), expected);
        assert_eq!(to_value(WaitReason::NoWorker).unwrap(), json!({"kind": "no-worker"}));
    }

    #[test]
    fn a_failure_is_told_with_its_causes() {
        let cause = v1::Failure { path: "P-1/a".into(), message: "first".into(), line: Some(3), ..Default::default() };
        let failure = v1::Failure {
            path: "P-1/b".into(),
            message: "second".into(),
            worker: Some("w1".into()),
            exit_status: Some(2),
            stderr: Some("last words".into()),
            cause: Some(Box::new(cause)),
            ..Default::default()
        };
        assert_eq!(
            FailureReport::from(&failure).to_string(),
            "P-1/b: second, on w1, exit status 2\nlast words\nwhile handling P-1/a (line 3): first"
        );
    }
}
