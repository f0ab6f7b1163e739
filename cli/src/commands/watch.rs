//! `--watch`: prints a report again whenever it changed.

use std::io::IsTerminal;
use std::time::Duration;

use tonic::{Code, Status};

use crate::exit::Exit;
use crate::grid_connection::refused;
use crate::output::printer::{Output, Report};
use crate::output::terminal;

const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// A report, and whether it is the last one.
pub(crate) struct LiveSnapshot<R> {
    pub report: R,
    pub is_final: bool,
}

/// Prints a report; with `watch` again whenever it changed, until it is final or its subject is gone. On a terminal
/// each report replaces the one before.
pub(crate) async fn print_or_watch<R: Report>(
    watch: bool,
    output: Output,
    mut look: impl AsyncFnMut() -> Result<LiveSnapshot<R>, Status>,
) -> Result<Exit, Exit> {
    let mut snapshot = look().await.map_err(|status| refused(&status))?;
    let clears = watch && std::io::stdout().is_terminal();
    let print = |text: &str| {
        if clears {
            terminal::clear_screen();
        }
        terminal::print(text)
    };
    let mut printed = output.render(&snapshot.report);
    let mut exit = print(&printed);
    while watch && !snapshot.is_final && exit == Exit::Success {
        tokio::time::sleep(WATCH_INTERVAL).await;
        snapshot = match look().await {
            Ok(snapshot) => snapshot,
            Err(status) if status.code() == Code::Unavailable => return Err(refused(&status)),
            Err(_) => break,
        };
        let rendered = output.render(&snapshot.report);
        if rendered != printed {
            exit = print(&rendered);
            printed = rendered;
        }
    }
    Ok(exit)
}
