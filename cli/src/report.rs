//! Writing to people: results go to standard output, everything else to standard error.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Exit;

/// The lines at the foot of the terminal that are kept up to date, if there are any.
static FOOT: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn foot() -> MutexGuard<'static, Option<ProgressBar>> {
    // Every change of it is one statement, so a poisoned lock is as good as another.
    FOOT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows lines at the foot of the terminal, in the place of those shown before. What is told meanwhile appears above them.
pub(crate) fn set_foot(lines: &str) {
    let mut foot = foot();
    let foot = foot.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        // A template of nothing but the message has no mistakes.
        bar.with_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()))
    });
    foot.set_message(lines.to_owned());
}

/// Takes away what is shown at the foot of the terminal.
pub(crate) fn clear_foot() {
    if let Some(foot) = foot().take() {
        foot.finish_and_clear();
    }
}

/// Prints to standard output. A reader that went away, as in `xavantes schema | head`, is no error.
pub(crate) fn print(text: &str) -> Exit {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => complain(&format!("cannot write: {error}")),
        _ => Exit::Success,
    }
}

/// Prints to standard output as it is; what follows is of no use if nobody reads it any more.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Exit> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Exit::Success,
        _ => complain(&format!("cannot write: {error}")),
    })
}

/// Tells what was wrong with what was asked.
pub(crate) fn complain(message: &str) -> Exit {
    tell(&format!("error: {message}\n"));
    Exit::Usage
}

/// Writes to standard error. If nobody reads that any more, as in `xavantes validate 2>&1 | head`, the command goes on.
pub(crate) fn tell(text: &str) {
    tell_bytes(text.as_bytes());
}

/// The same with what may be no text.
pub(crate) fn tell_bytes(bytes: &[u8]) {
    let write = || {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
    };
    match &*foot() {
        Some(foot) => foot.suspend(write),
        None => write(),
    }
}

/// Writes logs as everything else is told.
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        tell(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Logs go to standard error: for a node what happens, for other commands what is wrong, unless more is asked for.
/// `RUST_LOG` has the last word.
pub(crate) fn start_log(is_node: bool, quiet: bool, verbose: u8) {
    let level = match (is_node, quiet, verbose) {
        (_, true, _) => "error",
        (true, false, 0) => "info",
        (false, false, 0) => "error",
        (_, false, 1) => "info",
        (_, false, _) => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("warn,xavantes={level},{}", ours(level))));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Log).with_ansi(colour).init();
}

fn ours(level: &str) -> String {
    ["activity_manager", "files", "group_manager", "process_coordinator", "node"]
        .map(|name| format!("xavantes_{name}={level}"))
        .join(",")
}
