//! How a worker runs an external program: image, environment, exit statuses, captured results.

use std::sync::Arc;

use super::expressions::{compile_all, expression};
use crate::definition::{ActivityType, Capture, Environment, Language, Launch};
use crate::load::attributes::{choice, read};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, PROGRAM_ATTRIBUTES, Tag};
use crate::load::literals;
use crate::load::report::LoadReport;
use crate::load::signatures::TypeInfo;
use crate::xml;

/// Reports settings of programs on Lua code, which has no exit status, no environment and no image.
pub(super) fn refuse_program(
    document: &ParsedDocument,
    info: &TypeInfo,
    code: xml::XmlElementId,
    report: &mut LoadReport,
) {
    let help = || Some("remove it, or run a program: LANGUAGE=\"command\", \"bash\", \"python\", …".to_owned());
    let results = results(document, info).map(|(_, node)| (node, "FROM"));
    for (node, name) in PROGRAM_ATTRIBUTES.iter().map(|name| (code, *name)).chain(results) {
        if let Some(attribute) = document.tree.element(node).attribute(name) {
            let message = format!("{name} is only for programs, not for Lua code");
            report.add("unknown-attribute", document.span(&attribute.name_span), message, help);
        }
    }
    if let Some(node) = grammar::child(document, info.node, Tag::Env) {
        let span = document.span(&document.tree.element(node).name_span);
        report.add("misplaced-element", span, "ENV is only for programs, not for Lua code", help);
    }
}

/// Iterates over the parameters that the activity gives a value, with their positions.
fn results(document: &ParsedDocument, info: &TypeInfo) -> impl Iterator<Item = (usize, xml::XmlElementId)> {
    let outs = [Tag::OutParameter, Tag::InOutParameter];
    let nodes = grammar::children(document, info.node, Tag::ActivityType).filter(move |(tag, _)| outs.contains(tag));
    nodes.filter_map(|(_, node)| {
        let name = &document.tree.element(node).attribute("NAME")?.value.value;
        Some((*info.parameters.slots.get(name.as_str())? as usize, node))
    })
}

/// Reads the settings of an external program.
pub(super) fn read_launch(
    document: &ParsedDocument,
    info: &TypeInfo,
    code: xml::XmlElementId,
    report: &mut LoadReport,
) -> Launch {
    let image = read(document, code, "IMAGE", report, |text| literals::image(text).map(Arc::from));
    let success = read(document, code, "SUCCESS", report, literals::statuses).unwrap_or_default();
    let retry = read(document, code, "RETRY", report, literals::statuses);
    let mut captures = vec![None; info.parameters.variables.len()];
    for (slot, node) in results(document, info) {
        captures[slot] = read(document, node, "FROM", report, |text| {
            let choices = [
                ("stdout", Capture::Stdout),
                ("stdout-trimmed", Capture::Trimmed),
                ("stdout-json", Capture::Json),
                ("exit-status", Capture::ExitStatus),
            ];
            choice(text, &choices)
        });
    }
    let environment = read_environment(document, info, report);
    let relaxed = read_strict(document, code, report).is_some_and(|strict| !strict);
    Launch { image, environment, success, retry, captures, relaxed }
}

/// Reads `STRICT`, which only shells have.
fn read_strict(document: &ParsedDocument, code: xml::XmlElementId, report: &mut LoadReport) -> Option<bool> {
    let element = document.tree.element(code);
    let language = element.attribute("LANGUAGE").map_or("", |language| &language.value.value);
    if let Some(attribute) = element.attribute("STRICT")
        && !Language::from_name(language).is_some_and(Language::is_shell)
    {
        let message = format!("STRICT is only for bash and sh, not for {language}");
        report.add("unknown-attribute", document.span(&attribute.name_span), message, || Some("remove it".into()));
        return None;
    }
    read(document, code, "STRICT", report, |text| choice(text, &[("true", true), ("false", false)]))
}

/// Reports parameters whose names the language of the code does not allow as variables.
pub(super) fn check_variable_names(
    document: &ParsedDocument,
    info: &TypeInfo,
    activity: &ActivityType,
    report: &mut LoadReport,
) {
    let Some(language) = activity.language() else { return };
    for (slot, variable) in activity.parameters.iter().enumerate() {
        if !variable.direction.is_in() && !activity.is_assigned(slot) {
            continue;
        }
        if let Some(problem) = language.refuses(&variable.name) {
            let message = format!("{problem}, so the code cannot have a variable of this name");
            let name = variable.name.trim_start_matches('_').to_lowercase();
            report.add("bad-name", document.span(info.parameters.span(slot as u32)), message, || {
                Some(format!("rename the parameter, for example to {:?}", format!("{name}_value")))
            });
        }
    }
}

fn read_environment(document: &ParsedDocument, info: &TypeInfo, report: &mut LoadReport) -> Environment {
    let (mut names, mut expressions): (Vec<Arc<str>>, Vec<String>) = Default::default();
    let (mut line, mut clean) = (info.line, true);
    for (_, node) in grammar::children(document, info.node, Tag::ActivityType).filter(|(tag, _)| *tag == Tag::Env) {
        let Some(name) =
            read(document, node, "NAME", report, |text| literals::environment_variable(text).map(Arc::<str>::from))
        else {
            continue;
        };
        if names.contains(&name) {
            let span = document.span(&document.tree.element(node).name_span);
            report.add("duplicate-name", span, format!("the environment variable {name:?} is set twice"), || {
                Some("keep one of them".into())
            });
            continue;
        }
        if names.is_empty() {
            line = document.line(node);
        }
        let Some(value) = document.tree.element(node).attribute("VALUE") else { continue };
        match expression(document, info, &value.value, report) {
            Some(value) => expressions.push(value),
            None => clean = false,
        }
        names.push(name);
    }
    if names.is_empty() {
        return Environment::default();
    }
    let code = compile_all(document, info, &expressions, line, clean, report);
    Environment { names, code: Some(code) }
}
