//! The variables of a type or scope: those that its author declares, and those that come with the kind of element.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::attributes::{choice, read, read_name, read_type};
use super::document::ParsedDocument;
use super::grammar::{self, Tag};
use super::report::LoadReport;
use super::template::{self, Piece};
use crate::definition::{Direction, Variable};
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
    pub fn read(&mut self, document: &ParsedDocument, node: xml::XmlElementId, tag: Tag, report: &mut LoadReport) {
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
            let secret = read(document, child, "SECRET", report, |text| choice(text, &words)).unwrap_or(false);
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
            self.push(Variable { name, ty, direction, default, optional, secret, implicit: false }, span);
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
        document: &ParsedDocument,
        report: &mut LoadReport,
    ) {
        if self.reserve(name, meaning, document, report) {
            let (name, optional, implicit) = (Arc::from(name), direction != Direction::Local, true);
            self.push(Variable { name, ty, direction, default: None, optional, secret: false, implicit }, 0..0);
        }
    }

    /// Returns false, and reports it, if a declared variable has this name.
    pub fn reserve(&self, name: &str, meaning: &str, document: &ParsedDocument, report: &mut LoadReport) -> bool {
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
