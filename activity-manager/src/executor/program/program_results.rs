//! The end of a program: its results, or a failure with a message for people.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use rustix::fs::OFlags;
use rustix::process::Signal;
use xavantes_model::definition::{ActivityType, Capture, Launch, Variable};
use xavantes_model::value::{Type, Value};
use xavantes_proto::{v1, value};

use super::assigned_outs::Assigned;
use super::attempt_directories::WorkDir;
use super::captured_output::{CapturedOutput, MAX_CAPTURED_BYTES};
use super::code_prelude::read_assigned;
use super::program_values::ProgramObjects;
use super::resource_limits::format_bytes;
use crate::attempt_failure::{AttemptFailure, failure};
use crate::attempts::job::Job;

/// Upper bound on the results file.
const MAX_RESULTS_BYTES: u64 = 16 << 20;

/// The exit status and the output of a program.
#[derive(Debug, Default)]
pub(crate) struct ProgramExit {
    pub status: ExitStatus,
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
}

/// Fails if the exit status says so. `name` names the program in messages.
pub(crate) fn check_exit(launch: &Launch, name: &str, exit: &ProgramExit) -> Result<(), AttemptFailure> {
    let (message, permanent) = match (exit.status.code(), exit.status.signal()) {
        (Some(code), _) if launch.success.contains(code) => return Ok(()),
        (Some(code), _) => {
            let permanent = launch.retry.as_ref().is_some_and(|retry| !retry.contains(code));
            (format!("{name} failed"), permanent)
        }
        // A signal came from outside, so another try may succeed.
        (None, Some(number)) => (format!("{name} was ended by {}", describe_signal(number)), false),
        (None, None) => (format!("{name} ended in an unknown way"), false),
    };
    let mut failed = failure(v1::FailureKind::Exit, message);
    failed.exit_status = exit.status.code();
    failed.permanent = permanent;
    failed.stderr = exit.last_lines();
    Err(failed)
}

impl ProgramExit {
    /// The last lines of standard error, or of standard output if there are none.
    pub fn last_lines(&self) -> Option<String> {
        self.stderr.last_lines().or_else(|| self.stdout.last_lines())
    }
}

fn describe_signal(number: i32) -> String {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL: illegal instruction"),
        (Signal::ABORT, "SIGABRT: the program aborted"),
        (Signal::BUS, "SIGBUS: access to memory or a file that does not exist"),
        (Signal::FPE, "SIGFPE: arithmetic error, such as a division by zero"),
        (Signal::KILL, "SIGKILL: killed, perhaps by the system because memory ran out"),
        (Signal::SEGV, "SIGSEGV: invalid memory access"),
        (Signal::PIPE, "SIGPIPE: the reader of its output ended"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ: file size limit exceeded"),
    ];
    let known = names.iter().find(|(known, _)| known.as_raw() == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| format!("signal {number} ({name})"))
}

/// The results of a program, in the order of its `OUT` and `INOUT` parameters, and the names in the results file that no
/// parameter has. `staged` are the parameters as the program saw them.
pub(crate) fn collect(
    job: &Job,
    staged: &[Value],
    objects: &ProgramObjects,
    workdir: &WorkDir,
    exit: &ProgramExit,
) -> Result<(Vec<v1::Value>, Vec<String>), AttemptFailure> {
    let activity = job.activity();
    let mut given = read_results(&workdir.results())?;
    let mut assigned = read_variables(activity, staged, objects, &workdir.assigned())?;
    let nothing = Value::Null;
    let mut results = Vec::new();
    for (at, (variable, capture)) in activity.parameters.iter().zip(&activity.launch.captures).enumerate() {
        if !variable.direction.is_out() {
            continue;
        }
        let result = match (given.remove(&*variable.name), capture) {
            (_, Some(capture)) => captured(variable, *capture, exit)?,
            (Some(json), None) => Value::try_from(json).map_err(|problem| bad_result(&variable.name, &problem))?,
            (None, None) if assigned.contains_key(&*variable.name) => {
                let result = assigned.remove(&*variable.name).unwrap_or(Ok(Value::Null));
                let result = result.map_err(|problem| bad_result(&variable.name, &problem))?;
                // A path of an unchanged file is not the file.
                let unchanged = variable.direction.is_in() && staged.get(at) == Some(&result);
                if unchanged { job.parameters[at].clone() } else { result }
            }
            // Without the line break at the end.
            (None, None) if &*variable.name == "stdout" => Value::from(printed_text(exit)?.trim_end_matches('\n')),
            // An `INOUT` parameter that the program did not change keeps its value.
            (None, None) => job.parameters.get(at).unwrap_or(&nothing).clone(),
        };
        results.push(value(&result));
    }
    Ok((results, given.into_iter().map(|(name, _)| name).collect()))
}

/// Fails if a program did not give a required result. `unused` are names in the results file that no parameter has.
pub(crate) fn check_complete(
    activity: &ActivityType,
    results: &[v1::Value],
    unused: &[String],
) -> Result<(), AttemptFailure> {
    let outs = activity.parameters.iter().filter(|variable| variable.direction.is_out());
    let needed = |variable: &&Variable| !variable.optional && variable.default.is_none();
    let nothing = value(&Value::Null);
    let missing = outs.zip(results).find(|(variable, result)| needed(variable) && **result == nothing);
    let Some((variable, _)) = missing else { return Ok(()) };
    let name = &variable.name;
    let hint = match unused {
        [] => {
            "it is read from the JSON file that XAVANTES_RESULTS names, or from standard output if it has FROM=\"stdout\""
        }
        _ => "",
    };
    if let (Some(language), []) = (activity.language(), unused) {
        return Err(bad_result(name, &format!("the {} code never assigned the variable {name}", language.name())));
    }
    let names: Vec<String> = unused.iter().take(5).map(|name| format!("{name:?}")).collect();
    let others = if names.is_empty() { String::new() } else { format!("the results file has {}", names.join(", ")) };
    Err(bad_result(name, &format!("the program did not give it: {others}{hint}")))
}

fn bad_result(name: &str, problem: &str) -> AttemptFailure {
    failure(v1::FailureKind::Parameter, format!("result {name:?}: {problem}"))
}

fn captured(variable: &Variable, capture: Capture, exit: &ProgramExit) -> Result<Value, AttemptFailure> {
    let bad = |problem: String| bad_result(&variable.name, &problem);
    match capture {
        Capture::ExitStatus => Ok(exit.status.code().map_or(Value::Null, |code| Value::Int(code.into()))),
        Capture::Stdout if variable.ty == Some(Type::Bytes) => {
            printed_text(exit)?;
            Ok(Value::Bytes(exit.stdout.bytes[..].into()))
        }
        Capture::Stdout => Ok(Value::from(&*printed_text(exit)?)),
        Capture::Trimmed => {
            let text = printed_text(exit)?;
            let text = text.trim();
            variable.ty.map_or_else(|| Ok(Value::from(text)), |ty| ty.parse(text)).map_err(bad)
        }
        Capture::Json => {
            let text = printed_text(exit)?;
            let json: serde_json::Value = serde_json::from_str(&text)
                .map_err(|error| bad(format!("what the program printed is not JSON: {error}")))?;
            Value::try_from(json).map_err(bad)
        }
    }
}

/// The standard output as text; invalid UTF-8 becomes replacement characters.
fn printed_text(exit: &ProgramExit) -> Result<std::borrow::Cow<'_, str>, AttemptFailure> {
    if exit.stdout.total > MAX_CAPTURED_BYTES as u64 {
        let message = format!(
            "it printed {}, as a result at most {} are taken: write it to a file",
            format_bytes(exit.stdout.total),
            format_bytes(MAX_CAPTURED_BYTES as u64)
        );
        return Err(failure(v1::FailureKind::Limit, message));
    }
    Ok(String::from_utf8_lossy(&exit.stdout.bytes))
}

/// What the code assigned to its results, if parameters are variables in its language.
fn read_variables(
    activity: &ActivityType,
    staged: &[Value],
    objects: &ProgramObjects,
    file: &Path,
) -> Result<Assigned, AttemptFailure> {
    let Some(language) = activity.language() else { return Ok(Assigned::new()) };
    let Some(bytes) = read_bounded(file, "the file of variables")? else { return Ok(Assigned::new()) };
    // The directory can serve other attempts if nothing is left in it.
    let _ = std::fs::remove_file(file);
    read_assigned(language, activity, staged, objects, &bytes).map_err(|problem| {
        failure(v1::FailureKind::Parameter, format!("the variables of the results cannot be read: {problem}"))
    })
}

/// The members of the results file.
fn read_results(file: &Path) -> Result<serde_json::Map<String, serde_json::Value>, AttemptFailure> {
    let bad = |message: String| failure(v1::FailureKind::Parameter, message);
    let Some(bytes) = read_bounded(file, "the results file")? else { return Ok(serde_json::Map::new()) };
    match serde_json::from_slice(&bytes) {
        Ok(serde_json::Value::Object(members)) => Ok(members),
        Ok(_) => Err(bad("the results file is not a JSON object".into())),
        Err(error) => {
            let numbers = [&b"NaN"[..], b"Infinity"].iter().any(|word| memchr::memmem::find(&bytes, word).is_some());
            let hint = if numbers { "; NaN and Infinity are not JSON" } else { "" };
            Err(bad(format!("the results file is not JSON: {error}{hint}")))
        }
    }
}

/// Reads a file that a program wrote, if there is one. The program may have put anything there, so this follows no links and
/// never blocks.
fn read_bounded(file: &Path, what: &str) -> Result<Option<Vec<u8>>, AttemptFailure> {
    let bad = |message: String| failure(v1::FailureKind::Parameter, message);
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(bad(format!("{what} is a symbolic link: write a file")));
        }
        Err(error) => return Err(bad(format!("{what} cannot be read: {error}"))),
    };
    let metadata = opened.metadata().map_err(|error| bad(format!("{what} cannot be read: {error}")))?;
    if !metadata.is_file() {
        return Err(bad(format!("{what} is not a file")));
    }
    let too_large = |bytes: u64| {
        let message =
            format!("{what} has {}, at most {} are read", format_bytes(bytes), format_bytes(MAX_RESULTS_BYTES));
        failure(v1::FailureKind::Limit, message)
    };
    if metadata.len() > MAX_RESULTS_BYTES {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    let mut limited = opened.take(MAX_RESULTS_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(|error| bad(format!("{what} cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_RESULTS_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use xavantes_model::definition::ExitStatuses;

    use super::*;

    fn exit(status: i32) -> ProgramExit {
        ProgramExit { status: ExitStatus::from_raw(status), ..ProgramExit::default() }
    }

    #[test]
    fn the_activity_type_decides_what_exit_statuses_mean() {
        let launch = Launch {
            success: ExitStatuses(vec![0..=0, 3..=3]),
            retry: Some(ExitStatuses(vec![75..=75])),
            ..Launch::default()
        };
        assert!(check_exit(&launch, "it", &exit(0)).is_ok() && check_exit(&launch, "it", &exit(3 << 8)).is_ok());
        let failed = |launch: &Launch, status| check_exit(launch, "it", &exit(status)).expect_err("it failed");
        let again = failed(&launch, 75 << 8);
        assert_eq!((again.exit_status, again.permanent), (Some(75), false));
        let final_one = failed(&launch, 1 << 8);
        assert_eq!((final_one.exit_status, final_one.permanent), (Some(1), true));
        assert!(!failed(&Launch::default(), 1 << 8).permanent);
        let killed = failed(&launch, 11);
        assert_eq!((killed.exit_status, killed.permanent), (None, false));
        assert!(killed.message.starts_with("it was ended by signal 11 (SIGSEGV"), "{}", killed.message);
        assert!(failed(&launch, 50).message.ends_with("signal 50"));
    }
}
