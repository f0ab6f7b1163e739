//! Compiles one script of a process type: from its attribute or child element to code with resolved names.

use std::ops::Range;

use super::linker::Linker;
use super::resolver::Resolver;
use super::scope::{CodePlace, TypeInProgress, type_of};
use crate::definition::{DefinitionNodeId, LoopSummary, Script};
use crate::load::grammar::{self, Tag};
use crate::load::identifiers::single_name;
use crate::load::problem::{ProblemPlace, report_unclosed};
use crate::load::template::{self, Piece};
use crate::load::type_check::{fits, wrong_literal};
use crate::script::{Form, RAISES};
use crate::value::Type;
use crate::xml::{self, Attribute, MappedText, is_blank};

/// The text of an expression, from an attribute or a child element.
pub(super) enum ExpressionText<'d> {
    Attribute(&'d MappedText),
    Child(MappedText),
}

impl ExpressionText<'_> {
    pub fn mapped(&self) -> &MappedText {
        match self {
            ExpressionText::Attribute(mapped) => mapped,
            ExpressionText::Child(mapped) => mapped,
        }
    }
}

/// The value of an attribute that takes a literal or one `${…}`.
pub(super) enum AttributeValue {
    Literal(String),
    /// Bytes of the expression in the attribute.
    Code(Range<usize>),
}

impl<'a> Linker<'a> {
    /// Reads an attribute that takes a literal or exactly one `${…}`.
    pub fn value(&mut self, attribute: &Attribute) -> Option<AttributeValue> {
        let mut pieces = self.pieces(attribute)?;
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if is_blank(text)));
        match pieces.as_slice() {
            [] => Some(AttributeValue::Literal(String::new())),
            [Piece::Text(text)] => Some(AttributeValue::Literal(text.clone())),
            [Piece::Code(range)] => Some(AttributeValue::Code(range.clone())),
            _ => {
                let span = self.document.span(&attribute.value_span);
                let message = format!("{}: text and ${{…}} cannot be mixed here", attribute.name);
                self.report.add("bad-value", span, message, || Some("put all of it into one ${…}".into()));
                None
            }
        }
    }

    /// Cuts an attribute into pieces.
    pub fn pieces(&mut self, attribute: &Attribute) -> Option<Vec<Piece>> {
        match template::cut(&attribute.value.value) {
            Ok(pieces) => Some(pieces),
            Err(at) => {
                let span = attribute.value.source_range(at..attribute.value.value.len());
                report_unclosed(self.document, self.report, &span);
                None
            }
        }
    }

    /// Reports an expression that certainly does not have the type `ty`.
    pub fn check_type(&mut self, at: &Attribute, range: Range<usize>, ty: Type, may_be_nil: bool) {
        let text = &at.value.value[range.clone()];
        let names = TypeInProgress {
            nodes: &self.nodes,
            drafts: &self.drafts,
            types: self.types,
            table: &self.table,
            forwards: &self.forwards,
        };
        let problem = match single_name(text) {
            Some(name) => type_of(&names, &name)
                .filter(|given| !fits(*given, ty))
                .map(|given| format!("expected {}, but {:?} is {}", ty.name(), text.trim(), given.name())),
            None => wrong_literal(text.trim(), ty, may_be_nil),
        };
        if let Some(problem) = problem {
            let span = self.document.span(&at.value.source_range(range));
            self.report.add("bad-value", span, format!("{}: {problem}", at.name), || None);
        }
    }

    /// Compiles a condition that is an attribute or a child element.
    pub fn condition(
        &mut self,
        xml: xml::XmlElementId,
        tag: Tag,
        scope: DefinitionNodeId,
        summaries: &[LoopSummary],
    ) -> Option<Script> {
        let document = self.document;
        let Some(written) = self.expression_text(xml, tag, Tag::Condition) else {
            let element = document.tree.element(xml);
            let child = grammar::child(document, xml, Tag::Condition);
            if element.attribute("CONDITION").is_none() && child.is_none() {
                let message = format!("{} needs a CONDITION", tag.name());
                self.report.add("missing-attribute", document.span(&element.name_span), message, || {
                    Some("write it as an attribute, or as a child element".into())
                });
            }
            return None;
        };
        let mapped = written.mapped();
        self.expression(mapped, 0..mapped.value.len(), scope, summaries)
    }

    /// Returns the text of an expression that is an attribute or a child element of the same name, but not both.
    pub fn expression_text(&mut self, xml: xml::XmlElementId, tag: Tag, child_tag: Tag) -> Option<ExpressionText<'a>> {
        let document = self.document;
        let name = child_tag.name();
        let child = grammar::child(document, xml, child_tag);
        let attribute = document.tree.element(xml).attribute(name);
        match (attribute, child) {
            (None, None) => None,
            (Some(attribute), None) => Some(ExpressionText::Attribute(&attribute.value)),
            (Some(_), Some(child)) => {
                let span = document.span(&document.tree.element(child).name_span);
                let message = format!("{} has {name} both as an attribute and as a child element", tag.name());
                self.report.add("duplicate-element", span, message, || Some("keep one of them".into()));
                None
            }
            (None, Some(child)) => {
                let text = document.tree.text(child);
                if text.is_none() {
                    let span = document.span(&document.tree.element(child).name_span);
                    self.report.add("lua-syntax", span, "an expression is missing", || None);
                }
                text.map(ExpressionText::Child)
            }
        }
    }

    fn line(&self, mapped: &MappedText, offset: usize) -> u32 {
        self.document.lines.line(mapped.source_offset(offset))
    }

    /// Compiles one expression.
    pub fn expression(
        &mut self,
        at: &MappedText,
        range: Range<usize>,
        scope: DefinitionNodeId,
        summaries: &[LoopSummary],
    ) -> Option<Script> {
        let line = self.line(at, range.start);
        let text = &at.value[range.clone()];
        let place = ProblemPlace { document: self.document, mapped: at, start: range.start };
        let used = self
            .document
            .free_names(text, Form::Expression)
            .map_err(|error| place.report_syntax_error(self.report, text, error))
            .ok()?;
        let names = TypeInProgress {
            nodes: &self.nodes,
            drafts: &self.drafts,
            types: self.types,
            table: &self.table,
            forwards: &self.forwards,
        };
        let mut resolver = Resolver::new(&names, scope, Form::Expression, summaries, CodePlace::Other);
        if !place.report_problems(self.report, resolver.resolve_all(&used)) {
            return None;
        }
        let read = std::mem::take(&mut resolver.read);
        let script = resolver.expressions(&[text], line);
        self.keep_results(read);
        script.map_err(|too_large| place.report_too_large(self.report, text, too_large)).ok()
    }

    /// Compiles the statements in an element, even if some names in them are wrong. The flag says whether all
    /// assignments are known. Returns `None` if the text is not valid Lua.
    pub fn statements(
        &mut self,
        node: xml::XmlElementId,
        scope: DefinitionNodeId,
        summaries: &[LoopSummary],
        place: CodePlace,
    ) -> Option<(Option<Script>, bool)> {
        let Some(at) = self.document.tree.text(node).filter(|text| !is_blank(&text.value)) else {
            return Some((None, true));
        };
        let text = at.value.as_str();
        let line = self.line(&at, 0);
        let source = ProblemPlace { document: self.document, mapped: &at, start: 0 };
        let used = self
            .document
            .free_names(text, Form::Statements)
            .map_err(|error| source.report_syntax_error(self.report, text, error))
            .ok()?;
        let names = TypeInProgress {
            nodes: &self.nodes,
            drafts: &self.drafts,
            types: self.types,
            table: &self.table,
            forwards: &self.forwards,
        };
        let mut resolver = Resolver::new(&names, scope, Form::Statements, summaries, place);
        let problems = resolver.resolve_all(&used);
        let certain = !problems.iter().any(|problem| problem.write);
        let raises = used.iter().any(|it| it.name == RAISES);
        source.report_problems(self.report, problems);
        let read = std::mem::take(&mut resolver.read);
        let script = resolver.statements(text, line);
        self.keep_results(read);
        if raises {
            self.raising.insert(scope);
        }
        let script = script.map_err(|too_large| source.report_too_large(self.report, text, too_large)).ok()?;
        Some((Some(script), certain))
    }
}
