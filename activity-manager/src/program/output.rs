//! What a program writes: to its log, and what of it is needed at once.

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::logs::{Log, Which};

/// Of the end of each stream so much is part of an error.
const TAIL: usize = 4 << 10;
/// Read at once.
const BUFFER: usize = 32 << 10;
/// What a program prints can be a result up to this size.
pub(crate) const MOST_CAPTURED: usize = 16 << 20;

/// What was read of a stream.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How much there was.
    pub total: u64,
    /// All of it, up to a limit, if that was wanted.
    pub captured: Vec<u8>,
    tail: Vec<u8>,
}

impl Written {
    fn take(&mut self, data: &[u8], capture: bool) {
        self.total += data.len() as u64;
        if capture {
            let room = MOST_CAPTURED.saturating_sub(self.captured.len());
            self.captured.extend_from_slice(&data[..data.len().min(room)]);
        }
        self.tail.extend_from_slice(&data[data.len().saturating_sub(TAIL)..]);
        let extra = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..extra);
    }

    /// Its last lines. A first one that is not complete is left out.
    pub fn last_lines(&self) -> Option<String> {
        let mut tail = &self.tail[..];
        if self.total > TAIL as u64
            && let Some(at) = tail.iter().position(|byte| *byte == b'\n')
        {
            tail = &tail[at + 1..];
        }
        let text = String::from_utf8_lossy(tail).trim_end().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// Reads a stream to its end.
pub(crate) async fn read(
    stream: Option<pipe::Receiver>,
    log: &Log,
    which: Which,
    capture: bool,
    written: &mut Written,
) {
    let Some(mut stream) = stream else { return };
    let mut buffer = Vec::with_capacity(BUFFER);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        log.write(which, &buffer);
        written.take(&buffer, capture);
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole() {
        let mut written = Written::default();
        assert_eq!(written.last_lines(), None);
        written.take(b"one\ntwo\n\n", false);
        assert_eq!(written.last_lines().as_deref(), Some("one\ntwo"));
        written.take(&[b'x'; TAIL - 5], true);
        written.take(b"\nlast\xff\n", true);
        assert_eq!(written.last_lines().as_deref(), Some("last\u{fffd}"));
        assert_eq!((written.total, written.captured.len()), (9 + TAIL as u64 + 2, TAIL + 2));
    }
}
