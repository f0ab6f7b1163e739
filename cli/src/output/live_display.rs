//! What `run` shows while a process runs: on a terminal its progress, everywhere the lines that activities print.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use console::Term;
use xavantes_proto::v1;

use crate::output::printer::Output;
use crate::output::progress::ProgressDisplay;
use crate::output::terminal::{clear_footer, set_footer};

/// A process in which nothing can run without other workers is stuck after this time.
const STUCK_TIMEOUT: Duration = Duration::from_secs(3);

/// The live display of a process.
pub(crate) struct LiveDisplay {
    output: Output,
    is_live: bool,
    began: Instant,
    progress: ProgressDisplay,
    /// Since when nothing can run without other workers.
    stuck_since: Option<Instant>,
}

impl LiveDisplay {
    pub(crate) fn new(output: Output, process: &str, began: Instant) -> Self {
        let is_live = !output.is_quiet() && std::io::stderr().is_terminal();
        Self { output, is_live, began, progress: ProgressDisplay::new(process), stuck_since: None }
    }

    /// Whether progress is shown.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    pub(crate) fn on_status(&mut self, status: v1::ProcessStatus) {
        self.progress.on_status(status, self.began.elapsed());
    }

    /// Returns why the process is stuck, if it has been for a while.
    pub(crate) fn on_tree(&mut self, tree: &v1::Element) -> Option<String> {
        self.progress.on_tree(tree, self.began.elapsed());
        let Some(reason) = self.progress.stuck().map(str::to_owned) else {
            self.stuck_since = None;
            return None;
        };
        let since = *self.stuck_since.get_or_insert_with(Instant::now);
        (since.elapsed() > STUCK_TIMEOUT).then_some(reason)
    }

    pub(crate) fn on_cancel(&mut self) {
        self.progress.on_cancel();
    }

    /// Prints lines of activities, each with the path of its activity, and removes them from the list.
    pub(crate) fn on_printed(&self, lines: &mut Vec<(String, String)>) {
        let text: String = lines.drain(..).map(|(path, line)| format!("{path}: {line}\n")).collect();
        if !text.is_empty() {
            self.output.note(&text);
        }
    }

    /// Draws the progress.
    pub(crate) fn draw(&self) {
        let (_, width) = Term::stderr().size();
        set_footer(&self.progress.lines(self.began.elapsed(), width.into()).join("\n"));
    }

    /// Removes the progress.
    pub(crate) fn clear(&self) {
        clear_footer();
    }
}
