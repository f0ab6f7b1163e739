//! Writing to people: results go to standard output, everything else to standard error.

use std::io::{ErrorKind, IsTerminal, Write};

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
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}

fn ours(level: &str) -> String {
    ["activity_manager", "group_manager", "process_coordinator", "node"]
        .map(|name| format!("xavantes_{name}={level}"))
        .join(",")
}
