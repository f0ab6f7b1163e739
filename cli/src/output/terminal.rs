//! Writing to people: results go to standard output, everything else to standard error.

use std::io::{ErrorKind, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::exit::Exit;

/// The lines at the bottom of the terminal that show progress, if there are any.
static FOOTER: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Shows lines at the bottom of the terminal in place of those before. Other messages appear above them.
pub(crate) fn set_footer(lines: &str) {
    let mut footer = FOOTER.lock();
    let footer = footer.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        // A template of nothing but the message has no mistakes.
        bar.with_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()))
    });
    footer.set_message(lines.to_owned());
}

/// Removes the lines at the bottom of the terminal.
pub(crate) fn clear_footer() {
    if let Some(footer) = FOOTER.lock().take() {
        footer.finish_and_clear();
    }
}

/// Prints to standard output. A reader that went away, as in `xavantes schema | head`, is no error.
pub(crate) fn print(text: &str) -> Exit {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => error(&format!("cannot write: {cause}")),
        _ => Exit::Success,
    }
}

/// Prints to standard output unchanged. A reader that went away ends the command with success.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Exit> {
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
    note_bytes(text.as_bytes());
}

/// Writes to standard error bytes that may be no text.
pub(crate) fn note_bytes(bytes: &[u8]) {
    let write = || {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
    };
    match &*FOOTER.lock() {
        Some(footer) => footer.suspend(write),
        None => write(),
    }
}
