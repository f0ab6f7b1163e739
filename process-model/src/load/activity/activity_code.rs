//! The code of an activity type: Lua, a command, or a script for an interpreter.

use std::collections::HashSet;
use std::sync::Arc;

use super::expressions::{check, compile_all, expression, inputs, report_too_large};
use crate::definition::{ActivityCode, Direction, Variable};
use crate::diagnostic::did_you_mean;
use crate::load::code_limits::{check_code, check_count};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, Tag};
use crate::load::report::LoadReport;
use crate::load::signatures::TypeInfo;
use crate::script::{Code, Form, Port, RAISES};
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
            if !check_language(document, attribute, report) {
                return None;
            }
            let text = document.tree.text(node);
            let line = text.as_ref().map_or(info.line, |text| document.lines.line(text.source_offset(0)));
            let text: Arc<str> = text.map_or("".into(), |text| dedented(&text.value).into());
            warn_of_unmentioned_results(document, info, &text, report);
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

/// Languages that workers know, and those of Xavantes itself.
const LANGUAGES: [&str; 10] = ["lua", "command", "bash", "sh", "python", "R", "perl", "node", "ruby", "julia"];
/// Interpreters whose names resemble others.
const OTHERS: [&str; 31] = [
    "ash", "bsh", "csh", "dash", "es", "fish", "ksh", "mksh", "osh", "rbash", "tcsh", "xonsh", "yash", "ysh", "zsh",
    "bpython", "cython", "ipython", "jython", "pypy", "jruby", "mruby", "nodejs", "Rscript", "r", "luajit", "luau",
    "raku", "ch", "rc", "hy",
];
/// A name with fewer letters than this has too many neighbours that may be names of interpreters.
const LONG_NAME: usize = 5;

/// Reports the name of an interpreter that looks like a misspelt one. Returns true if the code can be used.
fn check_language(document: &ParsedDocument, attribute: &xml::Attribute, report: &mut LoadReport) -> bool {
    let written = attribute.value.value.as_str();
    // `python3.11` is a version of `python`.
    let name = written.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if LANGUAGES.contains(&name) || OTHERS.contains(&name) {
        return true;
    }
    let Some(help) = did_you_mean(name, LANGUAGES) else { return true };
    let span = document.span(&attribute.value_span);
    let message = format!("LANGUAGE: no interpreter that Xavantes knows is called {written:?}");
    // One slip of the hand in a long name, or in its case, is surely a mistake. Any other name may be a program that its author
    // has.
    let slip = LANGUAGES.iter().any(|known| {
        let (name, known) = (name.to_lowercase(), known.to_lowercase());
        let misspelt = || known.len() >= LONG_NAME && strsim::damerau_levenshtein(&name, &known) <= 1;
        name == known || (name.len() <= known.len() && misspelt())
    });
    if slip {
        report.add("bad-value", span, message, || Some(help));
    } else {
        report.warn("bad-value", span, message, || Some(help));
    }
    !slip
}

/// The `OUT` parameters that need a value from the code.
fn needed_results(info: &TypeInfo) -> impl Iterator<Item = (u32, &Variable)> {
    let variables = (0u32..).zip(&info.parameters.variables);
    variables.filter(|(_, variable)| {
        variable.direction == Direction::Out && !variable.optional && variable.default.is_none()
    })
}

/// Reports `OUT` parameters that Lua code never assigns. Code that raises errors may be meant to fail, without results.
fn check_assigned(document: &ParsedDocument, info: &TypeInfo, text: &str, report: &mut LoadReport) {
    let Ok(uses) = document.free_names(text, Form::Statements) else { return };
    if uses.iter().any(|it| it.name == RAISES) {
        return;
    }
    let assigned: HashSet<&str> = uses.iter().filter(|it| it.write).map(|it| it.name.as_str()).collect();
    for (slot, variable) in needed_results(info).filter(|(_, variable)| !assigned.contains(&*variable.name)) {
        let message = format!("nothing assigns the OUT parameter {:?}", variable.name);
        report.add("unassigned", document.span(info.parameters.span(slot)), message, || {
            let name = &variable.name;
            Some(format!("assign it in CODE: {name} = …; or write OPTIONAL=\"true\" or a DEFAULT"))
        });
    }
}

/// Warns of `OUT` parameters that a script does not even mention. It can still write them to the file of results.
fn warn_of_unmentioned_results(document: &ParsedDocument, info: &TypeInfo, text: &str, report: &mut LoadReport) {
    if text.contains("XAVANTES_RESULTS") {
        return;
    }
    let mut known: HashSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for (tag, node) in grammar::children(document, info.node, Tag::ActivityType) {
        let element = document.tree.element(node);
        let name = match tag {
            Tag::Output => element.attribute("PARAMETER"),
            Tag::OutParameter if element.attribute("FROM").is_some() => element.attribute("NAME"),
            _ => None,
        };
        known.extend(name.map(|name| name.value.value.as_str()));
    }
    for (slot, variable) in needed_results(info).filter(|(_, variable)| !known.contains(&*variable.name)) {
        let message = format!("the script never mentions the OUT parameter {:?}", variable.name);
        report.warn("unassigned", document.span(info.parameters.span(slot)), message, || {
            Some("assign a variable of this name, write FROM=\"stdout-trimmed\", or add an OUTPUT for a file".into())
        });
    }
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
        check_assigned(document, info, "", report);
        report_too_large(document, info, fits, report);
        let code = Code::statements("", document.line(node), &inputs, &outputs);
        return Some(ActivityCode::Lua { text: "".into(), code });
    };
    let clean = check(document, info, &mapped, 0..mapped.value.len(), Form::Statements, report);
    if clean {
        check_assigned(document, info, &mapped.value, report);
    }
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
