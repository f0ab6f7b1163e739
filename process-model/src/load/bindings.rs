//! Parameters set by attributes: literals of the right type, expressions, text with expressions in it; and whether
//! every parameter that an element needs gets a value from somewhere.

use std::collections::HashSet;

use super::compile::Place;
use super::grammar::is_binding;
use super::names::{Building, Names};
use super::scope::{Resolver, parameter_help};
use super::scripts::Linker;
use super::template::{Piece, closing, quoted, string_end};
use crate::definition::{Bindings, NodeId, Variable};
use crate::script::{Form, TEXT_OF};
use crate::value::{Type, Value};
use crate::xml::{Attribute, is_blank};

/// What one attribute gives.
enum Given {
    Literal(Value),
    /// Checked one by one, then put together into one text.
    Code(Vec<Piece>),
}

impl Linker<'_> {
    /// Binds the attributes of an element, in the scope around it.
    pub fn bind(&mut self, id: NodeId) {
        let document = self.document;
        let element = document.tree.element(self.parts[id.index()].xml);
        let mut bound: HashSet<u32> = HashSet::new();
        let mut literals = Vec::new();
        let mut computed: Vec<(&Attribute, u32, Vec<Piece>)> = Vec::new();
        for attribute in element.attributes.iter().filter(|attribute| is_binding(attribute)) {
            let Some((slot, variable)) = self.target(id, attribute) else {
                // Nothing will come of it, but its code is checked all the same.
                computed.extend(self.pieces(attribute).map(|pieces| (attribute, 0, pieces)));
                continue;
            };
            bound.insert(slot);
            match self.given(attribute, &variable) {
                Some(Given::Literal(value)) => literals.push((slot, value)),
                Some(Given::Code(pieces)) => computed.push((attribute, slot, pieces)),
                None => {}
            }
        }
        self.check_missing(id, &bound);
        let targets = computed.iter().map(|(_, slot, _)| *slot).collect();
        let script = self.binding_script(id, &computed);
        if !literals.is_empty() || !computed.is_empty() {
            self.nodes[id.index()].bindings = Some(Bindings { literals, script, targets });
        }
    }

    /// The parameter that an attribute sets.
    fn target(&mut self, id: NodeId, attribute: &Attribute) -> Option<(u32, Variable)> {
        let names = self.names();
        // An element of an unknown type may have any parameter.
        let signature = names.signature(id)?;
        let found = names.slot(id, &attribute.name).map(|slot| (slot, signature[slot as usize].clone()));
        let element = self.nodes[id.index()].name.clone();
        let span = self.document.span(&attribute.name_span);
        let (message, help) = match &found {
            Some((_, variable)) if variable.direction.is_in() => return found.clone(),
            Some(_) => {
                let message = format!("{:?} is a result of {element:?} and cannot be set", attribute.name);
                (message, Some("only IN and INOUT parameters are set".to_owned()))
            }
            None => {
                let inputs = signature.iter().filter(|variable| variable.direction.is_in());
                let help = if self.report.is_full() { None } else { parameter_help(&attribute.name, inputs) };
                (format!("{element:?} has no parameter {:?}", attribute.name), help)
            }
        };
        self.report.add("unknown-parameter", span, message, || help);
        None
    }

    fn given(&mut self, attribute: &Attribute, variable: &Variable) -> Option<Given> {
        let mut pieces = self.pieces(attribute)?;
        let is_text = matches!(variable.ty, Some(Type::String | Type::Bytes | Type::File | Type::Directory));
        let has_code = pieces.iter().any(|piece| matches!(piece, Piece::Code(_)));
        if has_code && !is_text {
            pieces.retain(|piece| !matches!(piece, Piece::Text(text) if is_blank(text)));
        }
        let problem = match (pieces.as_slice(), variable.ty) {
            ([Piece::Text(text)], Some(ty)) => match ty.parse(text) {
                Ok(value) => return Some(Given::Literal(value)),
                Err(problem) => problem,
            },
            ([Piece::Code(range)], Some(ty)) => {
                let may_be_nil = variable.optional || variable.default.is_some();
                self.check_type(attribute, range.clone(), ty, may_be_nil);
                return Some(Given::Code(pieces));
            }
            (_, Some(ty)) if !is_text => format!("text with ${{…}} in it is not {}", ty.name()),
            _ => return Some(Given::Code(pieces)),
        };
        let span = self.document.span(&attribute.value_span);
        self.report.add("bad-value", span, format!("{}: {problem}", attribute.name), || None);
        None
    }

    fn binding_script(
        &mut self,
        id: NodeId,
        computed: &[(&Attribute, u32, Vec<Piece>)],
    ) -> Option<crate::definition::Script> {
        let (first, ..) = computed.first()?;
        let scope = self.nodes[id.index()].parent?;
        let line = self.document.lines.line(first.value_span.start);
        let view = Building { nodes: &self.nodes, parts: &self.parts, types: self.types, table: &self.table };
        let mut resolver = Resolver::new(&view, scope, Form::Expression, &[]);
        let mut texts = Vec::new();
        let mut clean = true;
        for (attribute, _, pieces) in computed {
            let text = attribute.value.value.as_str();
            for range in pieces.iter().filter_map(|piece| match piece {
                Piece::Code(range) => Some(range.clone()),
                Piece::Text(_) => None,
            }) {
                let code = &text[range.clone()];
                let place = Place { document: self.document, mapped: &attribute.value, start: range.start };
                match self.document.uses(code, Form::Expression) {
                    Ok(used) => clean &= place.problems(self.report, resolver.take(&used)).is_some(),
                    Err(error) => {
                        place.syntax(self.report, code, error);
                        clean = false;
                    }
                }
            }
            texts.push(join(text, pieces));
        }
        let read = std::mem::take(&mut resolver.read);
        let script = clean.then(|| resolver.expressions(&texts, line));
        self.keep(read);
        let place = Place { document: self.document, mapped: &first.value, start: 0 };
        script?.map_err(|too_much| place.too_much(self.report, &first.value.value, too_much)).ok()
    }

    fn check_missing(&mut self, id: NodeId, bound: &HashSet<u32>) {
        let Some(parent) = self.nodes[id.index()].parent else { return };
        if self.unclear.contains(&parent) {
            return;
        }
        let names = self.names();
        let Some(signature) = names.signature(id) else { return };
        let missing: Vec<String> = names
            .needed(id)
            .iter()
            .filter(|slot| !bound.contains(slot) && !self.assigned.contains(&(id, **slot)))
            .map(|slot| signature[*slot as usize].name.to_string())
            .collect();
        let name = self.nodes[id.index()].name.clone();
        let around = self.parts[parent.index()].tag;
        let span = self.document.span(&self.document.tree.element(self.parts[id.index()].xml).name_span);
        for parameter in missing {
            let message = format!("{name:?} gets no value for its parameter {parameter:?}");
            self.report.add("missing-parameter", span.clone(), message, || {
                let by_code = format!("assign {name}.{parameter} in the PRE_CODE of the {} around it", around.name());
                let attribute = parameter.starts_with(|c: char| c.is_ascii_lowercase());
                Some(if attribute { format!("write {parameter}=\"…\", or {by_code}") } else { by_code })
            });
        }
    }
}

const LONGEST_CHAIN: usize = 8;

/// One expression for a text with expressions in it.
pub(super) fn join(text: &str, pieces: &[Piece]) -> String {
    if let [Piece::Code(range)] = pieces {
        return text[range.clone()].to_owned();
    }
    let mut parts: Vec<String> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(plain) => quoted(plain),
            // The line break ends a comment.
            Piece::Code(range) if text[range.clone()].contains("--") => {
                format!("{TEXT_OF}({}\n)", &text[range.clone()])
            }
            Piece::Code(range) => format!("{TEXT_OF}({})", &text[range.clone()]),
        })
        .collect();
    // Luau computes all values of a chain of `..` before it joins them, and can hold only so many.
    while parts.len() > LONGEST_CHAIN {
        parts = parts.chunks(LONGEST_CHAIN).map(|group| format!("({})", group.join(" .. "))).collect();
    }
    parts.join(" .. ")
}

/// Can a value of one type be given where another is expected?
pub(super) fn fits(given: Type, expected: Type) -> bool {
    given == expected
        || matches!(
            (given, expected),
            (Type::Int, Type::Float)
                | (Type::Float, Type::Int)
                | (Type::String, Type::Bytes | Type::File | Type::Directory)
        )
}

/// Why an expression that is a literal of Lua is not of a type; none if it is, or is not a literal.
pub(super) fn wrong_literal(text: &str, ty: Type, may_be_nil: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let value = match bytes.first()? {
        b'{' if closing(bytes, 1) == Some(bytes.len() - 1) => {
            return (!matches!(ty, Type::List | Type::Map)).then(|| format!("expected {}, got a table", ty.name()));
        }
        b'\'' | b'"' if string_end(bytes, 0) == Some(bytes.len() - 1) => Value::from(&text[1..text.len() - 1]),
        b'0'..=b'9' | b'-' | b'.' => {
            let number: f64 = text.replace('_', "").parse().ok()?;
            match number.fract() == 0.0 && number.abs() < 1e15 {
                true => Value::Int(number as i64),
                false => Value::Float(number),
            }
        }
        _ => match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "nil" if may_be_nil => return None,
            "nil" => Value::Null,
            _ => return None,
        },
    };
    ty.accept(value).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_lua_are_known() {
        for (text, ty, wrong) in [
            ("5", Type::Int, false),
            ("5.5", Type::Int, true),
            ("-1e3", Type::Int, false),
            ("1_000", Type::Float, false),
            ("5", Type::String, true),
            ("'a'", Type::String, false),
            ("'a'", Type::File, false),
            ("\"a\"", Type::Int, true),
            ("'a' .. 'b'", Type::Int, false),
            ("{1, '}'}", Type::Int, true),
            ("{1}", Type::List, false),
            ("{1}[1]", Type::Int, false),
            ("true", Type::Boolean, false),
            ("true", Type::List, true),
            ("nil", Type::Int, true),
            ("-x", Type::String, false),
            ("", Type::Int, false),
            ("é", Type::Int, false),
        ] {
            assert_eq!(wrong_literal(text, ty, false).is_some(), wrong, "{text} as {}", ty.name());
        }
        assert_eq!(wrong_literal("nil", Type::Int, true), None);
    }
}
