//! What a program writes: to its log, and what of it is needed at once.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::logs::{Log, Which};

/// Of the end of each stream so much is part of an error.
const TAIL: usize = 4 << 10;
/// Read at once: while a program runs, and of what is left when it has ended.
const BUFFER: usize = 32 << 10;
const REST: usize = 4 << 10;
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

/// One of the streams that a program writes to. It need not be watched: what was written before it ended is there
/// afterwards.
pub(crate) struct Outlet<'a> {
    log: &'a Log,
    which: Which,
    /// All of it is wanted.
    capture: bool,
    pipe: Pipe,
    pub written: Written,
}

enum Pipe {
    Unwatched(OwnedFd),
    Watched(pipe::Receiver),
    Over,
}

impl<'a> Outlet<'a> {
    pub fn new(pipe: Option<OwnedFd>, log: &'a Log, which: Which, capture: bool) -> Self {
        let pipe = pipe.map_or(Pipe::Over, Pipe::Unwatched);
        Self { log, which, capture, pipe, written: Written::default() }
    }

    /// Reads the stream to its end, as it comes. Nothing is lost if it is not waited for to the end.
    pub async fn watch(&mut self) {
        self.pipe = match std::mem::replace(&mut self.pipe, Pipe::Over) {
            // Without room for it nothing can be watched; the program is told that nobody reads.
            Pipe::Unwatched(pipe) => pipe::Receiver::from_owned_fd_unchecked(pipe).map_or(Pipe::Over, Pipe::Watched),
            other => other,
        };
        let mut buffer = Vec::new();
        while let Pipe::Watched(pipe) = &mut self.pipe {
            buffer.clear();
            buffer.reserve(BUFFER);
            match pipe.read_buf(&mut buffer).await {
                Ok(1..) => self.took(&buffer),
                _ => self.pipe = Pipe::Over,
            }
        }
    }

    /// Reads what is there of a stream that was not watched; true if there will be no more.
    pub fn drain(&mut self) -> bool {
        let mut buffer = [0; REST];
        while let Pipe::Unwatched(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(count @ 1..) => self.took(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Ok(0) | Err(_) => self.pipe = Pipe::Over,
            }
        }
        matches!(self.pipe, Pipe::Over)
    }

    fn took(&mut self, data: &[u8]) {
        self.log.write(self.which, data);
        self.written.take(data, self.capture);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::logs::{Rules, Shelf, Title};

    #[tokio::test]
    async fn nothing_is_lost_however_often_a_stream_is_watched() {
        let place = std::env::temp_dir().join(format!("xavantes-output-{}", std::process::id()));
        let shelf = Shelf::open(&place, Rules::default()).expect("there is room");
        let log = shelf.begin(Title { realm: "r".into(), path: "p".into(), attempt: 1 });
        for watched in 0..3 {
            let (reader, mut writer) = std::io::pipe().expect("there is room");
            let reader = OwnedFd::from(reader);
            rustix::io::ioctl_fionbio(&reader, true).expect("it is a pipe");
            let mut outlet = Outlet::new(Some(reader), &log, Which::Stdout, true);
            for number in 0..watched {
                write!(writer, "{number}").expect("there is room");
                // It is given up while it waits for more.
                let waits = tokio::time::timeout(std::time::Duration::from_millis(20), outlet.watch()).await;
                assert!(waits.is_err());
            }
            assert!(!outlet.drain(), "somebody could write more");
            write!(writer, "end").expect("there is room");
            drop(writer);
            if !outlet.drain() {
                outlet.watch().await;
            }
            let expected = ["end", "0end", "01end"][watched];
            assert_eq!(outlet.written.captured, expected.as_bytes());
            assert!(outlet.drain());
        }
        std::fs::remove_dir_all(&place).ok();
    }

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
