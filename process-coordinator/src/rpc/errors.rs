//! Errors as gRPC statuses.

use tonic::{Code, Status};
use xavantes_engine::Rejection;
use xavantes_repository::Error;

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

/// Upper bound on the bytes of an error message on the wire, where it is a header and clients limit headers.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// An error that every client can receive: a message that is too long is cut, and says so.
pub(super) fn bounded_status(status: Status) -> Status {
    let message = status.message();
    // A header has three bytes for each byte that is no plain letter, digit or sign.
    let on_wire = |c: char| if c.is_ascii_graphic() && c != '%' { 1 } else { 3 * c.len_utf8() };
    let mut total = 0;
    let cut = message.char_indices().find(|(_, c)| {
        total += on_wire(*c);
        total > MAX_MESSAGE_BYTES
    });
    match cut {
        None => status,
        Some((end, _)) => {
            let message = format!("{} … (cut: {} bytes in all)", &message[..end], message.len());
            Status::new(status.code(), message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(bounded_status(Status::not_found("short")).message(), "short");
        let long = bounded_status(Status::not_found("名".repeat(100_000)));
        assert_eq!(long.code(), Code::NotFound);
        assert!(long.message().starts_with(&"名".repeat(910)), "{}", long.message().len());
        assert!(long.message().ends_with("… (cut: 300000 bytes in all)"));
    }
}
