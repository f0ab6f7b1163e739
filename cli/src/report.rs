//! Writing to people: results go to standard output, everything else to standard error.

use std::io::{ErrorKind, Write};

use crate::Exit;

/// Prints to standard output. A reader that went away, as in `xavantes schema | head`, is no error.
pub(crate) fn print(text: &str) -> Exit {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => complain(&format!("cannot write: {error}")),
        _ => Exit::Success,
    }
}

/// Tells what was wrong with what was asked.
pub(crate) fn complain(message: &str) -> Exit {
    tell(&format!("error: {message}\n"));
    Exit::Usage
}

/// Writes to standard error. If nobody reads that any more, as in `xavantes validate 2>&1 | head`, the command goes on.
pub(crate) fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
