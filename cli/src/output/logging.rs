//! Log messages: which ones are shown, and how.

use std::io::{IsTerminal, Write};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::output::terminal;

/// Writes log messages like all others to standard error, so that they do not disturb the footer. Each call of `write` is
/// one message.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        terminal::log(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts logging: a node logs what happens, other commands only errors, unless `--verbose` or `--quiet` change that.
/// `RUST_LOG` overrides all of it: `debug`, or `target=level` separated by commas.
pub(crate) fn start(is_node: bool, quiet: bool, verbose: u8) {
    let level = match (is_node, quiet, verbose) {
        (_, true, _) => LevelFilter::ERROR,
        (true, false, 0) => LevelFilter::INFO,
        (false, false, 0) => LevelFilter::ERROR,
        (_, false, 1) => LevelFilter::INFO,
        (_, false, _) => LevelFilter::DEBUG,
    };
    let wanted = std::env::var("RUST_LOG").ok().and_then(|directives| directives.parse::<Targets>().ok());
    let filter = wanted.unwrap_or_else(|| default_filter(level));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let messages = fmt::layer().with_writer(|| LogWriter).with_ansi(colour);
    tracing_subscriber::registry().with(messages).with(filter).init();
}

/// Warnings of all crates, and the messages of our own from `level` on.
fn default_filter(level: LevelFilter) -> Targets {
    let crates = ["", "_activity_manager", "_files", "_group_manager", "_process_coordinator", "_node"];
    let ours = crates.map(|name| (format!("xavantes{name}"), level));
    Targets::new().with_default(LevelFilter::WARN).with_targets(ours)
}
