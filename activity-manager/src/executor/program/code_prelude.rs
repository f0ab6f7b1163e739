//! Parameters as variables: the files with which an interpreter begins instead of the code itself. They set the variables, run
//! the code under its own name and line numbers, and write the variables of the results.
//!
//! | file in the attempt's directory | content |
//! |---|---|
//! | `prelude` | what the interpreter runs |
//! | `script` | the code |
//! | `values.json` | the parameters, and the results with their types; shells need none |
//! | `assigned.json` | the results that the prelude writes |

use std::io;

use serde_json::{Map, Value as Json, json};
use xavantes_model::definition::{ActivityCode, ActivityType, Language};
use xavantes_model::value::{Type, Value};

use super::assigned_outs::{Assigned, assigned_outs};
use super::attempt_directories::WorkDir;
use super::program_values::ProgramObjects;
use super::shell_prelude;

/// Writes the files of an attempt whose parameters are variables.
pub(super) fn write_prelude(
    language: Language,
    activity: &ActivityType,
    parameters: &[Value],
    objects: &mut ProgramObjects,
    workdir: &mut WorkDir,
) -> io::Result<()> {
    let prelude = match language {
        Language::Bash | Language::Sh => shell_prelude::prelude(language, activity, parameters, workdir),
        Language::Perl => perl(activity, workdir),
        Language::Python => include_str!("preludes/python.py").to_owned(),
        Language::R => include_str!("preludes/r.R").to_owned(),
        Language::Node => include_str!("preludes/node.js").to_owned(),
        Language::Ruby => include_str!("preludes/ruby.rb").to_owned(),
        Language::Julia => include_str!("preludes/julia.jl").to_owned(),
    };
    workdir.write(workdir.prelude(), prelude.as_bytes())?;
    if language.is_shell() {
        return Ok(());
    }
    let mut values = Map::new();
    for (variable, value) in activity.parameters.iter().zip(parameters).filter(|(it, _)| it.direction.is_in()) {
        values.insert(variable.name.to_string(), objects.encode(value).map_err(io::Error::other)?);
    }
    let outs: Map<String, Json> =
        assigned_outs(activity).map(|out| (out.name.to_owned(), out.ty.name().into())).collect();
    workdir.write(workdir.values(), json!({ "values": values, "outs": outs }).to_string().as_bytes())
}

/// Perl compiles code and variables together: `our` declares the variables for code under `use strict`, and the function after
/// the code finds variables that the code declares itself, wherever the code ends.
fn perl(activity: &ActivityType, workdir: &WorkDir) -> String {
    let sigil = |ty: Option<Type>| match ty {
        Some(Type::List) => '@',
        Some(Type::Map) => '%',
        _ => '$',
    };
    let all = activity.parameters.iter().enumerate();
    let used = all.filter(|(slot, variable)| variable.direction.is_in() || activity.is_assigned(*slot));
    let names: Vec<String> = used.map(|(_, variable)| format!("{}{}", sigil(variable.ty), variable.name)).collect();
    let declared = if names.is_empty() { String::new() } else { format!("our ({});", names.join(", ")) };
    let found: Vec<String> =
        assigned_outs(activity).map(|out| format!("{0} => \\{1}{0}", out.name, sigil(Some(out.ty)))).collect();
    let code = match &activity.code {
        ActivityCode::Interpreter { text, .. } => &**text,
        _ => "",
    };
    let is_end = |line: &&str| matches!(line.trim_end(), "__END__" | "__DATA__");
    let data = code.split_inclusive('\n').find(is_end).map_or("", |line| {
        let offset = line.as_ptr() as usize - code.as_ptr() as usize;
        &code[offset..]
    });
    let code = &code[..code.len() - data.len()];
    format!(
        "{}BEGIN {{ XavantesPrelude::begin({}) }}\n{declared}\n{{\n# line 1 \"{}\"\n{code}\n;\nsub XavantesPrelude::find {{ \
         %XavantesPrelude::found = ({}) }}\n}}\n{data}",
        include_str!("preludes/perl.pl"),
        u8::from(code.lines().any(|line| line.trim_start().starts_with("use utf8"))),
        workdir.script().display(),
        found.join(", "),
    )
}

/// Reads what a prelude wrote. A variable that the code did not change has the value of `staged`.
pub(super) fn read_assigned(
    language: Language,
    activity: &ActivityType,
    staged: &[Value],
    objects: &ProgramObjects,
    bytes: &[u8],
) -> Result<Assigned, String> {
    if language.is_shell() {
        return shell_prelude::read_assigned(activity, staged, bytes);
    }
    let mut written: Map<String, Json> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut assigned = Assigned::new();
    for out in assigned_outs(activity) {
        let mut member = |kind: &str| written.get_mut(kind)?.as_object_mut()?.remove(out.name);
        let result = match (member("values"), member("problems")) {
            (_, Some(problem)) => Err(problem.as_str().unwrap_or("it is no value of a process").to_owned()),
            (Some(json), None) => objects.decode(json).and_then(|value| match out.before(staged) {
                Some(before) if *before == value => Ok(value),
                _ => typed(out.ty, value),
            }),
            (None, None) => continue,
        };
        assigned.insert(out.name.to_owned(), result);
    }
    Ok(assigned)
}

/// The value as the declared type. Nothing is a value of every type.
fn typed(ty: Type, value: Value) -> Result<Value, String> {
    if value.is_null() { Ok(value) } else { ty.accept(value) }
}
