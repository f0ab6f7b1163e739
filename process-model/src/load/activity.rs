//! Activity types: what a worker runs and what it needs for that.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::attributes::{choice, read};
use super::bindings::join;
use super::compile::{Place, report_unclosed};
use super::grammar::{self, Tag};
use super::scope::{self, TooMuch, check_code, check_count};
use super::template::{self, Piece};
use super::{Document, MOST_CANDIDATES, Report, TypeInfo, files, literals};
use crate::definition::{ActivityCode, ActivityType, Capture, Environment, Launch, Requires, Variable};
use crate::diagnostic::did_you_mean;
use crate::script::{BUILTINS, Code, Form, NameUse, Port};
use crate::value::{SharedKind, Type};
use crate::xml::{self, Mapped};

/// The number of the attempt, in all code of activities.
const ATTEMPT: &str = "attempt";

/// Builds an activity type; none if it has no code that could be used.
pub(super) fn build(document: &Document, info: &TypeInfo, report: &mut Report) -> Option<ActivityType> {
    let requires = grammar::child(document, info.node, Tag::Requires);
    let requires = requires.map_or_else(Requires::default, |node| read_requires(document, node, report));
    let node = grammar::child(document, info.node, Tag::Code)?;
    let code = read_code(document, info, node, report);
    let launch = match code {
        Some(ActivityCode::Lua { .. }) => {
            refuse_program(document, info, node, report);
            Launch::default()
        }
        _ => read_launch(document, info, node, report),
    };
    let files = files::read(document, info, report);
    if let Some(ActivityCode::Lua { .. }) = code
        && let Some(file) = [Tag::Input, Tag::Output].iter().find_map(|tag| grammar::child(document, info.node, *tag))
    {
        let element = document.tree.element(file);
        let message = format!("{} is for programs: Lua code has no working directory", element.name);
        report.add("misplaced-element", document.span(&element.name_span), message, || None);
    }
    let cache = read_cache(document, info, report);
    let (name, source, line, code) = (info.name.clone(), document.index, info.line, code?);
    let parameters = info.parameters.variables.clone();
    Some(ActivityType { name, source, line, parameters, requires, files, code, launch, cache })
}

/// Results can be used again only if they are all that an activity does, as far as that can be known.
fn read_cache(document: &Document, info: &TypeInfo, report: &mut Report) -> bool {
    let choices = [("true", true), ("false", false)];
    let cache = read(document, info.node, "CACHE", report, |text| choice(text, &choices)).unwrap_or(false);
    let Some(attribute) = document.tree.element(info.node).attribute("CACHE").filter(|_| cache) else { return false };
    let span = document.span(&attribute.name_span);
    let help = || Some("remove CACHE".to_owned());
    let shared = |variable: &&Variable| matches!(variable.ty, Some(Type::Shared(_)));
    if let Some(object) = info.parameters.variables.iter().find(shared) {
        let message =
            format!("results cannot be used again: {:?} is a shared object, and calls of it are not kept", object.name);
        report.add("not-reusable", span.clone(), message, help);
    }
    let mut outputs = grammar::children(document, info.node, Tag::ActivityType).filter(|(tag, _)| *tag == Tag::Output);
    if outputs.any(|(_, node)| document.tree.element(node).attribute("TO").is_some()) {
        let message = "results cannot be used again: an OUTPUT is also written to a data source";
        report.add("not-reusable", span, message, help);
    }
    cache
}

fn read_requires(document: &Document, node: xml::ElementId, report: &mut Report) -> Requires {
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

/// Lua code has no exit status, no environment and no image.
fn refuse_program(document: &Document, info: &TypeInfo, code: xml::ElementId, report: &mut Report) {
    let help = || Some("remove it, or run a program: LANGUAGE=\"command\", \"bash\", \"python\", …".to_owned());
    let results = results(document, info).map(|(_, node)| (node, "FROM"));
    for (node, name) in grammar::PROGRAM.iter().map(|name| (code, *name)).chain(results) {
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

/// The parameters that the activity gives a value, with their positions.
fn results(document: &Document, info: &TypeInfo) -> impl Iterator<Item = (usize, xml::ElementId)> {
    let outs = [Tag::OutParameter, Tag::InOutParameter];
    let nodes = grammar::children(document, info.node, Tag::ActivityType).filter(move |(tag, _)| outs.contains(tag));
    nodes.filter_map(|(_, node)| {
        let name = &document.tree.element(node).attribute("NAME")?.value.value;
        Some((*info.parameters.slots.get(name.as_str())? as usize, node))
    })
}

fn read_launch(document: &Document, info: &TypeInfo, code: xml::ElementId, report: &mut Report) -> Launch {
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
    Launch { image, environment, success, retry, captures }
}

fn read_environment(document: &Document, info: &TypeInfo, report: &mut Report) -> Environment {
    let (mut names, mut expressions): (Vec<Arc<str>>, Vec<String>) = Default::default();
    let (mut line, mut clean) = (info.line, true);
    for (_, node) in grammar::children(document, info.node, Tag::ActivityType).filter(|(tag, _)| *tag == Tag::Env) {
        let Some(name) = read(document, node, "NAME", report, |text| literals::variable(text).map(Arc::<str>::from))
        else {
            continue;
        };
        if names.contains(&name) {
            let span = document.span(&document.tree.element(node).name_span);
            report.add("duplicate-name", span, format!("{name:?} is set twice"), || Some("keep one of them".into()));
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
    let code = ready(document, info, &expressions, line, clean, report);
    Environment { names, code: Some(code) }
}

fn read_code(document: &Document, info: &TypeInfo, node: xml::ElementId, report: &mut Report) -> Option<ActivityCode> {
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

/// A script without the indentation that all its lines have, which is the document's: some languages mind it. Lines of
/// nothing but blanks have none.
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

pub(super) fn ports(info: &TypeInfo) -> Vec<Port> {
    let names = info.parameters.variables.iter().map(|variable| variable.name.clone());
    names.chain([ATTEMPT.into()]).map(|name| Port { name, field: None }).collect()
}

fn read_lua(document: &Document, info: &TypeInfo, node: xml::ElementId, report: &mut Report) -> Option<ActivityCode> {
    let inputs = ports(info);
    let outputs: Vec<Port> = info
        .parameters
        .variables
        .iter()
        .filter(|variable| variable.direction.is_out())
        .map(|variable| Port { name: variable.name.clone(), field: None })
        .collect();
    let mut fits = check_count(inputs.len(), inputs.len(), outputs.len());
    let Some(mapped) = document.tree.text(node) else {
        report_too_much(document, info, fits, report);
        let code = Code::statements("", document.line(node), &inputs, &outputs);
        return Some(ActivityCode::Lua { text: "".into(), code });
    };
    let clean = check(document, info, &mapped, 0..mapped.value.len(), Form::Statements, report);
    let line = document.lines.line(mapped.source_offset(0));
    let code = Code::statements(&mapped.value, line, &inputs, &outputs);
    if clean {
        fits = fits.and_then(|()| check_code(&code));
    }
    report_too_much(document, info, fits, report);
    Some(ActivityCode::Lua { text: mapped.value.into(), code })
}

fn read_command(
    document: &Document,
    info: &TypeInfo,
    node: xml::ElementId,
    report: &mut Report,
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
    let code = ready(document, info, &expressions, line, clean, report);
    Some(ActivityCode::Command { texts, code })
}

/// A text with `${…}` in it as one expression; nothing if something is wrong with it, which is reported.
fn expression(document: &Document, info: &TypeInfo, mapped: &Mapped, report: &mut Report) -> Option<String> {
    let pieces = match template::cut(&mapped.value) {
        Ok(pieces) => pieces,
        Err(at) => {
            report_unclosed(document, report, &mapped.source_range(at..mapped.value.len()));
            return None;
        }
    };
    let mut clean = true;
    for piece in &pieces {
        if let Piece::Code(range) = piece {
            clean &= check(document, info, mapped, range.clone(), Form::Expression, report);
        }
    }
    clean.then(|| join(&mapped.value, &pieces))
}

/// Expressions over all parameters, ready to run.
fn ready(
    document: &Document,
    info: &TypeInfo,
    expressions: &[String],
    line: u32,
    clean: bool,
    report: &mut Report,
) -> Code {
    let inputs = ports(info);
    let mut fits = check_count(inputs.len(), inputs.len(), expressions.len());
    let code = Code::expressions(expressions, line, &inputs);
    if clean {
        fits = fits.and_then(|()| check_code(&code));
    }
    report_too_much(document, info, fits, report);
    code
}

pub(super) fn report_too_much(document: &Document, info: &TypeInfo, outcome: Result<(), TooMuch>, report: &mut Report) {
    if let Err(TooMuch { code, message, help }) = outcome {
        let span = document.span(&document.tree.element(info.node).name_span);
        report.add(code, span, message, || Some(help.into()));
    }
}

/// Checks a piece of code against the parameters of the type; true if nothing is wrong with it.
pub(super) fn check(
    document: &Document,
    info: &TypeInfo,
    mapped: &Mapped,
    range: Range<usize>,
    form: Form,
    report: &mut Report,
) -> bool {
    let text = &mapped.value[range.clone()];
    let place = Place { document, mapped, start: range.start };
    let uses = match document.uses(text, form) {
        Ok(uses) => uses,
        Err(error) => {
            place.syntax(report, text, error);
            return false;
        }
    };
    let mut complained = HashSet::new();
    let problems = uses.iter().filter_map(|it| problem(info, it, form));
    let problems = problems.filter(|problem| complained.insert(problem.message.clone())).collect();
    place.problems(report, problems).is_some()
}

fn problem<'a>(info: &'a TypeInfo, it: &NameUse, form: Form) -> Option<scope::Problem<'a>> {
    let name = it.name.clone();
    let declared = info.parameters.slots.contains_key(name.as_str());
    let shared = SharedKind::ALL.iter().any(|kind| kind.type_name() == name);
    let built_in = BUILTINS.contains(&name.as_str());
    let (code, message, help): (_, _, Box<dyn FnOnce() -> Option<String>>) = if it.write && form == Form::Expression {
        ("bad-assignment", "an expression cannot assign anything".to_owned(), Box::new(|| None))
    } else if declared || (!it.write && (built_in || name == ATTEMPT)) {
        return None;
    } else if shared {
        let help = || Some("create it in a PRE_CODE and give it to the activity as a parameter".into());
        ("unknown-name", format!("an activity cannot create a {name}"), Box::new(help))
    } else if name == ATTEMPT {
        ("bad-assignment", format!("{name:?} is set by the engine and can only be read"), Box::new(|| None))
    } else if it.write {
        let message = match built_in {
            true => format!("{name:?} is built in and cannot be assigned"),
            false => format!("{name:?} is not declared, so it cannot be assigned"),
        };
        ("unknown-name", message, Box::new(move || meant(info, &name, false)))
    } else {
        ("unknown-name", format!("there is no {name:?} here"), Box::new(move || meant(info, &name, true)))
    };
    Some(scope::Problem { code, at: it.at.clone(), message, write: it.write, help })
}

fn meant(info: &TypeInfo, name: &str, built_in: bool) -> Option<String> {
    let parameters = info.parameters.variables.iter().take(MOST_CANDIDATES).map(|variable| &*variable.name);
    let others = built_in.then_some(BUILTINS.into_iter().chain([ATTEMPT])).into_iter().flatten();
    did_you_mean(name, parameters.chain(others)).or_else(|| Some("declare it as a parameter, or make it local".into()))
}
