//! The log of a running attempt.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tracing::warn;
use xavantes_proto::v1;

use super::log_entry::LogTitle;
use super::stream_layout::place;

/// A standard stream of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    fn suffix(self) -> &'static str {
        match self {
            Self::Stdout => "out",
            Self::Stderr => "err",
        }
    }
}

/// What a running attempt has written to one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamLog {
    pub written: u64,
    /// Open from the first byte until the end of the attempt.
    pub file: Option<File>,
}

/// The log of an attempt that runs, or has just ended.
#[derive(Debug)]
pub(crate) struct AttemptLog {
    pub title: LogTitle,
    pub number: u64,
    pub began_ms: u64,
    pub limit: u64,
    pub folder: Arc<Path>,
    pub streams: [Mutex<StreamLog>; 2],
    pub ended: AtomicBool,
    /// Notified when there is more output, and at the end.
    pub changed: Notify,
}

impl AttemptLog {
    /// Appends output. If the disk takes no more, the bytes are counted and lost.
    pub fn write(&self, stream: OutputStream, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let mut log = self.stream(stream);
        if log.file.is_none() && log.written == 0 {
            let path = log_path(&self.folder, self.number, stream);
            match create_private(&path) {
                Ok(file) => log.file = Some(file),
                Err(error) => warn!(path = %path.display(), %error, "could not create a log file; output is lost"),
            }
        }
        if let Some(file) = &log.file {
            for placement in place(log.written, data.len(), self.limit) {
                if let Err(error) = file.write_all_at(&data[placement.data], placement.offset) {
                    warn!(path = self.title.path, %error, "could not write a log file; output is lost");
                    break;
                }
            }
        }
        log.written += data.len() as u64;
        drop(log);
        self.changed.notify_waiters();
    }

    pub fn stream(&self, stream: OutputStream) -> MutexGuard<'_, StreamLog> {
        self.streams[stream as usize].lock()
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub fn to_record(&self) -> v1::AttemptRecord {
        v1::AttemptRecord {
            attempt: self.title.attempt,
            began_ms: self.began_ms,
            state: v1::State::Running.into(),
            stdout_bytes: self.stream(OutputStream::Stdout).written,
            stderr_bytes: self.stream(OutputStream::Stderr).written,
            ..v1::AttemptRecord::default()
        }
    }
}

/// The file of a stream.
pub(crate) fn log_path(folder: &Path, number: u64, stream: OutputStream) -> PathBuf {
    folder.join(format!("{number}.{}", stream.suffix()))
}

/// Creates a file that only this user may read, with its folder if that does not exist.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            open()
        }
        opened => opened,
    }
}
