//! Collects the findings about a set of documents.

use crate::diagnostic::{Diagnostic, Severity, Span};

/// Upper bound on the errors in a report, because a longer list helps nobody.
const MAX_FINDINGS: usize = 200;
/// Upper bound on the warnings in a report.
const MAX_WARNINGS: usize = 50;
/// Upper bound on the names that are compared with a misspelt one, because each comparison takes time.
pub(super) const MAX_CANDIDATES: usize = 1000;

/// The findings so far.
#[derive(Default)]
pub(super) struct LoadReport {
    found: Vec<Diagnostic>,
    /// Says that there are more findings than the report shows.
    left_out: Option<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// Says that there are more warnings than the report shows.
    warnings_left_out: Option<Diagnostic>,
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

    /// Adds a warning: the documents can be used nevertheless. `help` runs only if the warning will be shown.
    pub fn warn(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl FnOnce() -> Option<String>,
    ) {
        let warning = |code, span, message| Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::new(code, span, presentable(message))
        };
        if self.warnings.len() < MAX_WARNINGS {
            let help = help().map(presentable);
            self.warnings.push(Diagnostic { help, ..warning(code, span, message.into()) });
        } else if self.warnings_left_out.is_none() {
            let message = format!("there are more than {MAX_WARNINGS} warnings; the others are not shown");
            self.warnings_left_out = Some(warning("too-many", span, message));
        }
    }

    /// Returns the findings in the order of the documents: the warnings if there are no errors, or else all of them.
    pub fn finish(self) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        let in_order = |findings: &mut Vec<Diagnostic>| {
            findings.sort_by_key(|diagnostic| (diagnostic.span.source, diagnostic.span.bytes.start));
        };
        let Self { mut found, left_out, mut warnings, warnings_left_out } = self;
        if found.is_empty() {
            in_order(&mut warnings);
            warnings.extend(warnings_left_out);
            return Ok(warnings);
        }
        found.extend(warnings);
        in_order(&mut found);
        found.extend(left_out.into_iter().chain(warnings_left_out));
        Err(found)
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
