//! The variables of a type or scope: what its author declares, and what comes with every element of its kind.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::attributes::{choice, read};
use super::grammar::{self, Tag};
use super::template::{self, Piece};
use super::{Document, Report, literals};
use crate::definition::{Direction, Variable};
use crate::diagnostic::did_you_mean;
use crate::value::{Type, Value};
use crate::xml;

/// Variables with their places.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters {
    pub variables: Vec<Variable>,
    /// Position by name.
    pub slots: HashMap<Arc<str>, u32>,
    /// The positions of those that somebody must give a value. A type may have many parameters and be used often.
    pub needed: Vec<u32>,
    /// Where the name of each is written; empty for those that are not.
    spans: Vec<Range<usize>>,
}

impl Parameters {
    /// Adds the parameters that an element declares.
    pub fn read(&mut self, document: &Document, node: xml::ElementId, tag: Tag, report: &mut Report) {
        for (child_tag, child) in grammar::children(document, node, tag) {
            let direction = match child_tag {
                Tag::InParameter => Direction::In,
                Tag::OutParameter => Direction::Out,
                Tag::InOutParameter => Direction::InOut,
                _ => continue,
            };
            let ty = read_type(document, child, report);
            let default = ty.and_then(|ty| read(document, child, "DEFAULT", report, |text| parse_default(ty, text)));
            let words = [("true", true), ("false", false)];
            let optional = read(document, child, "OPTIONAL", report, |text| choice(text, &words)).unwrap_or(false);
            let Some((name, span)) = read_name(document, child, report) else { continue };
            if self.slots.contains_key(&*name) {
                report.add("duplicate-name", document.span(&span), format!("{name:?} is declared twice"), || {
                    Some("rename one of them".into())
                });
                continue;
            }
            // A default that could not be read still is one: that it is wrong was said above.
            let given = document.tree.element(child).attribute("DEFAULT").is_some();
            let default = default.or(given.then_some(Value::Null));
            self.push(Variable { name, ty, direction, default, optional, implicit: false }, span);
        }
    }

    fn push(&mut self, variable: Variable, span: Range<usize>) {
        // A document has at most a million elements.
        let slot = self.variables.len() as u32;
        self.slots.insert(variable.name.clone(), slot);
        if variable.direction.is_in() && variable.default.is_none() && !variable.optional {
            self.needed.push(slot);
        }
        self.variables.push(variable);
        self.spans.push(span);
    }

    /// Adds a variable that comes with the kind of element. `what` tells the author what it is.
    pub fn add(
        &mut self,
        name: &str,
        ty: Option<Type>,
        direction: Direction,
        what: &str,
        document: &Document,
        report: &mut Report,
    ) {
        if self.reserve(name, what, document, report) {
            let (name, optional, implicit) = (Arc::from(name), direction != Direction::Local, true);
            self.push(Variable { name, ty, direction, default: None, optional, implicit }, 0..0);
        }
    }

    /// False, and a report, if the name is taken.
    pub fn reserve(&self, name: &str, what: &str, document: &Document, report: &mut Report) -> bool {
        let Some(slot) = self.slots.get(name) else { return true };
        let span = document.span(&self.spans[*slot as usize]);
        report
            .add("duplicate-name", span, format!("{name:?} is {what}"), || Some("choose another name for this".into()));
        false
    }

    /// Where the name of a variable is written.
    pub fn span(&self, slot: u32) -> &Range<usize> {
        &self.spans[slot as usize]
    }

    /// Where the next variable goes.
    pub fn next_slot(&self) -> u32 {
        self.variables.len() as u32
    }
}

/// The attribute `NAME` of a parameter, element, case or axis, checked, with its place.
pub(super) fn read_name(
    document: &Document,
    node: xml::ElementId,
    report: &mut Report,
) -> Option<(Arc<str>, Range<usize>)> {
    let attribute = document.tree.element(node).attribute("NAME")?;
    let name = attribute.value.value.as_str();
    if let Err((message, help)) = literals::check_name(name) {
        report.add("bad-name", document.span(&attribute.value_span), message, || Some(help.into()));
        return None;
    }
    Some((name.into(), attribute.value_span.clone()))
}

/// The attribute `TYPE` of a parameter or axis.
pub(super) fn read_type(document: &Document, node: xml::ElementId, report: &mut Report) -> Option<Type> {
    let attribute = document.tree.element(node).attribute("TYPE")?;
    let name = xml::trim(&attribute.value.value);
    let ty = Type::from_name(name);
    if ty.is_none() {
        let message = format!("there is no type {name:?}");
        report.add("bad-value", document.span(&attribute.value_span), message, || {
            let known = || Type::ALL.iter().map(|(name, _)| *name);
            did_you_mean(name, known())
                .or_else(|| Some(format!("the types are {}", known().collect::<Vec<_>>().join(", "))))
        });
    }
    ty
}

fn parse_default(ty: Type, text: &str) -> Result<Value, String> {
    match template::cut(text).as_deref() {
        Ok([Piece::Text(text)]) => ty.parse(text),
        _ => Err("a default is written down, not computed: set the parameter by code, or write $${ for ${".into()),
    }
}
