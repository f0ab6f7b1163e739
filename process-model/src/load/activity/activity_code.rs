//! The code of an activity type: Lua, a command, or a script for an interpreter.

use std::sync::Arc;

use super::expressions::{check, compile_all, expression, inputs, report_too_large};
use crate::definition::ActivityCode;
use crate::load::code_limits::{check_code, check_count};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, Tag};
use crate::load::report::LoadReport;
use crate::load::signatures::TypeInfo;
use crate::script::{Code, Form, Port};
use crate::xml;

/// Reads `CODE`. Returns `None` if it is unusable, which is then reported.
pub(super) fn read_code(
    document: &ParsedDocument,
    info: &TypeInfo,
    node: xml::XmlElementId,
    report: &mut LoadReport,
) -> Option<ActivityCode> {
    let attribute = document.tree.element(node).attribute("LANGUAGE")?;
    let language = attribute.value.value.as_str();
    match language {
        "lua" => read_lua(document, info, node, report),
        "command" => read_command(document, info, node, report),
        "wasm" => {
            let span = document.span(&attribute.value_span);
            report.add("unsupported", span, "WebAssembly is not supported yet", || {
                Some("use lua, command, or an interpreter such as bash or python".into())
            });
            None
        }
        _ => {
            let begins = language.starts_with(|c: char| c.is_ascii_alphabetic());
            if !begins || !language.chars().all(|c| c.is_ascii_alphanumeric() || "_+.-".contains(c)) {
                let message = format!("LANGUAGE: {language:?} is not the name of an interpreter");
                report.add("bad-value", document.span(&attribute.value_span), message, || {
                    Some("write lua, command, or the name of a program such as bash, python or R".into())
                });
                return None;
            }
            let text = document.tree.text(node);
            let line = text.as_ref().map_or(info.line, |text| document.lines.line(text.source_offset(0)));
            let text = text.map_or("".into(), |text| dedented(&text.value).into());
            Some(ActivityCode::Interpreter { language: language.into(), text, line })
        }
    }
}

/// Removes the indentation that all lines of a script share. It belongs to the document, and some languages give it a
/// meaning. Blank lines do not count.
fn dedented(text: &str) -> String {
    let blank = |line: &&str| line.trim().is_empty();
    let mut lines = text.lines().filter(|line| !blank(line));
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let first = lines.next().map_or("", |line| &line[..indentation(line)]);
    let common = lines.fold(first, |common, line| {
        let same = common.bytes().zip(line.bytes()).take_while(|(one, other)| one == other).count();
        &common[..same]
    });
    text.split('\n').map(|line| line.strip_prefix(common).unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

fn read_lua(
    document: &ParsedDocument,
    info: &TypeInfo,
    node: xml::XmlElementId,
    report: &mut LoadReport,
) -> Option<ActivityCode> {
    let inputs = inputs(info);
    let outputs: Vec<Port> = info
        .parameters
        .variables
        .iter()
        .filter(|variable| variable.direction.is_out())
        .map(|variable| Port { name: variable.name.clone(), field: None })
        .collect();
    let mut fits = check_count(inputs.len(), inputs.len(), outputs.len());
    let Some(mapped) = document.tree.text(node) else {
        report_too_large(document, info, fits, report);
        let code = Code::statements("", document.line(node), &inputs, &outputs);
        return Some(ActivityCode::Lua { text: "".into(), code });
    };
    let clean = check(document, info, &mapped, 0..mapped.value.len(), Form::Statements, report);
    let line = document.lines.line(mapped.source_offset(0));
    let code = Code::statements(&mapped.value, line, &inputs, &outputs);
    if clean {
        fits = fits.and_then(|()| check_code(&code));
    }
    report_too_large(document, info, fits, report);
    Some(ActivityCode::Lua { text: mapped.value.into(), code })
}

fn read_command(
    document: &ParsedDocument,
    info: &TypeInfo,
    node: xml::XmlElementId,
    report: &mut LoadReport,
) -> Option<ActivityCode> {
    let (mut texts, mut expressions): (Vec<Arc<str>>, Vec<String>) = Default::default();
    let (mut line, mut clean) = (None, true);
    for (_, argument) in grammar::children(document, node, Tag::Code) {
        line.get_or_insert(document.line(argument));
        let Some(mapped) = document.tree.text(argument) else {
            texts.push("".into());
            expressions.push("\"\"".into());
            continue;
        };
        match expression(document, info, &mapped, report) {
            Some(value) => expressions.push(value),
            None => clean = false,
        }
        texts.push(mapped.value.into());
    }
    let Some(line) = line else {
        let span = document.span(&document.tree.element(node).name_span);
        report.add("missing-element", span, "the command has no ARG", || {
            Some("write the program and each of its arguments as <ARG>…</ARG>".into())
        });
        return None;
    };
    let code = compile_all(document, info, &expressions, line, clean, report);
    Some(ActivityCode::Command { texts, code })
}
