//! The command line and the environment variables of an attempt.

use std::collections::BTreeMap;

use xavantes_model::definition::ActivityCode;
use xavantes_model::value::Value;
use xavantes_proto::v1;

use super::attempt_directories::WorkDir;
use super::procfs::MARKER_VARIABLE;
use crate::attempt_failure::{AttemptFailure, failure};
use crate::attempts::job::Job;
use crate::expressions::evaluate;

/// Upper bound on a parameter's environment variable. Longer ones are in the parameters file only: Linux refuses variables
/// above 128 KiB.
const MAX_VARIABLE_BYTES: usize = 32 << 10;
/// Upper bound on all variables of parameters together.
const MAX_VARIABLES_BYTES: usize = 256 << 10;
/// Variables that parameters do not replace.
const RESERVED: [&str; 4] = ["HOME", "LANG", "PATH", "TMPDIR"];
/// Upper bound of the system on one argument.
const MAX_ARGUMENT_BYTES: usize = 128 << 10;

/// The command line and the variables of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The name of the program in messages.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

/// The invocation of an attempt. A script, or its prelude, becomes the last argument of its interpreter. `parameters` have paths in the
/// working directory instead of files.
pub(crate) fn invocation(
    job: &Job,
    parameters: &[Value],
    interpreter: impl Fn(&str) -> Option<Vec<String>>,
    workdir: &WorkDir,
) -> Result<Invocation, AttemptFailure> {
    let (name, command) = match job.code() {
        ActivityCode::Command { code, texts } => {
            // Most commands have no expressions.
            let plain = texts.iter().all(|text| !text.contains('$'));
            let command = match plain {
                true => texts.iter().map(|text| text.to_string()).collect(),
                false => evaluate(job, parameters, code)?,
            };
            (command.first().map_or_else(String::new, |program| format!("{program:?}")), command)
        }
        ActivityCode::Interpreter { language, .. } => {
            let Some(mut command) = interpreter(language) else {
                let message = format!("this node has no interpreter for {language:?}");
                return Err(failure(v1::FailureKind::Worker, message));
            };
            let first = if job.activity().language().is_some() { workdir.prelude() } else { workdir.script() };
            command.push(text(&first));
            (format!("the {language} code"), command)
        }
        ActivityCode::Lua { .. } => return Err(failure(v1::FailureKind::Worker, "Lua code has no command line")),
    };
    if command.is_empty() || command[0].is_empty() {
        return Err(failure(v1::FailureKind::Parameter, "the command has no program"));
    }
    for (number, argument) in command.iter().enumerate() {
        if argument.contains('\0') {
            let message = format!("argument {number} has a NUL character in it, which no program can be given");
            return Err(failure(v1::FailureKind::Parameter, message));
        }
        if argument.len() >= MAX_ARGUMENT_BYTES {
            let message = format!(
                "argument {number} has {} bytes, but the system accepts less than {MAX_ARGUMENT_BYTES}: the program finds its \
                 parameters in the file that XAVANTES_PARAMETERS names",
                argument.len()
            );
            return Err(failure(v1::FailureKind::Parameter, message));
        }
    }
    let environment = environment(job, parameters, workdir)?;
    Ok(Invocation { name, command, environment })
}

fn environment(job: &Job, parameters: &[Value], workdir: &WorkDir) -> Result<BTreeMap<String, String>, AttemptFailure> {
    let activity = job.activity();
    let mut variables = BTreeMap::new();
    let mut free = MAX_VARIABLES_BYTES;
    for (parameter, value) in activity.parameters.iter().zip(parameters).filter(|(_, value)| !value.is_null()) {
        let text = value.to_string();
        let fits = text.len() <= MAX_VARIABLE_BYTES.min(free) && !text.contains('\0');
        if fits && !parameter.name.starts_with("XAVANTES_") && !RESERVED.contains(&&*parameter.name) {
            free -= text.len();
            variables.insert(parameter.name.to_string(), text);
        }
    }
    let declared = &activity.launch.environment;
    if let Some(code) = &declared.code {
        for (name, value) in declared.names.iter().zip(evaluate(job, parameters, code)?) {
            if value.contains('\0') || value.len() >= MAX_ARGUMENT_BYTES {
                let message = format!("the environment variable {name} has a NUL character in it, or is too long");
                return Err(failure(v1::FailureKind::Parameter, message));
            }
            variables.insert(name.to_string(), value);
        }
    }
    let requires = &activity.requires;
    let attempt = job.attempt.key.attempt.to_string();
    let own = [
        (MARKER_VARIABLE, text(workdir.path())),
        ("XAVANTES_RESULTS", text(&workdir.results())),
        ("XAVANTES_PATH", job.path.to_string()),
        ("XAVANTES_ATTEMPT", attempt),
        ("XAVANTES_CPUS", requires.cpus.to_string()),
    ];
    variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
    if !job.parameters.is_empty() {
        variables.insert("XAVANTES_PARAMETERS".to_owned(), text(&workdir.parameters()));
    }
    if requires.memory > 0 {
        variables.insert("XAVANTES_MEMORY".to_owned(), requires.memory.to_string());
    }
    Ok(variables)
}

/// Paths of working directories are UTF-8, because `WorkDirs::open` checks it.
fn text(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

/// All parameters, as a JSON object.
pub(crate) fn parameters_json(job: &Job, parameters: &[Value]) -> String {
    let names = job.activity().parameters.iter();
    let members = names.zip(parameters).map(|(variable, value)| (variable.name.to_string(), value.to_json()));
    serde_json::Value::Object(members.collect()).to_string()
}
