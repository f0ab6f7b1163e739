//! `INPUT` and `OUTPUT`: which files a worker stages in and out of the working directory.

use std::sync::Arc;

use super::expressions::{check, inputs, report_too_large};
use crate::definition::{ActivityFiles, FileText, InputFile, OutputFile};
use crate::diagnostic::did_you_mean;
use crate::load::code_limits::{check_code, check_count};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, Tag};
use crate::load::problem::report_unclosed;
use crate::load::report::{LoadReport, MAX_CANDIDATES};
use crate::load::signatures::TypeInfo;
use crate::load::template::{self, Piece, join};
use crate::script::{Code, Form};
use crate::value::Type;
use crate::working_path::{check_path, check_pattern, parse_source_uri};
use crate::xml;

/// Reads `INPUT` and `OUTPUT` of an activity type.
pub(super) fn read(document: &ParsedDocument, info: &TypeInfo, report: &mut LoadReport) -> ActivityFiles {
    let mut reader = Reader { document, info, report, expressions: Vec::new(), line: info.line, clean: true };
    let (mut inputs, mut outputs): (Vec<InputFile>, Vec<OutputFile>) = Default::default();
    for (tag, node) in grammar::children(document, info.node, Tag::ActivityType) {
        match tag {
            Tag::Input => {
                let known: Vec<u32> = inputs.iter().map(|input| input.slot).collect();
                let path = reader.text(node, "PATH", check_path);
                inputs
                    .extend(reader.parameter(node, tag, &known).zip(path).map(|(slot, path)| InputFile { slot, path }));
            }
            Tag::Output => {
                let known: Vec<u32> = outputs.iter().map(|output| output.slot).collect();
                let pattern = reader.text(node, "PATTERN", check_pattern);
                let to = reader.text(node, "TO", |uri| match parse_source_uri(uri) {
                    Some((name, path)) if !name.is_empty() => check_path(path),
                    _ => Err("is not a location in a data source: expected source://name/path"),
                });
                let slot = reader.parameter(node, tag, &known);
                outputs.extend(slot.zip(pattern).map(|(slot, pattern)| OutputFile { slot, pattern, to }));
            }
            _ => {}
        }
    }
    let code = reader.code();
    ActivityFiles { inputs, outputs, code }
}

/// Reads the files of one activity type.
struct Reader<'a> {
    document: &'a ParsedDocument,
    info: &'a TypeInfo,
    report: &'a mut LoadReport,
    /// Expressions of the computed texts, in order.
    expressions: Vec<String>,
    line: u32,
    clean: bool,
}

impl Reader<'_> {
    /// Returns the slot of the parameter that an `INPUT` or `OUTPUT` names.
    fn parameter(&mut self, node: xml::XmlElementId, tag: Tag, known: &[u32]) -> Option<u32> {
        let attribute = self.document.tree.element(node).attribute("PARAMETER")?;
        let name = attribute.value.value.as_str();
        let parameters = &self.info.parameters;
        let fitting = |slot: &u32| {
            let variable = &parameters.variables[*slot as usize];
            let direction = if tag == Tag::Input { variable.direction.is_in() } else { variable.direction.is_out() };
            direction && matches!(variable.ty, None | Some(Type::File | Type::Directory | Type::List))
        };
        let slot = parameters.slots.get(name).copied().filter(fitting).filter(|slot| !known.contains(slot));
        if slot.is_none() {
            let word = if tag == Tag::Input { "IN" } else { "OUT" };
            let message = match parameters.slots.get(name) {
                Some(slot) if known.contains(slot) => format!("{name:?} has two {}s", tag.name()),
                Some(_) => format!("{name:?} is not an {word} parameter of type file, directory or list"),
                None => format!("there is no parameter {name:?}"),
            };
            let slots = (0..parameters.next_slot()).filter(fitting).take(MAX_CANDIDATES);
            let names = slots.map(|slot| &*parameters.variables[slot as usize].name);
            let span = self.document.span(&attribute.value_span);
            self.report.add("unknown-name", span, message, || did_you_mean(name, names));
        }
        slot
    }

    /// Reads a path, pattern or location. The worker checks a text with code in it when it has computed the text.
    fn text(
        &mut self,
        node: xml::XmlElementId,
        name: &str,
        fits: impl FnOnce(&str) -> Result<(), &'static str>,
    ) -> Option<FileText> {
        let attribute = self.document.tree.element(node).attribute(name)?;
        let mapped = &attribute.value;
        let pieces = match template::cut(&mapped.value) {
            Ok(pieces) => pieces,
            Err(at) => {
                report_unclosed(self.document, self.report, &mapped.source_range(at..mapped.value.len()));
                self.clean = false;
                return None;
            }
        };
        if let [Piece::Text(plain)] = &pieces[..] {
            if let Err(why) = fits(plain) {
                let span = self.document.span(&attribute.value_span);
                self.report.add("bad-value", span, format!("{name}: {plain:?} {why}"), || None);
            }
            return Some(FileText::Plain(Arc::from(plain.as_str())));
        }
        for piece in &pieces {
            if let Piece::Code(range) = piece {
                let clean = check(self.document, self.info, mapped, range.clone(), Form::Expression, self.report);
                self.clean &= clean;
            }
        }
        self.line = self.document.line(node);
        self.expressions.push(join(&mapped.value, &pieces));
        Some(FileText::Computed(self.expressions.len() - 1))
    }

    fn code(self) -> Option<Code> {
        if self.expressions.is_empty() {
            return None;
        }
        let inputs = inputs(self.info);
        let mut fits = check_count(inputs.len(), inputs.len(), self.expressions.len());
        let code = Code::expressions(&self.expressions, self.line, &inputs);
        if self.clean {
            fits = fits.and_then(|()| check_code(&code));
        }
        report_too_large(self.document, self.info, fits, self.report);
        Some(code)
    }
}
