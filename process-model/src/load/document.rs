//! A well-formed document while it is checked.

use std::cell::Cell;
use std::ops::Range;

use super::identifiers::single_name;
use crate::diagnostic::{LineIndex, Span};
use crate::script::{self, Form, NameUse, SyntaxError};
use crate::xml;

/// Upper bound on the pieces of code in one document, without those that are just a name. It bounds time: checking a
/// piece takes some ten microseconds, although four bytes are enough to write one.
const MAX_CODE_PIECES: usize = 200_000;

/// A well-formed document.
pub(super) struct ParsedDocument {
    /// Position among the sources.
    pub index: usize,
    pub tree: xml::XmlTree,
    pub lines: LineIndex,
    /// Pieces of code checked so far.
    code_pieces: Cell<usize>,
}

impl ParsedDocument {
    pub fn new(index: usize, text: &str, tree: xml::XmlTree) -> Self {
        Self { index, tree, lines: LineIndex::new(text), code_pieces: Cell::new(0) }
    }

    /// Returns the span of bytes of this document.
    pub fn span(&self, bytes: &Range<usize>) -> Span {
        Span::new(self.index, bytes.clone())
    }

    /// Returns the line of an element.
    pub fn line(&self, node: xml::XmlElementId) -> u32 {
        self.lines.line(self.tree.element(node).span.start)
    }

    /// Returns the free names of a piece of code. Most expressions are one name, which needs no parser.
    pub fn free_names(&self, text: &str, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
        if let (Form::Expression, Some(single)) = (form, single_name(text)) {
            return Ok(vec![single]);
        }
        self.code_pieces.set(self.code_pieces.get() + 1);
        if self.code_pieces.get() > MAX_CODE_PIECES {
            let message = format!("the document has more than {MAX_CODE_PIECES} pieces of code");
            return Err(SyntaxError { message, at: 0..text.len() });
        }
        script::check(text, form)
    }
}
