//! The code of a process type: each script is resolved in the scope where it runs, in document order.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::after;
use super::elements::{Part, Skeleton};
use super::grammar::{self, Tag};
use super::literals;
use super::scope::{self, Building, Moment, Names, Problem, Resolver, Table};
use super::template::{self, Piece};
use super::{Document, Report, Types};
use crate::definition::{Axis, AxisValues, Bound, Kind, Node, NodeId, Parallel, Script, Source, Summary, Target};
use crate::script::{Form, SyntaxError};
use crate::value::Type;
use crate::xml::{self, Attribute, Mapped};

/// Adds the code to the nodes of a type.
pub(super) fn link(document: &Document, types: &Types, skeleton: Skeleton, report: &mut Report) -> Vec<Node> {
    let Skeleton { nodes, parts } = skeleton;
    let (table, assigned, unclear) = (Table::default(), HashSet::new(), HashSet::new());
    let mut linker = Linker { document, types, report, nodes, parts, table, assigned, unclear };
    for index in 0..linker.nodes.len() {
        if linker.report.is_full() {
            break;
        }
        linker.node(NodeId(index as u32));
    }
    linker.nodes
}

pub(super) struct Linker<'a> {
    pub document: &'a Document,
    pub types: &'a Types,
    pub report: &'a mut Report,
    pub nodes: Vec<Node>,
    pub parts: Vec<Part>,
    pub table: Table,
    /// Parameters of elements that the code around them sets.
    pub assigned: HashSet<(NodeId, u32)>,
    /// Scopes whose code could not be read, so that nobody knows what it sets.
    pub unclear: HashSet<NodeId>,
}

/// Where an expression is written.
enum Written<'d> {
    Attribute(&'d Mapped),
    Child(Mapped),
}

impl Written<'_> {
    fn mapped(&self) -> &Mapped {
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
    fn node(&mut self, id: NodeId) {
        let Part { tag, xml, .. } = self.parts[id.index()];
        self.table.leave(self.nodes[id.index()].parent);
        if tag.is_element() {
            // Bindings belong to the scope around.
            self.bind(id);
        }
        if matches!(tag, Tag::Activity | Tag::Process) {
            return;
        }
        self.table.enter(&self.nodes, &self.parts, id);
        let collects = self.document.tree.element(xml).attribute("COLLECT").is_some();
        self.pre_code(id, xml);
        if let Some(child) = grammar::child(self.document, xml, Tag::PostCode) {
            let summaries = scope::summaries(tag, collects, Moment::Post);
            self.nodes[id.index()].post_code = self.statements(child, id, &summaries).and_then(|(script, _)| script);
        }
        match tag {
            Tag::Switch | Tag::ParSwitch => self.switch(id, tag, xml),
            Tag::For | Tag::ParFor => self.for_loop(id, tag, xml),
            Tag::While | Tag::ParWhile => self.while_loop(id, tag, xml),
            Tag::Par => self.par(id, xml),
            Tag::Iterate => self.collect(id),
            _ => {}
        }
    }

    fn pre_code(&mut self, id: NodeId, xml: xml::Node) {
        let Some(child) = grammar::child(self.document, xml, Tag::PreCode) else { return };
        match self.statements(child, id, &[]) {
            Some((script, certain)) => {
                self.nodes[id.index()].pre_code = script;
                if !certain {
                    self.unclear.insert(id);
                }
            }
            None => drop(self.unclear.insert(id)),
        }
        for target in self.nodes[id.index()].pre_code.iter().flat_map(|script| &script.outputs) {
            if let Target::Element { element, slot } = target {
                self.assigned.insert((*element, *slot));
            }
        }
    }

    fn switch(&mut self, id: NodeId, tag: Tag, xml: xml::Node) {
        let mut conditions = Vec::new();
        for element in self.nodes[id.index()].elements.clone() {
            let Part { tag, xml, .. } = self.parts[element.index()];
            if tag == Tag::Case {
                conditions.extend(self.condition(xml, tag, id, &[]));
            }
        }
        let parallel = (tag == Tag::ParSwitch).then(|| self.parallel(id, tag, xml));
        self.nodes[id.index()].kind = Kind::Switch { conditions, parallel };
    }

    fn for_loop(&mut self, id: NodeId, tag: Tag, xml: xml::Node) {
        let source = self.source(id, tag, xml);
        let parallel = (tag == Tag::ParFor).then(|| self.parallel(id, tag, xml));
        if let Some(source) = source {
            self.nodes[id.index()].kind = Kind::For { source, collect: None, parallel };
        }
    }

    fn while_loop(&mut self, id: NodeId, tag: Tag, xml: xml::Node) {
        let collects = self.document.tree.element(xml).attribute("COLLECT").is_some();
        let summaries = scope::summaries(tag, collects, Moment::Condition);
        let condition = self.condition(xml, tag, id, &summaries);
        let parallel = (tag == Tag::ParWhile).then(|| self.parallel(id, tag, xml));
        if let Some(condition) = condition {
            self.nodes[id.index()].kind = Kind::While { condition, collect: None, parallel };
        }
    }

    fn par(&mut self, id: NodeId, xml: xml::Node) {
        let parallel = self.parallel(id, Tag::Par, xml);
        let elements: Vec<(&str, xml::Node)> = self.nodes[id.index()]
            .elements
            .iter()
            .map(|element| (&*self.nodes[element.index()].name, self.parts[element.index()].xml))
            .collect();
        let after::Links { waits_for, dependents } = after::links(self.document, &elements, self.report);
        self.nodes[id.index()].kind = Kind::Par { parallel, waits_for, dependents };
    }

    /// `COLLECT` stands on the loop, but runs in its `ITERATE`.
    fn collect(&mut self, id: NodeId) {
        let Some(parent) = self.nodes[id.index()].parent else { return };
        let document = self.document;
        let Some(attribute) = document.tree.element(self.parts[parent.index()].xml).attribute("COLLECT") else {
            return;
        };
        let script = self.expression(&attribute.value, 0..attribute.value.value.len(), id, &[]);
        if let Kind::For { collect, .. } | Kind::While { collect, .. } = &mut self.nodes[parent.index()].kind {
            *collect = script;
        }
    }

    fn parallel(&mut self, id: NodeId, tag: Tag, xml: xml::Node) -> Parallel {
        let collects = self.document.tree.element(xml).attribute("COLLECT").is_some();
        let summaries = scope::summaries(tag, collects, Moment::Exit);
        let exit = match self.written(xml, tag, Tag::ExitCondition) {
            Some(written) => {
                let mapped = written.mapped();
                self.expression(mapped, 0..mapped.value.len(), id, &summaries)
            }
            None => None,
        };
        let join = self.bound(id, xml, "JOIN", 1);
        let max = self.bound(id, xml, "MAX_PARALLEL", 1);
        Parallel { exit, join, max }
    }

    fn source(&mut self, id: NodeId, tag: Tag, xml: xml::Node) -> Option<Source> {
        let document = self.document;
        let element = document.tree.element(xml);
        let grid = grammar::child(document, xml, Tag::ParamGrid);
        let counted = ["FROM", "TO", "STEP"].into_iter().find_map(|name| element.attribute(name));
        let each = element.attribute("EACH");
        let kinds: Vec<&str> = [counted.map(|it| it.name.as_str()), each.map(|_| "EACH"), grid.map(|_| "PARAM_GRID")]
            .into_iter()
            .flatten()
            .collect();
        if kinds.len() > 1 {
            let message = format!("{} and {} exclude each other", kinds[0], kinds[1]);
            self.report.add("bad-value", document.span(&element.name_span), message, || {
                Some("a loop goes through numbers (FROM, TO, STEP), a list (EACH) or a grid (PARAM_GRID)".into())
            });
        }
        if grid.is_some() {
            return self.axes(id).map(Source::Grid);
        }
        if let Some(attribute) = each {
            return match self.value(attribute)? {
                Value::Code(range) => {
                    self.check_type(attribute, range.clone(), Type::List, false);
                    self.expression(&attribute.value, range, id, &[]).map(Source::Each)
                }
                Value::Literal(_) => {
                    let span = document.span(&attribute.value_span);
                    self.report.add("bad-value", span, "EACH: expected an expression that gives a list", || {
                        Some("write EACH=\"${…}\"".into())
                    });
                    None
                }
            };
        }
        let from = self.bound(id, xml, "FROM", i64::MIN);
        let to = self.bound(id, xml, "TO", i64::MIN);
        let step = self.bound(id, xml, "STEP", i64::MIN);
        if let (Some(Bound::Literal(0)), Some(attribute)) = (&step, element.attribute("STEP")) {
            self.report.add("bad-value", document.span(&attribute.value_span), "STEP: must not be 0", || None);
        }
        let inputs = self.parts[id.index()].parameters.slots.get("counterBegin").copied()?;
        if element.attribute("TO").is_none() && !self.is_bounded(id) {
            let name = self.nodes[id.index()].name.clone();
            let message = format!("the {} {name:?} has no bound", tag.name());
            self.report.add("missing-attribute", document.span(&element.name_span), message, || {
                Some(format!(
                    "write TO=\"…\" or EACH=\"${{…}}\", or set {name}.counterEnd or {name}.items in the PRE_CODE around"
                ))
            });
        }
        Some(Source::Count { from, to, step, inputs })
    }

    /// True if something besides `TO` says how far a loop goes.
    fn is_bounded(&self, id: NodeId) -> bool {
        let node = &self.nodes[id.index()];
        let slots = &self.parts[id.index()].parameters.slots;
        let ends: Vec<u32> = ["counterEnd", "items"].iter().filter_map(|name| slots.get(*name).copied()).collect();
        let bindings = node.bindings.iter();
        let mut bound =
            bindings.flat_map(|it| it.targets.iter().copied().chain(it.literals.iter().map(|(slot, _)| *slot)));
        bound.any(|slot| ends.contains(&slot))
            || ends.iter().any(|slot| self.assigned.contains(&(id, *slot)))
            || node.parent.is_some_and(|parent| self.unclear.contains(&parent))
            || self.unclear.contains(&id)
            // Its own code can set them too: bounds are looked at after it ran.
            || node.pre_code.iter().flat_map(|script| &script.outputs).any(
                |target| matches!(target, Target::Variable { node, slot } if *node == id && ends.contains(slot)),
            )
    }

    fn axes(&mut self, id: NodeId) -> Option<Vec<Axis>> {
        let document = self.document;
        let parts: Vec<(Arc<str>, Type, xml::Node)> =
            self.parts[id.index()].axes.iter().map(|axis| (axis.name.clone(), axis.ty, axis.xml)).collect();
        let mut axes = Vec::new();
        for (name, ty, xml) in parts {
            let Some(attribute) = document.tree.element(xml).attribute("VALUES") else { continue };
            let values = match self.value(attribute) {
                Some(Value::Code(range)) => {
                    self.check_type(attribute, range.clone(), Type::List, false);
                    self.expression(&attribute.value, range, id, &[]).map(AxisValues::Code)
                }
                Some(Value::Literal(text)) => self.axis_literals(attribute, &text, ty),
                None => None,
            };
            axes.extend(values.map(|values| Axis { name, ty, values }));
        }
        Some(axes)
    }

    fn axis_literals(&mut self, attribute: &Attribute, text: &str, ty: Type) -> Option<AxisValues> {
        let values = match text.trim().is_empty() {
            true => Err("there are no values".to_owned()),
            false => text.split(',').map(|item| ty.parse(item.trim())).collect::<Result<Vec<_>, _>>(),
        };
        match values {
            Ok(values) => Some(AxisValues::Literal(Arc::new(values))),
            Err(problem) => {
                let span = self.document.span(&attribute.value_span);
                self.report.add("bad-value", span, format!("VALUES: {problem}"), || {
                    Some("write values of the axis' TYPE, separated by commas, or ${…} for a list".into())
                });
                None
            }
        }
    }

    /// A whole number or `${…}`.
    fn bound(&mut self, id: NodeId, xml: xml::Node, name: &str, least: i64) -> Option<Bound> {
        let document = self.document;
        let attribute = document.tree.element(xml).attribute(name)?;
        match self.value(attribute)? {
            Value::Code(range) => {
                self.check_type(attribute, range.clone(), Type::Int, false);
                self.expression(&attribute.value, range, id, &[]).map(Bound::Code)
            }
            Value::Literal(text) => match literals::int(&text, least, i64::MAX) {
                Ok(number) => Some(Bound::Literal(number)),
                Err(problem) => {
                    let span = document.span(&attribute.value_span);
                    self.report.add("bad-value", span, format!("{name}: {problem}"), || {
                        Some("write a whole number, or an expression as ${…}".into())
                    });
                    None
                }
            },
        }
    }

    /// An attribute that is a literal or exactly one `${…}`.
    fn value(&mut self, attribute: &Attribute) -> Option<Value> {
        let mut pieces = self.pieces(attribute)?;
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.trim().is_empty()));
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
        // A syntax error is told when the expression is compiled.
        let Ok(uses) = scope::uses(text, Form::Expression) else { return };
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let problem = match scope::type_of(&view, text, &uses) {
            Some(given) if !super::bindings::fits(given, ty) => {
                Some(format!("expected {}, but {:?} is {}", ty.name(), text.trim(), given.name()))
            }
            Some(_) => None,
            None => super::bindings::wrong_literal(text.trim(), ty, may_be_nil),
        };
        if let Some(problem) = problem {
            let span = self.document.span(&at.value.source_range(range));
            self.report.add("bad-value", span, format!("{}: {problem}", at.name), || None);
        }
    }

    /// A condition that is an attribute or a child element.
    fn condition(&mut self, xml: xml::Node, tag: Tag, scope: NodeId, summaries: &[Summary]) -> Option<Script> {
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
    fn written(&mut self, xml: xml::Node, tag: Tag, child_tag: Tag) -> Option<Written<'a>> {
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
    fn expression(&mut self, at: &Mapped, range: Range<usize>, scope: NodeId, asks: &[Summary]) -> Option<Script> {
        let line = self.line(at, range.start);
        let text = &at.value[range.clone()];
        let place = Place { document: self.document, mapped: at, start: range.start };
        let uses = scope::uses(text, Form::Expression).map_err(|error| place.syntax(self.report, text, error)).ok()?;
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let mut resolver = Resolver::new(&view, scope, Form::Expression, asks);
        place.problems(self.report, resolver.take(&uses))?;
        let read = std::mem::take(&mut resolver.read);
        let script = resolver.expressions(&[text], line);
        self.keep(read);
        script.map_err(|message| place.too_many(self.report, text, message)).ok()
    }

    /// Compiles the statements in an element, if there are any, even if some names in them are wrong; tells whether
    /// all that they assign is known.
    fn statements(&mut self, node: xml::Node, scope: NodeId, asks: &[Summary]) -> Option<(Option<Script>, bool)> {
        let Some(at) = self.document.tree.text(node).filter(|text| !text.value.trim().is_empty()) else {
            return Some((None, true));
        };
        let text = at.value.as_str();
        let line = self.line(&at, 0);
        let place = Place { document: self.document, mapped: &at, start: 0 };
        let uses = scope::uses(text, Form::Statements).and_then(|uses| check_varargs(text).map(|()| uses));
        let uses = uses.map_err(|error| place.syntax(self.report, text, error)).ok()?;
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let mut resolver = Resolver::new(&view, scope, Form::Statements, asks);
        let problems = resolver.take(&uses);
        let certain = !problems.iter().any(|problem| problem.write);
        let _ = place.problems(self.report, problems);
        let read = std::mem::take(&mut resolver.read);
        let script = resolver.statements(text, line);
        self.keep(read);
        let script = script.map_err(|message| place.too_many(self.report, text, message)).ok()?;
        Some((Some(script), certain))
    }

    /// The results of these elements are asked for.
    pub fn keep(&mut self, read: Vec<NodeId>) {
        read.into_iter().for_each(|element| self.nodes[element.index()].kept = true);
    }

    /// The names in reach now.
    pub fn names(&self) -> impl Names + '_ {
        Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table }
    }
}

/// Reports a `${` without its `}`.
pub(super) fn report_unclosed(document: &Document, report: &mut Report, span: &Range<usize>) {
    report.add("bad-value", document.span(span), "this ${ is never closed", || {
        Some("add the closing }, or write $${ for a literal ${".into())
    });
}

/// Code becomes the body of a function without arguments, where Luau refuses `...`; better to say so now.
pub(super) fn check_varargs(text: &str) -> Result<(), SyntaxError> {
    let Some(at) = text.find("...") else { return Ok(()) };
    let inside = format!("return function() {text}\nend");
    match mlua::chunk::Compiler::new().compile(inside) {
        Ok(_) => Ok(()),
        Err(_) => Err(SyntaxError { message: "... can only be used in a function of its own".into(), at: at..at + 3 }),
    }
}

/// Where a script is in its document.
pub(super) struct Place<'p> {
    pub document: &'p Document,
    pub mapped: &'p Mapped,
    /// Where in the text of the attribute or element it begins.
    pub start: usize,
}

impl Place<'_> {
    fn span(&self, at: Range<usize>) -> crate::diagnostic::Span {
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

    /// Reports that a script has too many names.
    pub fn too_many(&self, report: &mut Report, text: &str, message: String) {
        let start = text.len() - text.trim_start().len();
        report.add("too-many-names", self.span(start..text.trim_end().len().max(start)), message, || {
            Some("keep values that belong together in one list or map".into())
        });
    }
}
