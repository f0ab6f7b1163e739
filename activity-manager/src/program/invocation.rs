//! What is started for an attempt: a program, its arguments, its environment.

use std::cell::RefCell;
use std::collections::BTreeMap;

use xavantes_model::definition::ActivityCode;
use xavantes_model::script::{Argument, Code, Limits as ScriptLimits, Sandbox};
use xavantes_model::shared::Objects;
use xavantes_model::value::Value;
use xavantes_proto::v1;

use super::folder::Folder;
use super::register::MARKER;
use super::{Failed, failure};
use crate::desk::Job;

/// Parameters whose text is longer are in the file of parameters alone; the system takes no variable above 128 KiB.
const LONGEST_VARIABLE: usize = 32 << 10;
/// So much all of them take together at most.
const MOST_VARIABLES: usize = 256 << 10;
/// Variables that no parameter takes the place of.
const RESERVED: [&str; 4] = ["HOME", "LANG", "PATH", "TMPDIR"];
/// One argument is at most so long: the system takes no longer one.
const LONGEST_ARGUMENT: usize = 128 << 10;

thread_local! {
    /// Evaluates arguments; they are expressions of the definition, under the limits of control code.
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

/// What a program gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// What it is called in messages.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

/// The command of an attempt: for a script, the interpreter's with the script behind it. The parameters are as the program
/// sees them.
pub(crate) fn invocation(
    job: &Job,
    parameters: &[Value],
    interpreter: impl Fn(&str) -> Option<Vec<String>>,
    folder: &Folder,
) -> Result<Invocation, Failed> {
    let (name, command) = match job.code() {
        ActivityCode::Command { code, texts } => {
            // Most commands are as they are written.
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
            command.push(text(&folder.script()));
            (format!("the {language} code"), command)
        }
        ActivityCode::Lua { .. } => (String::new(), Vec::new()),
    };
    if command.is_empty() || command[0].is_empty() {
        return Err(failure(v1::FailureKind::Parameter, "the command has no program"));
    }
    for (number, argument) in command.iter().enumerate() {
        if argument.contains('\0') {
            let message = format!("argument {number} has a NUL character in it, which no program can be given");
            return Err(failure(v1::FailureKind::Parameter, message));
        }
        if argument.len() >= LONGEST_ARGUMENT {
            let message = format!(
                "argument {number} has {} bytes, less than {LONGEST_ARGUMENT} can be given to a program: it finds its \
                 parameters in the file that XAVANTES_PARAMETERS names",
                argument.len()
            );
            return Err(failure(v1::FailureKind::Parameter, message));
        }
    }
    let environment = environment(job, parameters, folder)?;
    Ok(Invocation { name, command, environment })
}

fn environment(job: &Job, parameters: &[Value], folder: &Folder) -> Result<BTreeMap<String, String>, Failed> {
    let activity = &job.program.activities[job.activity];
    let mut variables = BTreeMap::new();
    let mut room = MOST_VARIABLES;
    for (parameter, value) in activity.parameters.iter().zip(parameters).filter(|(_, value)| !value.is_null()) {
        let text = value.to_string();
        let fits = text.len() <= LONGEST_VARIABLE.min(room) && !text.contains('\0');
        if fits && !parameter.name.starts_with("XAVANTES_") && !RESERVED.contains(&&*parameter.name) {
            room -= text.len();
            variables.insert(parameter.name.to_string(), text);
        }
    }
    let declared = &activity.launch.environment;
    if let Some(code) = &declared.code {
        for (name, value) in declared.names.iter().zip(evaluate(job, parameters, code)?) {
            if value.contains('\0') || value.len() >= LONGEST_ARGUMENT {
                let message = format!("the environment variable {name} has a NUL character in it, or is too long");
                return Err(failure(v1::FailureKind::Parameter, message));
            }
            variables.insert(name.to_string(), value);
        }
    }
    let requires = &activity.requires;
    let attempt = job.key.attempt.to_string();
    let own = [
        (MARKER, text(folder.path())),
        ("XAVANTES_RESULTS", text(&folder.results())),
        ("XAVANTES_PATH", job.path.to_string()),
        ("XAVANTES_ATTEMPT", attempt),
        ("XAVANTES_CPUS", requires.cpus.to_string()),
    ];
    variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
    if !job.parameters.is_empty() {
        variables.insert("XAVANTES_PARAMETERS".to_owned(), text(&folder.parameters()));
    }
    if requires.memory > 0 {
        variables.insert("XAVANTES_MEMORY".to_owned(), requires.memory.to_string());
    }
    Ok(variables)
}

/// The directories of attempts have names in UTF-8.
fn text(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

/// All parameters, as an object.
pub(crate) fn parameters_json(job: &Job, parameters: &[Value]) -> String {
    let names = job.program.activities[job.activity].parameters.iter();
    let members = names.zip(parameters).map(|(variable, value)| (variable.name.to_string(), value.to_json()));
    serde_json::Value::Object(members.collect()).to_string()
}

/// Expressions of the definition over the parameters, as text.
pub(crate) fn evaluate(job: &Job, parameters: &[Value], code: &Code) -> Result<Vec<String>, Failed> {
    let mut parameters = parameters.to_vec();
    parameters.resize(job.program.activities[job.activity].parameters.len(), Value::Null);
    parameters.push(Value::Int(job.key.attempt.into()));
    let outcome = SANDBOX.with_borrow_mut(|slot| {
        let mut sandbox = match slot.take() {
            Some(sandbox) => sandbox,
            None => Sandbox::new(ScriptLimits::CONTROL, false)?,
        };
        let outcome = sandbox.run(code, parameters.iter().map(Argument::Value), &mut Objects::default());
        *slot = Some(sandbox);
        outcome
    });
    match outcome {
        Ok((values, _)) => Ok(values.iter().map(Value::to_string).collect()),
        Err(error) => {
            let mut failed = failure(v1::FailureKind::Code, error.message);
            failed.line = Some(error.line);
            Err(failed)
        }
    }
}
