//! Collects the findings about a set of documents.

use crate::diagnostic::{Diagnostic, Span};

/// Upper bound on the findings in a report, because a longer list helps nobody.
const MAX_FINDINGS: usize = 200;
/// Upper bound on the names that are compared with a misspelt one, because each comparison takes time.
pub(super) const MAX_CANDIDATES: usize = 1000;

/// The findings so far.
#[derive(Default)]
pub(super) struct LoadReport {
    found: Vec<Diagnostic>,
    /// Says that there are more findings than the report shows.
    left_out: Option<Diagnostic>,
}

impl LoadReport {
    /// True if the report shows no further findings.
    pub fn is_full(&self) -> bool {
        self.left_out.is_some()
    }

    /// Adds a finding.
    pub fn push(&mut self, mut diagnostic: Diagnostic) {
        if self.found.len() < MAX_FINDINGS {
            diagnostic.message = presentable(diagnostic.message);
            diagnostic.help = diagnostic.help.map(presentable);
            self.found.push(diagnostic);
        } else if self.left_out.is_none() {
            let message = format!("there are more than {MAX_FINDINGS} problems; the others are not shown");
            self.left_out = Some(
                Diagnostic::new("too-many", diagnostic.span, message).help("correct some of these and check again"),
            );
        }
    }

    /// Adds a finding. `help` runs only if the finding will be shown.
    pub fn add(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl FnOnce() -> Option<String>,
    ) {
        let help = if self.found.len() < MAX_FINDINGS { help() } else { None };
        self.push(Diagnostic { help, ..Diagnostic::new(code, span, message) });
    }

    /// Returns the findings in the order of the documents, if there are any.
    pub fn finish(mut self) -> Result<(), Vec<Diagnostic>> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|diagnostic| (diagnostic.span.source, diagnostic.span.bytes.start));
        self.found.extend(self.left_out);
        Err(self.found)
    }
}

/// Makes a message safe to show. It may quote the author's text, which can be long and can contain characters that move
/// the cursor or change the direction of a line.
fn presentable(text: String) -> String {
    const MAX_CHARS: usize = 500;
    let invisible = |c: char| {
        c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if text.len() <= MAX_CHARS && !text.contains(invisible) {
        return text;
    }
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index == MAX_CHARS => {
                shown.push('…');
                break;
            }
            c if invisible(c) => shown.extend(c.escape_debug()),
            c => shown.push(c),
        }
    }
    shown
}
