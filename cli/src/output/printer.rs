//! The printer: the one place that knows whether a command answers with text or JSON.

use std::io::IsTerminal;

use serde::Serialize;

use crate::args::Format;
use crate::exit::Exit;
use crate::output::terminal::Stream;
use crate::output::{json, logs, terminal};

/// A typed answer of a command: JSON by its `Serialize`, text by this.
pub(crate) trait Report: Serialize {
    /// Where the text goes. JSON always goes to standard output.
    const TEXT_STREAM: Stream = Stream::Stdout;

    /// The report for people.
    fn text(&self) -> String;
}

/// How a command answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    quiet: bool,
}

impl Output {
    pub(crate) fn new(format: Format, quiet: bool) -> Self {
        Self { format, quiet }
    }

    /// Whether the answer is for people.
    pub(crate) fn is_text(self) -> bool {
        self.format == Format::Text
    }

    /// Whether only results and errors are wanted.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Whether progress is shown at the bottom of the terminal.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// Prints the answer of a command.
    pub(crate) fn report<R: Report>(self, report: &R) -> Exit {
        match (self.format, R::TEXT_STREAM) {
            (Format::Text, Stream::Stderr) => {
                terminal::note_coloured(&report.text());
                Exit::Success
            }
            _ => terminal::print(&self.render(report)),
        }
    }

    /// Prints one line of a longer answer. Without a reader the command ends: the error is its exit code.
    pub(crate) fn line<R: Report>(self, report: &R) -> Result<(), Exit> {
        terminal::print_line(&self.render(report))
    }

    /// The answer as it would be printed.
    pub(crate) fn render<R: Report>(self, report: &R) -> String {
        match self.format {
            Format::Text => report.text(),
            Format::Json => json::document(report),
        }
    }

    /// A sink for the output of the activity at a path.
    pub(crate) fn logs(self, path: &str) -> logs::LogSink {
        logs::LogSink::new(self.format, path)
    }

    /// Shows a report beside the answer on standard error, unless the user wants only results and errors.
    pub(crate) fn warn<R: Report>(self, report: &R) {
        if !self.quiet {
            terminal::note_coloured(&report.text());
        }
    }

    /// Notes something on standard error, unless the user wants only results and errors.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            terminal::note(text);
        }
    }
}
