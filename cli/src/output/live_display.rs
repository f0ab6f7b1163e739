//! What `run`, `wait` and `submit --wait` show while a process runs: on a terminal its progress; `run` everywhere the lines that
//! activities print.

use std::time::{Duration, Instant, SystemTime};

use console::Term;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use xavantes_proto::v1;

use crate::output::printer::Output;
use crate::output::progress::ProgressDisplay;
use crate::output::terminal::{clear_footer, set_footer};

/// A process in which nothing can run without other workers is stuck after this time.
const STUCK_TIMEOUT: Duration = Duration::from_secs(3);

const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// When to draw. Not at once: a process that has ended, or ends soon, has no progress to show.
pub(crate) fn draw_interval() -> Interval {
    let mut draws = interval_at(tokio::time::Instant::now() + DRAW_INTERVAL, DRAW_INTERVAL);
    draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
    draws
}

/// The live display of a process.
pub(crate) struct LiveDisplay {
    output: Output,
    is_live: bool,
    /// When the process was submitted; until that is known, when this display began.
    began: Instant,
    is_began_known: bool,
    progress: ProgressDisplay,
    /// Since when nothing can run without other workers.
    stuck_since: Option<Instant>,
}

impl LiveDisplay {
    pub(crate) fn new(output: Output, process: &str) -> Self {
        let (is_live, began) = (output.shows_progress(), Instant::now());
        let progress = ProgressDisplay::new(process);
        Self { output, is_live, began, is_began_known: false, progress, stuck_since: None }
    }

    /// Whether progress is shown.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    pub(crate) fn on_status(&mut self, status: v1::ProcessStatus) {
        if !self.is_began_known {
            let submitted = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(status.submitted_ms));
            let passed = submitted.and_then(|submitted| SystemTime::now().duration_since(submitted).ok());
            self.began = Instant::now().checked_sub(passed.unwrap_or_default()).unwrap_or(self.began);
            self.is_began_known = true;
        }
        self.progress.on_status(status, self.began.elapsed());
    }

    /// Returns why the process is stuck, if it has been for a while.
    pub(crate) fn on_tree(&mut self, tree: &v1::Element) -> Option<String> {
        if !self.is_began_known {
            return None;
        }
        let clock_ms =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.progress.on_tree(tree, self.began.elapsed(), clock_ms);
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
        let (height, width) = Term::stderr().size();
        set_footer(&self.progress.lines(self.began.elapsed(), width.into(), height.into()).join("\n"));
    }

    /// Removes the progress.
    pub(crate) fn clear(&self) {
        clear_footer();
    }
}
