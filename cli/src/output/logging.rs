//! Log messages: which ones are shown, and how.

use std::io::{IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use crate::output::terminal;

/// Writes log messages like all others to standard error, so that they do not disturb the footer.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        terminal::note_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts logging: a node logs what happens, other commands only errors, unless `--verbose` or `--quiet` change that.
/// `RUST_LOG` overrides all of it.
pub(crate) fn start(is_node: bool, quiet: bool, verbose: u8) {
    let level = match (is_node, quiet, verbose) {
        (_, true, _) => "error",
        (true, false, 0) => "info",
        (false, false, 0) => "error",
        (_, false, 1) => "info",
        (_, false, _) => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_filter(level)));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| LogWriter).with_ansi(colour).init();
}

/// Warnings of all crates, and the messages of our own from `level` on.
fn default_filter(level: &str) -> String {
    let crates = ["activity_manager", "files", "group_manager", "process_coordinator", "node"];
    let ours = crates.map(|name| format!("xavantes_{name}={level}")).join(",");
    format!("warn,xavantes={level},{ours}")
}
