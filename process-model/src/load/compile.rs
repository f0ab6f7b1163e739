//! From the text of one script, wherever it is written, to code that is ready to run; problems are reported where
//! they are in the document.

use std::ops::Range;

use super::bindings::{fits, wrong_literal};
use super::grammar::{self, Tag};
use super::names::{Building, single_name, type_of};
use super::scope::{Problem, Resolver, TooMuch};
use super::scripts::Linker;
use super::template::{self, Piece};
use super::{Document, Report};
use crate::definition::{NodeId, Script, Summary};
use crate::diagnostic::Span;
use crate::script::{Form, SyntaxError};
use crate::value::Type;
use crate::xml::{self, Attribute, Mapped, is_blank};

/// Where an expression is written.
pub(super) enum Written<'d> {
    Attribute(&'d Mapped),
    Child(Mapped),
}

impl Written<'_> {
    pub fn mapped(&self) -> &Mapped {
        match self {
            Written::Attribute(mapped) => mapped,
            Written::Child(mapped) => mapped,
        }
    }
}

/// An attribute that is a literal or one `${…}`.
pub(super) enum Value {
    Literal(String),
    Code(Range<usize>),
}

impl<'a> Linker<'a> {
    /// An attribute that is a literal or exactly one `${…}`.
    pub fn value(&mut self, attribute: &Attribute) -> Option<Value> {
        let mut pieces = self.pieces(attribute)?;
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if is_blank(text)));
        match pieces.as_slice() {
            [] => Some(Value::Literal(String::new())),
            [Piece::Text(text)] => Some(Value::Literal(text.clone())),
            [Piece::Code(range)] => Some(Value::Code(range.clone())),
            _ => {
                let span = self.document.span(&attribute.value_span);
                let message = format!("{}: text and ${{…}} cannot be mixed here", attribute.name);
                self.report.add("bad-value", span, message, || Some("put all of it into one ${…}".into()));
                None
            }
        }
    }

    /// The pieces of an attribute.
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

    /// Reports an expression that surely gives something else.
    pub fn check_type(&mut self, at: &Attribute, range: Range<usize>, ty: Type, may_be_nil: bool) {
        let text = &at.value.value[range.clone()];
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let problem = match single_name(text) {
            Some(name) => type_of(&view, &name)
                .filter(|given| !fits(*given, ty))
                .map(|given| format!("expected {}, but {:?} is {}", ty.name(), text.trim(), given.name())),
            None => wrong_literal(text.trim(), ty, may_be_nil),
        };
        if let Some(problem) = problem {
            let span = self.document.span(&at.value.source_range(range));
            self.report.add("bad-value", span, format!("{}: {problem}", at.name), || None);
        }
    }

    /// A condition that is an attribute or a child element.
    pub fn condition(&mut self, xml: xml::ElementId, tag: Tag, scope: NodeId, summaries: &[Summary]) -> Option<Script> {
        let document = self.document;
        let Some(written) = self.written(xml, tag, Tag::Condition) else {
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

    /// The text of an expression that is an attribute or a child element of the same name, not both.
    pub fn written(&mut self, xml: xml::ElementId, tag: Tag, child_tag: Tag) -> Option<Written<'a>> {
        let document = self.document;
        let name = child_tag.name();
        let child = grammar::child(document, xml, child_tag);
        let attribute = document.tree.element(xml).attribute(name);
        match (attribute, child) {
            (None, None) => None,
            (Some(attribute), None) => Some(Written::Attribute(&attribute.value)),
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
                text.map(Written::Child)
            }
        }
    }

    fn line(&self, mapped: &Mapped, offset: usize) -> u32 {
        self.document.lines.line(mapped.source_offset(offset))
    }

    /// Compiles one expression.
    pub fn expression(&mut self, at: &Mapped, range: Range<usize>, scope: NodeId, asks: &[Summary]) -> Option<Script> {
        let line = self.line(at, range.start);
        let text = &at.value[range.clone()];
        let place = Place { document: self.document, mapped: at, start: range.start };
        let used =
            self.document.uses(text, Form::Expression).map_err(|error| place.syntax(self.report, text, error)).ok()?;
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let mut resolver = Resolver::new(&view, scope, Form::Expression, asks);
        place.problems(self.report, resolver.take(&used))?;
        let read = std::mem::take(&mut resolver.read);
        let script = resolver.expressions(&[text], line);
        self.keep(read);
        script.map_err(|too_much| place.too_much(self.report, text, too_much)).ok()
    }

    /// Compiles the statements in an element, if there are any, even if some names in them are wrong; tells whether
    /// all that they assign is known.
    pub fn statements(
        &mut self,
        node: xml::ElementId,
        scope: NodeId,
        asks: &[Summary],
    ) -> Option<(Option<Script>, bool)> {
        let Some(at) = self.document.tree.text(node).filter(|text| !is_blank(&text.value)) else {
            return Some((None, true));
        };
        let text = at.value.as_str();
        let line = self.line(&at, 0);
        let place = Place { document: self.document, mapped: &at, start: 0 };
        let used =
            self.document.uses(text, Form::Statements).map_err(|error| place.syntax(self.report, text, error)).ok()?;
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let mut resolver = Resolver::new(&view, scope, Form::Statements, asks);
        let problems = resolver.take(&used);
        let certain = !problems.iter().any(|problem| problem.write);
        let _ = place.problems(self.report, problems);
        let read = std::mem::take(&mut resolver.read);
        let script = resolver.statements(text, line);
        self.keep(read);
        let script = script.map_err(|too_much| place.too_much(self.report, text, too_much)).ok()?;
        Some((Some(script), certain))
    }

    /// The results of these elements are asked for.
    pub fn keep(&mut self, read: Vec<NodeId>) {
        read.into_iter().for_each(|element| self.nodes[element.index()].kept = true);
    }

    /// The names in reach now.
    pub fn names(&self) -> Building<'_> {
        Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table }
    }
}

/// Reports a `${` without its `}`.
pub(super) fn report_unclosed(document: &Document, report: &mut Report, span: &Range<usize>) {
    report.add("bad-value", document.span(span), "this ${ is never closed", || {
        Some("add the closing }, or write $${ for a literal ${".into())
    });
}

/// Where a script is in its document.
pub(super) struct Place<'p> {
    pub document: &'p Document,
    pub mapped: &'p Mapped,
    /// Where in the text of the attribute or element it begins.
    pub start: usize,
}

impl Place<'_> {
    fn span(&self, at: Range<usize>) -> Span {
        self.document.span(&self.mapped.source_range(self.start + at.start..self.start + at.end))
    }

    /// Reports a syntax error.
    pub fn syntax(&self, report: &mut Report, text: &str, error: SyntaxError) {
        let templates = text.contains("${");
        report.add("lua-syntax", self.span(error.at), error.message, || {
            templates.then(|| "code is written without ${ }".into())
        });
    }

    /// Reports problems; none if there are some.
    pub fn problems(&self, report: &mut Report, problems: Vec<Problem<'_>>) -> Option<()> {
        let clean = problems.is_empty();
        for problem in problems {
            report.add(problem.code, self.span(problem.at), problem.message, problem.help);
        }
        clean.then_some(())
    }

    /// Reports that a script is more than it can be.
    pub fn too_much(&self, report: &mut Report, text: &str, TooMuch { code, message, help }: TooMuch) {
        let start = text.len() - text.trim_start().len();
        report.add(code, self.span(start..text.trim_end().len().max(start)), message, || Some(help.into()));
    }
}
