//! `--watch`: prints a report again whenever it changed.

use std::io::IsTerminal;
use std::time::Duration;

use console::{Term, truncate_str};
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
    let is_drawn = watch && std::io::stdout().is_terminal();
    // What is on the screen also depends on the size of the window.
    let render = |report: &R| {
        let text = output.render(report);
        if is_drawn { fit(&text, Term::stdout().size()) } else { text }
    };
    let print = |text: &str| if is_drawn { terminal::draw_screen(text) } else { terminal::print(text) };
    let mut printed = render(&snapshot.report);
    let mut exit = print(&printed);
    while watch && !snapshot.is_final && exit == Exit::Success {
        tokio::time::sleep(WATCH_INTERVAL).await;
        snapshot = match look().await {
            Ok(snapshot) => snapshot,
            Err(status) if status.code() == Code::Unavailable => return Err(refused(&status)),
            Err(_) => break,
        };
        let rendered = render(&snapshot.report);
        if rendered != printed {
            exit = print(&rendered);
            printed = rendered;
        }
    }
    Ok(exit)
}

/// Number of lines that a watched report shows, if the window bounds it.
pub(crate) fn window_rows(watch: bool) -> Option<u32> {
    (watch && std::io::stdout().is_terminal()).then(|| Term::stdout().size().0.into())
}

/// A text cut to a window of this many rows and columns. Its last line says that lines are missing.
fn fit(text: &str, (rows, columns): (u16, u16)) -> String {
    let (rows, columns) = (usize::from(rows.max(2)) - 1, usize::from(columns));
    let total = text.lines().count();
    let shown = if total > rows { rows - 1 } else { total };
    let mut fitted: String =
        text.lines().take(shown).map(|line| truncate_str(line, columns, "…").into_owned() + "\n").collect();
    if shown < total {
        fitted += &format!("{}\n", truncate_str("… the rest does not fit into the window", columns, "…"));
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_report_fits_the_window() {
        let text = "first line\nsecond\nthird\nfourth\n";
        assert_eq!(fit(text, (5, 80)), text);
        assert_eq!(fit(text, (4, 6)), "first…\nsecond\n… the…\n");
        assert_eq!(fit(text, (0, 80)), "… the rest does not fit into the window\n");
    }
}
