//! Failures of attempts, as coordinators receive them.

use std::io;

use xavantes_proto::v1;

/// Why an attempt failed.
pub(crate) type AttemptFailure = Box<v1::Failure>;

/// A failure. Wrong parameters stay wrong, so such a failure is permanent.
pub(crate) fn failure(kind: v1::FailureKind, message: impl Into<String>) -> AttemptFailure {
    let permanent = kind == v1::FailureKind::Parameter;
    Box::new(v1::Failure { kind: kind.into(), message: message.into(), permanent, ..v1::Failure::default() })
}

/// A failure that is not the activity's fault: another worker may succeed.
pub(crate) fn worker_failure(problem: &str, error: &io::Error) -> AttemptFailure {
    failure(v1::FailureKind::Worker, format!("{problem}: {error}"))
}
