//! Reading the log of one attempt, while it runs or later.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::live_log::{AttemptLog, OutputStream, log_path};
use super::log_entry::LogEntry;
use super::stream_layout::readable;

/// Upper bound on one read.
const READ_BYTES: usize = 64 << 10;
/// The last lines of a stream are searched in this many bytes at its end.
const TAIL_SEARCH_BYTES: u64 = 1 << 20;
/// Longest wait of a follower: the end of an attempt might be missed between two waits.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// A log that can be read.
#[derive(Debug, Clone)]
pub(crate) enum LogReader {
    /// Of an attempt that runs, or ran when the reader was made.
    Live(Arc<AttemptLog>),
    /// Of an attempt that has ended.
    Ended { folder: Arc<Path>, entry: Arc<LogEntry> },
}

/// Output of an attempt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogChunk {
    /// Bytes before the data that the file no longer holds.
    pub left_out: u64,
    /// Empty at the end.
    pub data: Vec<u8>,
}

impl LogReader {
    /// Which attempt of the element this is.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Live(log) => log.title.attempt,
            Self::Ended { entry, .. } => entry.title.attempt,
        }
    }

    /// True if the attempt writes no more.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Live(log) => log.has_ended(),
            Self::Ended { .. } => true,
        }
    }

    /// Returns when there may be more output, when the attempt ended, or after a short time.
    pub async fn changed(&self) {
        if let Self::Live(log) = self {
            let notified = log.changed.notified();
            let _ = tokio::time::timeout(FOLLOW_INTERVAL, notified).await;
        }
    }

    fn written(&self, stream: OutputStream) -> u64 {
        match self {
            Self::Live(log) => log.stream(stream).written,
            Self::Ended { entry, .. } => entry.written[stream as usize],
        }
    }

    /// The output from `from` on.
    pub fn read(&self, stream: OutputStream, from: u64) -> io::Result<LogChunk> {
        match self {
            Self::Live(log) => {
                // The lock keeps the attempt from writing meanwhile.
                let output = log.stream(stream);
                match &output.file {
                    Some(file) => read_file(file, from, output.written, log.limit),
                    // The attempt has just ended.
                    None if output.written > 0 => {
                        let file = File::open(log_path(&log.folder, log.number, stream))?;
                        read_file(&file, from, output.written, log.limit)
                    }
                    None => Ok(LogChunk::default()),
                }
            }
            Self::Ended { entry, .. } if entry.written[stream as usize] == 0 => Ok(LogChunk::default()),
            Self::Ended { folder, entry } => {
                let file = File::open(log_path(folder, entry.number, stream))?;
                read_file(&file, from, entry.written[stream as usize], entry.limit)
            }
        }
    }

    /// The position where the last `lines` lines begin.
    pub fn tail_start(&self, stream: OutputStream, lines: u32) -> io::Result<u64> {
        let written = self.written(stream);
        let mut at = written.saturating_sub(TAIL_SEARCH_BYTES);
        let (mut begin, mut text) = (at, Vec::new());
        loop {
            let LogChunk { left_out, data } = self.read(stream, at)?;
            if left_out > 0 {
                (begin, text) = (at + left_out, Vec::new());
            }
            at += left_out + data.len() as u64;
            if data.is_empty() || at > written {
                break;
            }
            text.extend_from_slice(&data);
        }
        let bytes = text.strip_suffix(b"\n").unwrap_or(&text).iter().enumerate().rev();
        let mut breaks = bytes.filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let first = breaks.nth(lines.saturating_sub(1) as usize).map_or(0, |at| at + 1);
        Ok(begin + first as u64)
    }
}

fn read_file(file: &File, from: u64, written: u64, limit: u64) -> io::Result<LogChunk> {
    let range = readable(from, written, limit);
    let mut data = vec![0; range.length.min(READ_BYTES as u64) as usize];
    let mut filled = 0;
    while filled < data.len() {
        match file.read_at(&mut data[filled..], range.offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    if filled == 0 && !data.is_empty() {
        // The disk was full when the attempt wrote this.
        return Ok(LogChunk { left_out: written - from, data: Vec::new() });
    }
    data.truncate(filled);
    Ok(LogChunk { left_out: range.left_out, data })
}
