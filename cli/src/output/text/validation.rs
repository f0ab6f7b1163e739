//! Problems of definitions: each with its source line and a marker.

use std::io::IsTerminal;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::output::printer::Report;
use crate::output::terminal::Stream;
use crate::output::visible::visible_line;
use crate::report::validation::{FindingSeverity, Validation};

impl Report for Validation {
    const TEXT_STREAM: Stream = Stream::Stderr;

    fn text(&self) -> String {
        if self.problems.is_empty() {
            return String::new();
        }
        let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for problem in &self.problems {
            // Only the line of the problem: the renderer would scan the whole file for each problem.
            let snippet = Snippet::source(problem.source_line())
                .path(visible_line(&problem.file))
                .line_start(problem.start.line as usize)
                .annotation(AnnotationKind::Primary.span(problem.marked.clone()));
            let level = match problem.severity {
                FindingSeverity::Error => Level::ERROR,
                FindingSeverity::Warning => Level::WARNING,
            };
            let title = level.primary_title(&problem.message).id(problem.code);
            let mut group = Group::with_title(title).element(snippet);
            if let Some(help) = &problem.help {
                group = group.element(Level::HELP.message(help));
            }
            text += &renderer.render(&[group]);
            text += "\n\n";
        }
        let number = |severity, noun: &str| {
            let count = self.problems.iter().filter(|problem| problem.severity == severity).count();
            (count > 0).then(|| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }))
        };
        let counts = [number(FindingSeverity::Error, "problem"), number(FindingSeverity::Warning, "warning")];
        text + &counts.into_iter().flatten().collect::<Vec<_>>().join(", ") + "\n"
    }
}
