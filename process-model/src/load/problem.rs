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
        report.add("lua-syntax", self.span(error.at), error.message, || {
            templates.then(|| "code is written without ${ }".into())
        });
    }

    /// Reports problems. Returns whether there are none.
    pub fn report_problems(&self, report: &mut LoadReport, problems: Vec<LoadProblem<'_>>) -> bool {
        let clean = problems.is_empty();
        for problem in problems {
            report.add(problem.code, self.span(problem.at), problem.message, problem.help);
        }
        clean
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
