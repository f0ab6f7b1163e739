//! Findings about documents. Every finding carries its place, so that people see the source line and editors can jump
//! to it.

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

/// A document as given by its author.
#[derive(Debug, Clone)]
pub struct Source {
    /// Name for messages: a file name, or `<stdin>`.
    pub name: Arc<str>,
    /// Whole text.
    pub text: Arc<str>,
}

impl Source {
    /// Makes a document of its name and text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A byte range in one of the sources being checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Position of the source in the list of checked sources.
    pub source: usize,
    /// Bytes in that source.
    pub bytes: Range<usize>,
}

impl Span {
    /// Makes a span of `bytes` in the source at position `source`.
    pub fn new(source: usize, bytes: Range<usize>) -> Self {
        Self { source, bytes }
    }
}

/// What a finding means for the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The documents cannot be used.
    Error,
    /// The documents can be used, but probably do not mean what their author meant.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the documents can be used nevertheless.
    pub severity: Severity,
    /// Stable short name of the rule, for scripts: `unknown-element`, `lua-syntax`, …
    pub code: &'static str,
    /// Message in one sentence.
    pub message: String,
    /// Place in the documents.
    pub span: Span,
    /// Advice: what the author probably meant, or what to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Makes an error without advice.
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code, message: message.into(), span, help: None }
    }

    /// True if the documents cannot be used because of this finding.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Adds advice to the finding.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A line and a column, counted from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// Finds lines in a text in logarithmic time.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Makes an index of a text in one pass.
    pub fn new(text: &str) -> Self {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|i| i + 1)).collect();
        Self { starts }
    }

    /// Returns the line of a byte offset, counted from 1.
    pub fn line(&self, offset: usize) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    /// Returns the byte offset at which a line begins; lines count from 1.
    pub fn start_of(&self, line: u32) -> usize {
        self.starts.get(line.saturating_sub(1) as usize).copied().unwrap_or_else(|| *self.starts.last().unwrap_or(&0))
    }

    /// Returns the position of a byte offset. `text` must be the text of this index.
    pub fn position(&self, text: &str, offset: usize) -> Position {
        let line = self.line(offset);
        let start = self.start_of(line);
        let column = text.get(start..offset).map_or(1, |before| before.chars().count() as u32 + 1);
        Position { line, column }
    }
}

/// Returns `did you mean "x"?` if one of the candidates is close enough to what the author wrote.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // The time for the distance is quadratic in the length of the names.
    const MAX_BYTES: usize = 40;
    if written.len() > MAX_BYTES {
        return None;
    }
    let folded = written.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_BYTES)
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            // Two names that have no character in common are not misspellings of each other, however short they are.
            let length = candidate.chars().count().max(folded.chars().count());
            *distance < length && *distance <= 1 + length / 4
        })
        .min()
        .map(|(_, candidate)| format!("did you mean {candidate:?}?"))
}
