//! Errors as gRPC statuses.

use tonic::{Code, Status};
use xavantes_engine::Rejection;
use xavantes_repository::{Entry, Error};

use crate::codec::Unreadable;
use crate::process::handle::ProcessEnded;
use crate::process::registry::HeldProcess;

/// A failure of the repository.
pub(super) fn repository_status(error: &Error) -> Status {
    match error {
        Error::Unavailable(_) => Status::unavailable(error.to_string()),
        _ => Status::internal(error.to_string()),
    }
}

/// Stored bytes that cannot be read.
pub(super) fn unreadable_status(error: &Unreadable) -> Status {
    Status::data_loss(error.to_string())
}

/// A rejection of the engine.
pub(super) fn rejection_status(rejection: &Rejection) -> Status {
    let code = match rejection {
        Rejection::NoSuchElement(_) => Code::NotFound,
        _ => Code::FailedPrecondition,
    };
    Status::new(code, rejection.to_string())
}

/// The process has ended.
pub(super) fn ended_status(_: ProcessEnded) -> Status {
    Status::failed_precondition("the process has ended")
}

/// The process is held.
pub(super) fn held_status(id: &str, held: &HeldProcess) -> Status {
    let reason = held.status.stalled.clone().unwrap_or_default();
    Status::failed_precondition(format!(
        "process {id:?} is {reason}; continue it with `xavantes resume {id}`, end it with `xavantes cancel {id}`, or \
         remove it with `xavantes forget --force {id}`"
    ))
}

/// Another coordinator runs the process.
pub(super) fn not_here_status(Entry { process, owner, .. }: &Entry) -> Status {
    Status::failed_precondition(format!("process {process:?} is not run by this coordinator, but by {owner:?}"))
}
