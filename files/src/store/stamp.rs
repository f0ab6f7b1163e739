//! Detects modification of files from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Identity, size and times of a file. Every write to the file, and every replacement of it, changes its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub inode: u64,
    size: u64,
    modified: Timestamp,
    /// When content or metadata last changed. Unlike `modified`, programs cannot set it.
    changed: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timestamp {
    seconds: i64,
    nanoseconds: i64,
}

impl Stamp {
    /// Reads the stamp of the file at a path; nothing if there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            size: metadata.len(),
            modified: Timestamp { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() },
            changed: Timestamp { seconds: metadata.ctime(), nanoseconds: metadata.ctime_nsec() },
        })
    }
}

/// When the machine was booted, as time since 1970; zero if the kernel does not report it.
pub(crate) fn boot_time() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    Duration::from_secs(line.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(0))
}
