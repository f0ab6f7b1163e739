//! `ESTIMATE` of an activity type: its expressions see the `IN` and `INOUT` parameters of the type.

use std::ops::Range;

use super::expressions::{ATTEMPT, check, report_too_large};
use crate::definition::{Estimate, EstimateCode, EstimateInput};
use crate::load::code_limits::{check_code, check_count};
use crate::load::document::ParsedDocument;
use crate::load::estimate::{EstimateCompiler, read_estimate};
use crate::load::identifiers::single_name;
use crate::load::report::LoadReport;
use crate::load::signatures::TypeInfo;
use crate::load::template::{Piece, join};
use crate::load::type_check::{fits, wrong_literal};
use crate::script::{Code, Form, Port};
use crate::value::Type;
use crate::xml::Attribute;

/// Reads the `ESTIMATE` of an activity type.
pub(super) fn read(document: &ParsedDocument, info: &TypeInfo, report: &mut LoadReport) -> Option<Box<Estimate>> {
    let mut compiler = TypeCompiler { document, info, report };
    read_estimate(document, info.node, Some(&info.parameters), &mut compiler)
}

struct TypeCompiler<'a> {
    document: &'a ParsedDocument,
    info: &'a TypeInfo,
    report: &'a mut LoadReport,
}

impl EstimateCompiler for TypeCompiler<'_> {
    fn report(&mut self) -> &mut LoadReport {
        self.report
    }

    fn check_number(&mut self, attribute: &Attribute, range: Range<usize>) {
        let text = &attribute.value.value[range.clone()];
        let problem = match single_name(text) {
            Some(name) => {
                let slot = self.info.parameters.slots.get(name.name.as_str());
                let given = slot.and_then(|slot| self.info.parameters.variables[*slot as usize].ty);
                let wrong = given.filter(|given| !fits(*given, Type::Float));
                wrong.map(|given| format!("expected float, but {:?} is {}", text.trim(), given.name()))
            }
            None => wrong_literal(text.trim(), Type::Float, false),
        };
        if let Some(problem) = problem {
            let span = self.document.span(&attribute.value.source_range(range));
            self.report.add("bad-value", span, format!("{}: {problem}", attribute.name), || None);
        }
    }

    fn compile(&mut self, attribute: &Attribute, pieces: &[Piece]) -> Option<EstimateCode> {
        let (mapped, parameters) = (&attribute.value, &self.info.parameters);
        let (mut ports, mut inputs): (Vec<Port>, Vec<EstimateInput>) = Default::default();
        for piece in pieces {
            let Piece::Code(range) = piece else { continue };
            if !check(self.document, self.info, mapped, range.clone(), Form::Expression, self.report) {
                return None;
            }
            for name in self.document.free_names(&mapped.value[range.clone()], Form::Expression).ok()? {
                let slot = parameters.slots.get(name.name.as_str()).copied();
                let given = slot.is_some_and(|slot| parameters.variables[slot as usize].direction.is_in());
                if (slot.is_some() && !given) || (slot.is_none() && name.name == ATTEMPT) {
                    let at = mapped.source_range(range.start + name.at.start..range.start + name.at.end);
                    let message = format!("{:?} is not known before the activity runs", name.name);
                    self.report.add("unknown-name", self.document.span(&at), message, || {
                        Some("an estimate can use the IN and INOUT parameters of its type".into())
                    });
                    return None;
                }
                let Some(input) = slot.map(EstimateInput::Parameter) else { continue };
                if !inputs.contains(&input) {
                    inputs.push(input);
                    ports.push(Port { name: name.name.as_str().into(), field: None });
                }
            }
        }
        let line = self.document.lines.line(attribute.value_span.start);
        let code = Code::expressions(&[join(&mapped.value, pieces)], line, &ports);
        let fits = check_count(ports.len(), ports.len(), 1).and_then(|()| check_code(&code));
        let small = fits.is_ok();
        report_too_large(self.document, self.info, fits, self.report);
        small.then_some(EstimateCode { code, inputs })
    }
}
