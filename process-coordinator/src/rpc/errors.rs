//! Errors as gRPC statuses.

use tonic::{Code, Status};
use xavantes_engine::Rejection;
use xavantes_repository::Error;

use crate::process::handle::ProcessEnded;
use crate::process::process_registry::HeldProcess;
use crate::record_codec::Unreadable;

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

/// This coordinator is recovering the process that a path is in.
pub(super) fn recovering_status(path: &str) -> Status {
    Status::unavailable(format!(
        "this coordinator is taking over the process of {path:?} at the moment; ask again in some seconds"
    ))
}

/// The process is held.
pub(super) fn held_status(id: &str, held: &HeldProcess) -> Status {
    let reason = held.status.stalled.clone().unwrap_or_default();
    Status::failed_precondition(format!(
        "process {id:?} is {reason}; continue it with `xavantes resume {id}`, end it with `xavantes cancel {id}`, or \
         remove it with `xavantes forget --force {id}`"
    ))
}
