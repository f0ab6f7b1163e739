//! `ESTIMATE` of activity types and activities. The two differ in the names that their expressions can use, so the caller
//! compiles them.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::attributes::{choice, read};
use super::document::ParsedDocument;
use super::grammar::{self, Tag};
use super::literals;
use super::parameters::Parameters;
use super::problem::report_unclosed;
use super::report::{LoadReport, MAX_CANDIDATES};
use super::template::{self, Piece};
use crate::definition::{Amount, Estimate, EstimateCode, FileAccess, FileEstimate, FileName, SizeEstimate};
use crate::diagnostic::did_you_mean;
use crate::value::Type;
use crate::xml::{self, Attribute, is_blank};

/// Upper bound on the length of the name of a file, in bytes: that of a path in common systems.
const MAX_FILE_NAME: usize = 4096;

/// Compiles the expressions of an estimate.
pub(super) trait EstimateCompiler {
    /// Returns the report of this load.
    fn report(&mut self) -> &mut LoadReport;
    /// Reports an expression that is certainly no number.
    fn check_number(&mut self, attribute: &Attribute, range: Range<usize>);
    /// Compiles a text with expressions in it. Returns `None` if something is wrong with it, which is then reported.
    fn compile(&mut self, attribute: &Attribute, pieces: &[Piece]) -> Option<EstimateCode>;
}

/// Reads the `ESTIMATE` of an activity type or activity. `parameters` are those of the activity type, if it is known.
pub(super) fn read_estimate(
    document: &ParsedDocument,
    owner: xml::XmlElementId,
    parameters: Option<&Parameters>,
    compiler: &mut impl EstimateCompiler,
) -> Option<Box<Estimate>> {
    let node = grammar::child(document, owner, Tag::Estimate)?;
    let mut reader = Reader { document, parameters, compiler };
    let mut estimate = Estimate {
        seconds: reader.amount(node, "SECONDS", literals::seconds),
        gpu_seconds: reader.amount(node, "GPU_SECONDS", literals::seconds),
        ..Estimate::default()
    };
    let mut sized = HashSet::new();
    for (tag, child) in grammar::children(document, node, Tag::Estimate) {
        let bytes = reader.amount(child, "BYTES", |text| literals::size(text).map(|bytes| bytes as f64));
        match tag {
            Tag::Size => {
                let slot = reader.parameter(child, &mut sized);
                estimate.sizes.extend(slot.zip(bytes).map(|(slot, bytes)| SizeEstimate { slot, bytes }));
            }
            _ => {
                let words = [("read", FileAccess::Read), ("write", FileAccess::Write)];
                let access = read(document, child, "USE", reader.compiler.report(), |text| choice(text, &words));
                let file = reader.name(child).zip(access);
                estimate.files.extend(file.map(|(name, access)| FileEstimate { name, access, bytes }));
            }
        }
    }
    Some(Box::new(estimate))
}

struct Reader<'a, C> {
    document: &'a ParsedDocument,
    parameters: Option<&'a Parameters>,
    compiler: &'a mut C,
}

impl<C: EstimateCompiler> Reader<'_, C> {
    /// Reads an attribute that is a literal or exactly one `${…}`.
    fn amount(
        &mut self,
        node: xml::XmlElementId,
        name: &str,
        literal: impl FnOnce(&str) -> Result<f64, String>,
    ) -> Option<Amount> {
        let document = self.document;
        let attribute = document.tree.element(node).attribute(name)?;
        let mut pieces = self.pieces(attribute)?;
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if is_blank(text)));
        if let [Piece::Code(range)] = pieces.as_slice() {
            self.compiler.check_number(attribute, range.clone());
            return self.compiler.compile(attribute, &pieces).map(|code| Amount::Computed(Box::new(code)));
        }
        read(document, node, name, self.compiler.report(), literal).map(Amount::Literal)
    }

    /// Reads the name of a file: text, with any number of `${…}` in it.
    fn name(&mut self, node: xml::XmlElementId) -> Option<FileName> {
        let attribute = self.document.tree.element(node).attribute("NAME")?;
        let pieces = self.pieces(attribute)?;
        if let [Piece::Text(text)] = pieces.as_slice() {
            if text.is_empty() || text.len() > MAX_FILE_NAME {
                let message = format!("NAME: the name of a file has 1 to {MAX_FILE_NAME} bytes");
                let span = self.document.span(&attribute.value_span);
                self.compiler.report().add("bad-value", span, message, || None);
                return None;
            }
            return Some(FileName::Plain(Arc::from(text.as_str())));
        }
        self.compiler.compile(attribute, &pieces).map(|code| FileName::Computed(Box::new(code)))
    }

    /// Returns the slot of the parameter that a `SIZE` names.
    fn parameter(&mut self, node: xml::XmlElementId, sized: &mut HashSet<u32>) -> Option<u32> {
        let attribute = self.document.tree.element(node).attribute("PARAMETER")?;
        // The parameters of an unknown type are unknown too.
        let parameters = self.parameters?;
        let name = attribute.value.value.as_str();
        let has_size = |slot: u32| {
            let ty = parameters.variables[slot as usize].ty;
            !matches!(ty, Some(Type::Int | Type::Float | Type::Boolean | Type::Shared(_)))
        };
        let (code, message) = match parameters.slots.get(name).copied() {
            None => ("unknown-parameter", format!("there is no parameter {name:?}")),
            Some(slot) if !has_size(slot) => {
                ("bad-value", format!("{name:?} is a number, a truth value or a shared object: it has no size"))
            }
            Some(slot) if !sized.insert(slot) => ("duplicate-element", format!("{name:?} has two SIZEs")),
            Some(slot) => return Some(slot),
        };
        let span = self.document.span(&attribute.value_span);
        self.compiler.report().add(code, span, message, || {
            let slots = (0..parameters.next_slot()).filter(|slot| has_size(*slot)).take(MAX_CANDIDATES);
            did_you_mean(name, slots.map(|slot| &*parameters.variables[slot as usize].name))
        });
        None
    }

    fn pieces(&mut self, attribute: &Attribute) -> Option<Vec<Piece>> {
        let text = &attribute.value.value;
        template::cut(text)
            .map_err(|at| {
                let span = attribute.value.source_range(at..text.len());
                report_unclosed(self.document, self.compiler.report(), &span);
            })
            .ok()
    }
}
