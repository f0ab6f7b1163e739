//! Errors of sled and of the system, by what helps: patience, an administrator, or a repair.

use std::io;
use std::path::Path;

use crate::error::Error;

/// The error that an error of sled causes.
pub(super) fn failure(directory: &Path, error: &sled::Error) -> Error {
    let text = format!("the database {} has failed: {error}", directory.display());
    match error {
        sled::Error::Io(error) => classify(error, text),
        _ => Error::Corrupt(text),
    }
}

/// Distinguishes errors that pass, errors that need an administrator, and damage.
pub(super) fn classify(error: &io::Error, text: String) -> Error {
    use io::ErrorKind::{
        OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, ResourceBusy, StorageFull, WouldBlock,
    };
    let too_many_files = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    match error.kind() {
        StorageFull | QuotaExceeded | OutOfMemory | ResourceBusy | WouldBlock => Error::Unavailable(text),
        _ if error.raw_os_error().is_some_and(|code| too_many_files.contains(&code)) => Error::Unavailable(text),
        PermissionDenied | ReadOnlyFilesystem => Error::Broken(text),
        _ => Error::Corrupt(text),
    }
}
