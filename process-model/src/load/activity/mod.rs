//! Activity types: the code that a worker runs and the resources that it needs.

mod activity_code;
mod estimate;
mod expressions;
mod files;
mod launch;

use std::collections::HashSet;
use std::sync::Arc;

use crate::definition::{ActivityCode, ActivityType, Launch, Requires, Variable};
use crate::load::attributes::{choice, read};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, Tag};
use crate::load::literals;
use crate::load::report::LoadReport;
use crate::load::signatures::TypeInfo;
use crate::value::Type;
use crate::xml;

/// Builds an activity type. Returns `None` if it has no usable code, which is then reported.
pub(super) fn build(document: &ParsedDocument, info: &TypeInfo, report: &mut LoadReport) -> Option<ActivityType> {
    let requires = grammar::child(document, info.node, Tag::Requires);
    let requires = requires.map_or_else(Requires::default, |node| read_requires(document, node, report));
    let node = grammar::child(document, info.node, Tag::Code)?;
    let code = activity_code::read_code(document, info, node, report);
    let launch = match code {
        Some(ActivityCode::Lua { .. }) => {
            launch::refuse_program(document, info, node, report);
            Launch::default()
        }
        _ => launch::read_launch(document, info, node, report),
    };
    let files = files::read(document, info, report);
    if let Some(ActivityCode::Lua { .. }) = code
        && let Some(file) = [Tag::Input, Tag::Output].iter().find_map(|tag| grammar::child(document, info.node, *tag))
    {
        let element = document.tree.element(file);
        let message = format!("{} is only for programs: Lua code has no working directory", element.name);
        report.add("misplaced-element", document.span(&element.name_span), message, || None);
    }
    let cache = read_cache(document, info, report);
    let estimate = estimate::read(document, info, report);
    let (name, source, line, code) = (info.name.clone(), document.index, info.line, code?);
    let parameters = info.parameters.variables.clone();
    let activity = ActivityType { name, source, line, parameters, requires, files, code, launch, cache, estimate };
    launch::check_variable_names(document, info, &activity, report);
    Some(activity)
}

/// Reads `CACHE`. Results can be reused only if the activity has no other effects, as far as the definition tells.
fn read_cache(document: &ParsedDocument, info: &TypeInfo, report: &mut LoadReport) -> bool {
    let choices = [("true", true), ("false", false)];
    let cache = read(document, info.node, "CACHE", report, |text| choice(text, &choices)).unwrap_or(false);
    let Some(attribute) = document.tree.element(info.node).attribute("CACHE").filter(|_| cache) else { return false };
    let span = document.span(&attribute.name_span);
    let help = || Some("remove CACHE".to_owned());
    let shared = |variable: &&Variable| matches!(variable.ty, Some(Type::Shared(_)));
    if let Some(object) = info.parameters.variables.iter().find(shared) {
        let message = format!(
            "results cannot be reused: {:?} is a shared object, and the cache does not record calls of it",
            object.name
        );
        report.add("not-reusable", span.clone(), message, help);
    }
    let mut outputs = grammar::children(document, info.node, Tag::ActivityType).filter(|(tag, _)| *tag == Tag::Output);
    if outputs.any(|(_, node)| document.tree.element(node).attribute("TO").is_some()) {
        let message = "results cannot be reused: an OUTPUT is also written to a data source";
        report.add("not-reusable", span, message, help);
    }
    cache
}

fn read_requires(document: &ParsedDocument, node: xml::XmlElementId, report: &mut LoadReport) -> Requires {
    let default = Requires::default();
    let mut count = |name, least| {
        let number = read(document, node, name, report, |text| literals::int(text, least, u32::MAX.into()));
        number.and_then(|number| u32::try_from(number).ok())
    };
    let cpus = count("CPUS", 1).unwrap_or(default.cpus);
    let gpus = count("GPUS", 0).unwrap_or(default.gpus);
    let open_files = count("OPEN_FILES", 1).unwrap_or(default.open_files);
    let processes = count("PROCESSES", 1).unwrap_or(default.processes);
    let memory = read(document, node, "MEMORY", report, literals::size).unwrap_or(default.memory);
    let scratch = read(document, node, "SCRATCH", report, literals::size).unwrap_or(default.scratch);
    let mut known = HashSet::new();
    let tags = document.tree.element(node).attribute("TAGS").map_or("", |tags| &tags.value.value);
    let tags = tags.split_ascii_whitespace().filter(|tag| known.insert(*tag)).map(Arc::from).collect();
    Requires { cpus, memory, gpus, scratch, open_files, processes, tags }
}
