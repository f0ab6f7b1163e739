//! Problems of definitions, with their places.

use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_model::diagnostic::{Diagnostic, LineIndex, Source};

/// Whether definitions are valid.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Validation {
    /// Whether there are no errors
    pub valid: bool,
    /// All problems: errors and warnings
    pub problems: Vec<Finding>,
}

/// What a problem means for the definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) enum FindingSeverity {
    /// The definition cannot run
    Error,
    /// The definition can run, but probably does not mean what its author meant
    Warning,
}

/// A problem of a definition.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Finding {
    /// Name of the file
    pub file: String,
    /// First character
    pub start: PositionReport,
    /// Character after the last one
    pub end: PositionReport,
    /// Whether the definition can run nevertheless
    pub severity: FindingSeverity,
    /// Name of the rule: `unknown-element`, `lua-syntax`, …
    pub code: &'static str,
    /// What is wrong
    pub message: String,
    /// What was probably meant, or what to do; `null` if Xavantes does not know
    pub help: Option<String>,
    /// The whole file. Problems share it: a line may be as long as the file.
    #[serde(skip)]
    text: Arc<str>,
    /// The bytes of the line with the problem.
    #[serde(skip)]
    line: Range<usize>,
    /// The bytes within the line to mark; at least one character.
    #[serde(skip)]
    pub marked: Range<usize>,
}

/// A place in a file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Position"))]
pub(crate) struct PositionReport {
    /// Line, from 1
    pub line: u32,
    /// Column in characters, from 1
    pub column: u32,
}

impl Validation {
    pub(crate) fn new(sources: &[Source], diagnostics: &[Diagnostic]) -> Self {
        let lines: Vec<LineIndex> = sources.iter().map(|source| LineIndex::new(&source.text)).collect();
        let problem = |found: &Diagnostic| {
            let source = found.span.source;
            Finding::new(found, &sources[source], &lines[source])
        };
        let valid = !diagnostics.iter().any(Diagnostic::is_error);
        Self { valid, problems: diagnostics.iter().map(problem).collect() }
    }
}

impl Finding {
    fn new(found: &Diagnostic, source: &Source, lines: &LineIndex) -> Self {
        let bytes = &found.span.bytes;
        let position = |offset| {
            let place = lines.position(&source.text, offset);
            PositionReport { line: place.line, column: place.column }
        };
        let line_start = lines.start_of(lines.line(bytes.start));
        let rest = &source.text[line_start..];
        let line = rest.lines().next().unwrap_or_default();
        Self {
            file: source.name.to_string(),
            start: position(bytes.start),
            end: position(bytes.end),
            severity: if found.is_error() { FindingSeverity::Error } else { FindingSeverity::Warning },
            code: found.code,
            message: found.message.clone(),
            help: found.help.clone(),
            text: source.text.clone(),
            line: line_start..line_start + line.len(),
            marked: marked(line, bytes.start - line_start, bytes.end.saturating_sub(line_start)),
        }
    }

    /// The line with the problem.
    pub(crate) fn source_line(&self) -> &str {
        &self.text[self.line.clone()]
    }
}

/// The part of a line from one byte to another, at least one character.
fn marked(line: &str, from: usize, to: usize) -> Range<usize> {
    let from = from.min(line.len());
    let next = line[from..].chars().next().map_or(from, |c| from + c.len_utf8());
    from..to.clamp(next, line.len().max(next))
}
