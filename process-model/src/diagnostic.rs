//! What is wrong with a document: every finding carries the place it was found, so that people see the
//! source line and editors can jump to it.

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

/// A document as given by its author.
#[derive(Debug, Clone)]
pub struct Source {
    /// What the author calls it: a file name, or `<stdin>`.
    pub name: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
}

impl Source {
    /// A document from its name and text.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A byte range in one of the sources being checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Which source, by its position in the list that was checked.
    pub source: usize,
    /// Bytes of that source.
    pub bytes: Range<usize>,
}

impl Span {
    /// A span of `bytes` in the source at position `source`.
    pub fn new(source: usize, bytes: Range<usize>) -> Self {
        Self { source, bytes }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable short name of the rule, for scripts: `unknown-element`, `lua-syntax`, …
    pub code: &'static str,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What was probably meant or what to do, when we can tell.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A finding without advice.
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), span, help: None }
    }

    /// The same finding with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Lines and columns, counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// Finds lines in a text in logarithmic time.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Scans the text once.
    pub fn new(text: &str) -> Self {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|i| i + 1)).collect();
        Self { starts }
    }

    /// The line of a byte offset, counted from 1.
    pub fn line(&self, offset: usize) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    /// Where a line begins, in bytes; lines count from 1.
    pub fn start_of(&self, line: u32) -> usize {
        self.starts.get(line.saturating_sub(1) as usize).copied().unwrap_or_else(|| *self.starts.last().unwrap_or(&0))
    }

    /// Line and column of a byte offset in the text that this index was made from.
    pub fn position(&self, text: &str, offset: usize) -> Position {
        let line = self.line(offset);
        let start = self.start_of(line);
        let column = text.get(start..offset).map_or(1, |before| before.chars().count() as u32 + 1);
        Position { line, column }
    }
}

/// `did you mean "x"?`, when one of the candidates is close enough to what was written.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Names longer than this are not typing mistakes, and the distance is quadratic in their length.
    const LONGEST: usize = 40;
    if written.len() > LONGEST {
        return None;
    }
    let folded = written.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            // Of two names that share nothing one is not a misspelling of the other, however short they are.
            let length = candidate.chars().count().max(folded.chars().count());
            *distance < length && *distance <= 1 + length / 4
        })
        .min()
        .map(|(_, candidate)| format!("did you mean {candidate:?}?"))
}
