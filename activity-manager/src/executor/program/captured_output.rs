//! The output of a program: into its log, into results, and into messages.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::logs::live_log::{AttemptLog, OutputStream};

/// Bytes of the end of a stream that an error message shows.
const TAIL_BYTES: usize = 4 << 10;
/// Size of a read while a program runs.
const READ_BYTES: usize = 32 << 10;
/// Size of a read after a program ended.
const DRAIN_BYTES: usize = 4 << 10;
/// Upper bound on printed results.
pub(crate) const MAX_CAPTURED_BYTES: usize = 16 << 20;

/// The part of a stream that stays in memory.
#[derive(Debug, Default)]
pub(crate) struct CapturedOutput {
    /// Length of the whole stream.
    pub total: u64,
    /// The stream up to [`MAX_CAPTURED_BYTES`], if it is a result.
    pub bytes: Vec<u8>,
    tail: Vec<u8>,
}

impl CapturedOutput {
    fn append(&mut self, data: &[u8], capture: bool) {
        self.total += data.len() as u64;
        if capture {
            let free = MAX_CAPTURED_BYTES.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&data[..data.len().min(free)]);
        }
        self.tail.extend_from_slice(&data[data.len().saturating_sub(TAIL_BYTES)..]);
        let extra = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..extra);
    }

    /// The last lines, without an incomplete first one.
    pub fn last_lines(&self) -> Option<String> {
        let mut tail = &self.tail[..];
        if self.total > TAIL_BYTES as u64
            && let Some(at) = tail.iter().position(|byte| *byte == b'\n')
        {
            tail = &tail[at + 1..];
        }
        let text = String::from_utf8_lossy(tail).trim_end().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// The pipe of one output stream. A short program need not be watched: its output is still in the pipe after its end.
pub(crate) struct OutputPipe<'a> {
    log: &'a AttemptLog,
    stream: OutputStream,
    /// True if the stream is a result.
    capture: bool,
    pipe: PipeState,
    pub captured: CapturedOutput,
}

enum PipeState {
    Unwatched(OwnedFd),
    Watched(pipe::Receiver),
    Closed,
}

impl<'a> OutputPipe<'a> {
    pub fn new(pipe: Option<OwnedFd>, log: &'a AttemptLog, stream: OutputStream, capture: bool) -> Self {
        let pipe = pipe.map_or(PipeState::Closed, PipeState::Unwatched);
        Self { log, stream, capture, pipe, captured: CapturedOutput::default() }
    }

    /// Reads the stream to its end. Cancel safe: a dropped future loses no output.
    pub async fn watch(&mut self) {
        self.pipe = match std::mem::replace(&mut self.pipe, PipeState::Closed) {
            // If the runtime cannot register the pipe, it is closed, and the program sees a broken pipe.
            PipeState::Unwatched(pipe) => {
                pipe::Receiver::from_owned_fd_unchecked(pipe).map_or(PipeState::Closed, PipeState::Watched)
            }
            other => other,
        };
        let mut buffer = Vec::new();
        while let PipeState::Watched(pipe) = &mut self.pipe {
            buffer.clear();
            buffer.reserve(READ_BYTES);
            match pipe.read_buf(&mut buffer).await {
                Ok(1..) => self.on_data(&buffer),
                _ => self.pipe = PipeState::Closed,
            }
        }
    }

    /// Reads the rest of a stream that was not watched. Returns true at the end of the stream.
    pub fn drain(&mut self) -> bool {
        let mut buffer = [0; DRAIN_BYTES];
        while let PipeState::Unwatched(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(count @ 1..) => self.on_data(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Ok(0) | Err(_) => self.pipe = PipeState::Closed,
            }
        }
        matches!(self.pipe, PipeState::Closed)
    }

    fn on_data(&mut self, data: &[u8]) {
        self.log.write(self.stream, data);
        self.captured.append(data, self.capture);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::logs::log_entry::LogTitle;
    use crate::logs::log_store::{LogLimits, LogStore};

    #[tokio::test]
    async fn no_output_is_lost_however_often_watching_is_interrupted() {
        let folder = tempfile::tempdir().expect("the disk has space");
        let store = LogStore::open(folder.path(), LogLimits::default()).expect("the disk has space");
        let log = store.begin(LogTitle { realm: "r".into(), path: "p".into(), attempt: 1 });
        for watched in 0..3 {
            let (reader, mut writer) = std::io::pipe().expect("the pipe has space");
            let reader = OwnedFd::from(reader);
            rustix::io::ioctl_fionbio(&reader, true).expect("a pipe can be non-blocking");
            let mut pipe = OutputPipe::new(Some(reader), &log, OutputStream::Stdout, true);
            for number in 0..watched {
                write!(writer, "{number}").expect("the pipe has space");
                // The timeout drops the future while it waits for more.
                let waits = tokio::time::timeout(std::time::Duration::from_millis(20), pipe.watch()).await;
                assert!(waits.is_err());
            }
            assert!(!pipe.drain(), "the writer is still open");
            write!(writer, "end").expect("the pipe has space");
            drop(writer);
            if !pipe.drain() {
                pipe.watch().await;
            }
            let expected = ["end", "0end", "01end"][watched];
            assert_eq!(pipe.captured.bytes, expected.as_bytes());
            assert!(pipe.drain());
        }
    }

    #[test]
    fn the_last_lines_are_complete_lines() {
        let mut output = CapturedOutput::default();
        assert_eq!(output.last_lines(), None);
        output.append(b"one\ntwo\n\n", false);
        assert_eq!(output.last_lines().as_deref(), Some("one\ntwo"));
        output.append(&[b'x'; TAIL_BYTES - 5], true);
        output.append(b"\nlast\xff\n", true);
        assert_eq!(output.last_lines().as_deref(), Some("last\u{fffd}"));
        assert_eq!((output.total, output.bytes.len()), (9 + TAIL_BYTES as u64 + 2, TAIL_BYTES + 2));
    }
}
