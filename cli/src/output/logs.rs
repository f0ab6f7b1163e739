//! The output of activities: as text piece by piece to the stream it was written to, as JSON in one document.

use xavantes_proto::v1;

use crate::args::Format;
use crate::exit::Exit;
use crate::output::terminal::{ByteStream, Stream};
use crate::output::{json, terminal};
use crate::report::log_lines::Log;

/// Receives the pieces of a log.
pub(crate) struct LogSink {
    format: Format,
    path: String,
    first: Option<v1::LogPiece>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    text_stdout: ByteStream,
    text_stderr: ByteStream,
}

impl LogSink {
    pub(crate) fn new(format: Format, path: &str) -> Self {
        Self {
            format,
            path: path.to_owned(),
            first: None,
            stdout: Vec::new(),
            stderr: Vec::new(),
            text_stdout: ByteStream::new(Stream::Stdout),
            text_stderr: ByteStream::new(Stream::Stderr),
        }
    }

    /// Adds a piece. Text without a reader ends the command: the error is its exit code.
    pub(crate) fn add(&mut self, piece: v1::LogPiece) -> Result<(), Exit> {
        let mut bytes = match piece.left_out {
            0 => Vec::new(),
            count => format!("\n[{count} bytes are left out]\n").into_bytes(),
        };
        bytes.extend_from_slice(&piece.data);
        match (self.format, piece.stderr) {
            (Format::Text, false) => self.text_stdout.write(&bytes)?,
            (Format::Text, true) => self.text_stderr.write(&bytes)?,
            (Format::Json, false) => self.stdout.append(&mut bytes),
            (Format::Json, true) => self.stderr.append(&mut bytes),
        }
        self.first.get_or_insert(piece);
        Ok(())
    }

    /// Ends the log. `stdout` and `stderr` say which of the two the user asked for.
    pub(crate) fn finish(mut self, stdout: bool, stderr: bool) -> Exit {
        let first = self.first.unwrap_or_default();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let log = Log {
            path: self.path,
            attempt: first.attempt,
            node: first.node,
            stdout: stdout.then(|| text(self.stdout)),
            stderr: stderr.then(|| text(self.stderr)),
        };
        match self.format {
            Format::Text => {
                let ended = self.text_stdout.finish().and_then(|()| self.text_stderr.finish());
                ended.err().unwrap_or(Exit::Success)
            }
            Format::Json => terminal::print(&json::document(&log)),
        }
    }
}
