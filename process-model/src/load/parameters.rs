//! The variables of a type or scope: those that its author declares, and those that come with the kind of element.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::attributes::{choice, read};
use super::document::Document;
use super::grammar::{self, Tag};
use super::identifiers::check_name;
use super::report::Report;
use super::template::{self, Piece};
use crate::definition::{Direction, Variable};
use crate::diagnostic::did_you_mean;
use crate::value::{Type, Value};
use crate::xml;

/// Variables with the places of their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters {
    pub variables: Vec<Variable>,
    /// Position in `variables`, by name.
    pub slots: HashMap<Arc<str>, u32>,
    /// Positions of the variables that need a value from outside. They are computed once, because a type may have many
    /// parameters and many uses.
    pub needed: Vec<u32>,
    /// Bytes of the name of each variable; empty for implicit variables.
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
            // An invalid default still counts as a default, because it is already reported.
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

    /// Adds a variable that comes with the kind of element. `meaning` is for the message if its name is taken.
    pub fn add(
        &mut self,
        name: &str,
        ty: Option<Type>,
        direction: Direction,
        meaning: &str,
        document: &Document,
        report: &mut Report,
    ) {
        if self.reserve(name, meaning, document, report) {
            let (name, optional, implicit) = (Arc::from(name), direction != Direction::Local, true);
            self.push(Variable { name, ty, direction, default: None, optional, implicit }, 0..0);
        }
    }

    /// Returns false, and reports it, if a declared variable has this name.
    pub fn reserve(&self, name: &str, meaning: &str, document: &Document, report: &mut Report) -> bool {
        let Some(slot) = self.slots.get(name) else { return true };
        let span = document.span(&self.spans[*slot as usize]);
        let message = format!("the name {name:?} is taken: it is {meaning}");
        report.add("duplicate-name", span, message, || Some("choose another name for this parameter".into()));
        false
    }

    /// Returns the bytes of the name of a variable.
    pub fn span(&self, slot: u32) -> &Range<usize> {
        &self.spans[slot as usize]
    }

    /// Returns the position that the next variable will have.
    pub fn next_slot(&self) -> u32 {
        self.variables.len() as u32
    }
}

/// Reads and checks the attribute `NAME` of a parameter, element, case or axis. Returns it with its bytes.
pub(super) fn read_name(
    document: &Document,
    node: xml::ElementId,
    report: &mut Report,
) -> Option<(Arc<str>, Range<usize>)> {
    let attribute = document.tree.element(node).attribute("NAME")?;
    let name = attribute.value.value.as_str();
    if let Err((message, help)) = check_name(name) {
        report.add("bad-name", document.span(&attribute.value_span), message, || Some(help.into()));
        return None;
    }
    Some((name.into(), attribute.value_span.clone()))
}

/// Reads the attribute `TYPE` of a parameter or axis.
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

/// Parses a `DEFAULT`, which must not contain `${…}`.
fn parse_default(ty: Type, text: &str) -> Result<Value, String> {
    match template::cut(text).as_deref() {
        Ok([Piece::Text(text)]) => ty.parse(text),
        _ => Err(
            "a default must be a literal, not an expression: set the parameter in code, or write $${ for a literal ${"
                .into(),
        ),
    }
}
