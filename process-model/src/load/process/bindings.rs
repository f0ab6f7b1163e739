//! Parameters that attributes set: literals, expressions, and text with expressions in it. Also checks that every
//! parameter that needs a value gets one.

use std::collections::HashSet;

use super::linker::Linker;
use super::resolver::{Resolver, parameter_help};
use super::scope::{CodePlace, Names, TypeInProgress};
use crate::definition::{Bindings, DefinitionNodeId, Script, Variable};
use crate::load::grammar::is_binding;
use crate::load::problem::ProblemPlace;
use crate::load::template::{Piece, join};
use crate::script::Form;
use crate::value::{Type, Value};
use crate::xml::{Attribute, is_blank};

/// The value of one attribute.
enum Binding {
    Literal(Value),
    /// Pieces that `binding_script` checks one by one and joins into one expression.
    Code(Vec<Piece>),
}

impl Linker<'_> {
    /// Binds the attributes of an element, in the scope around it.
    pub fn bind(&mut self, id: DefinitionNodeId) {
        let document = self.document;
        let element = document.tree.element(self.drafts[id.index()].xml);
        let mut bound: HashSet<u32> = HashSet::new();
        let mut literals = Vec::new();
        let mut computed: Vec<(&Attribute, u32, Vec<Piece>)> = Vec::new();
        for attribute in element.attributes.iter().filter(|attribute| is_binding(attribute)) {
            let Some((slot, variable)) = self.target(id, attribute) else {
                // The attribute sets nothing, but its code is still checked.
                computed.extend(self.pieces(attribute).map(|pieces| (attribute, 0, pieces)));
                continue;
            };
            bound.insert(slot);
            match self.binding(attribute, &variable) {
                Some(Binding::Literal(value)) => literals.push((slot, value)),
                Some(Binding::Code(pieces)) => computed.push((attribute, slot, pieces)),
                None => {}
            }
        }
        self.check_missing(id, &bound);
        let targets = computed.iter().map(|(_, slot, _)| *slot).collect();
        let script = self.binding_script(id, &computed);
        if !literals.is_empty() || !computed.is_empty() {
            self.nodes[id.index()].bindings = Some(Box::new(Bindings { literals, script, targets }));
        }
    }

    /// Returns the parameter that an attribute sets.
    fn target(&mut self, id: DefinitionNodeId, attribute: &Attribute) -> Option<(u32, Variable)> {
        let names = self.names();
        // The parameters of an unknown type are unknown too.
        let signature = names.signature(id)?;
        let found = names.slot(id, &attribute.name).map(|slot| (slot, signature[slot as usize].clone()));
        let element = self.nodes[id.index()].name.clone();
        let span = self.document.span(&attribute.name_span);
        let (message, help) = match &found {
            Some((_, variable)) if variable.direction.is_in() => return found.clone(),
            Some(_) => {
                let message = format!("{:?} is a result of {element:?} and cannot be set", attribute.name);
                (message, Some("only IN and INOUT parameters can be set".to_owned()))
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

    /// Reads the value of an attribute and checks it against the type of its parameter.
    fn binding(&mut self, attribute: &Attribute, variable: &Variable) -> Option<Binding> {
        let mut pieces = self.pieces(attribute)?;
        let is_text = matches!(variable.ty, Some(Type::String | Type::Bytes | Type::File | Type::Directory));
        let has_code = pieces.iter().any(|piece| matches!(piece, Piece::Code(_)));
        if has_code && !is_text {
            pieces.retain(|piece| !matches!(piece, Piece::Text(text) if is_blank(text)));
        }
        let problem = match (pieces.as_slice(), variable.ty) {
            ([Piece::Text(text)], Some(ty)) => {
                let meant = self.names().meant_code(text);
                let span = self.document.span(&attribute.value_span);
                match ty.parse(text) {
                    Ok(value) => {
                        if let Some(help) = meant {
                            let message =
                                format!("{}: this is the text {text:?}, not the value of that name", attribute.name);
                            self.report.warn("text-like-name", span, message, || Some(help));
                        }
                        return Some(Binding::Literal(value));
                    }
                    Err(problem) => {
                        self.report.add("bad-value", span, format!("{}: {problem}", attribute.name), || meant);
                        return None;
                    }
                }
            }
            ([Piece::Code(range)], Some(ty)) => {
                let may_be_nil = variable.optional || variable.default.is_some();
                self.check_type(attribute, range.clone(), ty, may_be_nil);
                return Some(Binding::Code(pieces));
            }
            (_, Some(ty)) if !is_text => format!("text with ${{…}} in it cannot be of type {}", ty.name()),
            _ => return Some(Binding::Code(pieces)),
        };
        let span = self.document.span(&attribute.value_span);
        self.report.add("bad-value", span, format!("{}: {problem}", attribute.name), || None);
        None
    }

    /// Compiles the computed bindings of an element into one script.
    fn binding_script(&mut self, id: DefinitionNodeId, computed: &[(&Attribute, u32, Vec<Piece>)]) -> Option<Script> {
        let scope = self.nodes[id.index()].parent?;
        let texts: Vec<_> = computed.iter().map(|(attribute, _, pieces)| (*attribute, pieces.as_slice())).collect();
        let (script, read) = self.joined_script(&texts, scope, CodePlace::Attributes(id));
        self.keep_results(read);
        script
    }

    /// Compiles attributes with expressions in them into one script. Also returns the elements whose parameters it reads.
    pub fn joined_script(
        &mut self,
        attributes: &[(&Attribute, &[Piece])],
        scope: DefinitionNodeId,
        place: CodePlace,
    ) -> (Option<Script>, Vec<DefinitionNodeId>) {
        let Some((first, _)) = attributes.first() else { return (None, Vec::new()) };
        let line = self.document.lines.line(first.value_span.start);
        let names = TypeInProgress {
            nodes: &self.nodes,
            drafts: &self.drafts,
            types: self.types,
            table: &self.table,
            forwards: &self.forwards,
        };
        let mut resolver = Resolver::new(&names, scope, Form::Expression, &[], place);
        let mut texts = Vec::new();
        let mut clean = true;
        for (attribute, pieces) in attributes {
            let text = attribute.value.value.as_str();
            for range in pieces.iter().filter_map(|piece| match piece {
                Piece::Code(range) => Some(range.clone()),
                Piece::Text(_) => None,
            }) {
                let code = &text[range.clone()];
                let place = ProblemPlace { document: self.document, mapped: &attribute.value, start: range.start };
                match self.document.free_names(code, Form::Expression) {
                    Ok(used) => clean &= place.report_problems(self.report, resolver.resolve_all(&used)),
                    Err(error) => {
                        place.report_syntax_error(self.report, code, error);
                        clean = false;
                    }
                }
            }
            texts.push(join(text, pieces));
        }
        let read = std::mem::take(&mut resolver.read);
        let script = clean.then(|| resolver.expressions(&texts, line)).transpose();
        let place = ProblemPlace { document: self.document, mapped: &first.value, start: 0 };
        let script = script.map_err(|too_large| place.report_too_large(self.report, &first.value.value, too_large));
        (script.ok().flatten(), read)
    }

    /// Reports parameters that need a value and get none.
    fn check_missing(&mut self, id: DefinitionNodeId, bound: &HashSet<u32>) {
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
        let around = self.drafts[parent.index()].tag;
        let span = self.document.span(&self.document.tree.element(self.drafts[id.index()].xml).name_span);
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
