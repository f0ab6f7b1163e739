//! Writing to people: results go to standard output, everything else to standard error. What goes to a terminal is made
//! visible first, because it may quote texts of others: a terminal would obey them.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use console::Term;
use parking_lot::Mutex;

use crate::exit::Exit;
use crate::output::footer::Footer;
use crate::output::visible::{VisibleBytes, visible, visible_coloured, visible_log};

const HOME: &str = "\x1b[H";
const CLEAR_TO_END_OF_LINE: &str = "\x1b[K";
const CLEAR_TO_END_OF_SCREEN: &str = "\x1b[J";

/// The lines at the bottom of the terminal that show progress, if there are any.
static FOOTER: Mutex<Footer> = Mutex::new(Footer::new());
/// Whether the user wants everything unchanged, also on a terminal.
static RAW: AtomicBool = AtomicBool::new(false);

/// A stream of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Whether what goes there must be made visible.
    fn needs_visible(self) -> bool {
        let is_terminal = match self {
            Self::Stdout => std::io::stdout().is_terminal(),
            Self::Stderr => std::io::stderr().is_terminal(),
        };
        is_terminal && !is_raw()
    }

    fn safe(self, text: &str) -> Cow<'_, str> {
        if self.needs_visible() { visible(text) } else { text.into() }
    }

    fn write(self, bytes: &[u8]) -> Result<(), Exit> {
        match self {
            Self::Stdout => write_stdout(bytes),
            Self::Stderr => {
                write_stderr(bytes);
                Ok(())
            }
        }
    }
}

/// From now on everything goes out unchanged, also to a terminal.
pub(crate) fn set_raw() {
    RAW.store(true, Ordering::Relaxed);
}

fn is_raw() -> bool {
    RAW.load(Ordering::Relaxed)
}

/// Shows lines at the bottom of the terminal in place of those before. Other messages appear above them.
pub(crate) fn set_footer(lines: &str) {
    let mut footer = FOOTER.lock();
    write_unguarded(footer.draw(&visible(lines), stderr_columns()).as_bytes());
}

/// Removes the lines at the bottom of the terminal.
pub(crate) fn clear_footer() {
    let mut footer = FOOTER.lock();
    write_unguarded(std::mem::take(&mut *footer).erase(stderr_columns()).as_bytes());
}

fn stderr_columns() -> usize {
    Term::stderr().size().1.into()
}

/// Draws a text on the terminal of standard output in place of everything that was there, line by line, so that nothing
/// flickers.
pub(crate) fn draw_screen(text: &str) -> Exit {
    let safe = Stream::Stdout.safe(text);
    let lines = safe.lines().map(|line| format!("{line}{CLEAR_TO_END_OF_LINE}\n"));
    let drawn: String = [HOME.to_owned()].into_iter().chain(lines).chain([CLEAR_TO_END_OF_SCREEN.to_owned()]).collect();
    write_stdout(drawn.as_bytes()).err().unwrap_or(Exit::Success)
}

/// Prints to standard output. A reader that went away, as in `xavantes schema | head`, is no error.
pub(crate) fn print(text: &str) -> Exit {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    write_stdout(format!("{}{newline}", Stream::Stdout.safe(text)).as_bytes()).err().unwrap_or(Exit::Success)
}

/// Prints one line of a longer answer. Without a reader the command ends: the error is its exit code.
pub(crate) fn print_line(line: &str) -> Result<(), Exit> {
    write_stdout(format!("{}\n", Stream::Stdout.safe(line)).as_bytes())
}

/// A reader that went away ends the command with success.
fn write_stdout(bytes: &[u8]) -> Result<(), Exit> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|cause| match cause.kind() {
        ErrorKind::BrokenPipe => Exit::Success,
        _ => error(&format!("cannot write: {cause}")),
    })
}

/// Prints an error message. Returns the exit code for wrong usage, which most errors mean.
pub(crate) fn error(message: &str) -> Exit {
    note(&format!("error: {message}\n"));
    Exit::Usage
}

/// Writes to standard error. If that has no reader, as in `xavantes validate 2>&1 | head`, the command continues.
pub(crate) fn note(text: &str) {
    write_stderr(Stream::Stderr.safe(text).as_bytes());
}

/// Writes a text to standard error that the program coloured.
pub(crate) fn note_coloured(text: &str) {
    match Stream::Stderr.needs_visible() {
        true => write_stderr(visible_coloured(text).as_bytes()),
        false => write_stderr(text.as_bytes()),
    }
}

/// Writes a log message to standard error: one line, which is safe to read wherever it ends up.
pub(crate) fn log(message: &[u8]) {
    match is_raw() {
        true => write_stderr(message),
        false => write_stderr(visible_log(&String::from_utf8_lossy(message)).as_bytes()),
    }
}

/// Writes to standard error, above the lines at the bottom of the terminal.
fn write_stderr(bytes: &[u8]) {
    let footer = FOOTER.lock();
    let erased = footer.erase(stderr_columns());
    match erased.is_empty() {
        true => write_unguarded(bytes),
        false => write_unguarded(&[erased.as_bytes(), bytes, footer.redraw().as_bytes()].concat()),
    }
}

/// Writes to standard error as it is. A stream without a reader is no error.
fn write_unguarded(bytes: &[u8]) {
    if !bytes.is_empty() {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
    }
}

/// Bytes of others on their way to a stream, piece by piece.
pub(crate) struct ByteStream {
    stream: Stream,
    visible: Option<VisibleBytes>,
}

impl ByteStream {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, visible: stream.needs_visible().then(VisibleBytes::default) }
    }

    /// Writes the next piece. Without a reader of standard output the command ends: the error is its exit code.
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<(), Exit> {
        match &mut self.visible {
            Some(visible) => self.stream.write(visible.add(piece).as_bytes()),
            None => self.stream.write(piece),
        }
    }

    /// Writes what is left of the last piece.
    pub(crate) fn finish(&mut self) -> Result<(), Exit> {
        match self.visible.as_mut().map(VisibleBytes::finish) {
            Some(rest) => self.stream.write(rest.as_bytes()),
            None => Ok(()),
        }
    }
}
