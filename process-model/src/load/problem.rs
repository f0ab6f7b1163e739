//! Problems in code, reported at their place in the document.

use std::ops::Range;

use super::document::ParsedDocument;
use super::report::LoadReport;
use crate::diagnostic::Span;
use crate::script::SyntaxError;
use crate::xml::MappedText;

/// A problem with a name in a script.
pub(super) struct LoadProblem<'a> {
    pub code: &'static str,
    /// Bytes of the script.
    pub at: Range<usize>,
    pub message: String,
    /// True for a problem with an assignment, which leaves open what the script assigns.
    pub write: bool,
    /// True if the script can be used nevertheless.
    pub warning: bool,
    /// Computes the advice, only for problems that the report shows.
    pub help: Box<dyn FnOnce() -> Option<String> + 'a>,
}

/// A script that is larger than Luau allows.
pub(super) struct CodeTooLarge {
    pub code: &'static str,
    pub message: String,
    pub help: &'static str,
}

/// Reports a `${` without its `}`.
pub(super) fn report_unclosed(document: &ParsedDocument, report: &mut LoadReport, span: &Range<usize>) {
    report.add("bad-value", document.span(span), "this `${` is never closed", || {
        Some("add the closing }, or write $${ for a literal ${".into())
    });
}

/// The place of a script in its document.
pub(super) struct ProblemPlace<'p> {
    pub document: &'p ParsedDocument,
    pub mapped: &'p MappedText,
    /// Offset at which the script begins in the text of its attribute or element.
    pub start: usize,
}

impl ProblemPlace<'_> {
    fn span(&self, at: Range<usize>) -> Span {
        self.document.span(&self.mapped.source_range(self.start + at.start..self.start + at.end))
    }

    /// Reports a syntax error.
    pub fn report_syntax_error(&self, report: &mut LoadReport, text: &str, error: SyntaxError) {
        let templates = text.contains("${");
        let message = self.with_document_lines(text, &error.message);
        report.add("lua-syntax", self.span(error.at), message, || {
            templates.then(|| "code is written without ${ }".into())
        });
    }

    /// Luau counts lines from the beginning of the script; people count them from the beginning of the document.
    fn with_document_lines(&self, text: &str, message: &str) -> String {
        const AT_LINE: &str = "at line ";
        let mut shown = String::new();
        let mut rest = message;
        while let Some(found) = rest.find(AT_LINE) {
            let (before, behind) = rest.split_at(found + AT_LINE.len());
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            shown.push_str(before);
            match behind[..digits].parse::<usize>() {
                Ok(line) => {
                    let offset: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
                    let offset = self.mapped.source_offset(self.start + offset);
                    shown.push_str(&self.document.lines.line(offset).to_string());
                }
                Err(_) => shown.push_str(&behind[..digits]),
            }
            rest = &behind[digits..];
        }
        shown + rest
    }

    /// Reports problems. Returns whether the script can be used.
    pub fn report_problems(&self, report: &mut LoadReport, problems: Vec<LoadProblem<'_>>) -> bool {
        let usable = problems.iter().all(|problem| problem.warning);
        for LoadProblem { code, at, message, warning, help, .. } in problems {
            match warning {
                true => report.warn(code, self.span(at), message, help),
                false => report.add(code, self.span(at), message, help),
            }
        }
        usable
    }

    /// Reports that a script is too large.
    pub fn report_too_large(
        &self,
        report: &mut LoadReport,
        text: &str,
        CodeTooLarge { code, message, help }: CodeTooLarge,
    ) {
        let start = text.len() - text.trim_start().len();
        report.add(code, self.span(start..text.trim_end().len().max(start)), message, || Some(help.into()));
    }
}
