//! What becomes of a program's end: results, or a failure that a person understands.

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

use super::limits::size;
use super::output::{MOST_CAPTURED, Written};
use super::{Failed, failure};
use crate::desk::Job;

/// A file of results is at most so large.
const MOST_RESULTS: u64 = 16 << 20;

/// How a program ended, and what it wrote.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub stdout: Written,
    pub stderr: Written,
}

/// Whether a program succeeded; `name` is what it is called.
pub(crate) fn judge(launch: &Launch, name: &str, ended: &Ended) -> Result<(), Failed> {
    let (message, permanent) = match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) if launch.success.contains(code) => return Ok(()),
        (Some(code), _) => {
            let permanent = launch.retry.as_ref().is_some_and(|retry| !retry.contains(code));
            (format!("{name} failed"), permanent)
        }
        // That was not its own decision: another time it may be better.
        (None, Some(number)) => (format!("{name} was ended by {}", signal(number)), false),
        (None, None) => (format!("{name} ended in an unknown way"), false),
    };
    let mut failed = failure(v1::FailureKind::Exit, message);
    failed.exit_status = ended.status.code();
    failed.permanent = permanent;
    failed.stderr = ended.last_lines();
    Err(failed)
}

impl Ended {
    /// The last lines of the error output; of the output, if there is no other.
    pub fn last_lines(&self) -> Option<String> {
        self.stderr.last_lines().or_else(|| self.stdout.last_lines())
    }
}

fn signal(number: i32) -> String {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL: it did something that the processor does not know"),
        (Signal::ABORT, "SIGABRT: it gave up"),
        (Signal::BUS, "SIGBUS: it used memory or a file that is not there"),
        (Signal::FPE, "SIGFPE: it divided by zero"),
        (Signal::KILL, "SIGKILL: somebody killed it; perhaps the system, because there was no memory left"),
        (Signal::SEGV, "SIGSEGV: it used memory that is not its own"),
        (Signal::PIPE, "SIGPIPE: nobody read what it wrote"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ: it wrote too large a file"),
    ];
    let known = names.iter().find(|(known, _)| known.as_raw() == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| format!("signal {number} ({name})"))
}

/// The results of a program that succeeded, in the order of its `OUT` and `INOUT` parameters; and the names of what it gave
/// besides.
pub(crate) fn collect(job: &Job, file: &Path, ended: &Ended) -> Result<(Vec<v1::Value>, Vec<String>), Failed> {
    let activity = job.activity();
    let mut given = read(file)?;
    let nothing = Value::Null;
    let mut results = Vec::new();
    for (at, (variable, capture)) in activity.parameters.iter().zip(&activity.launch.captures).enumerate() {
        if !variable.direction.is_out() {
            continue;
        }
        let result = match (given.remove(&*variable.name), capture) {
            (_, Some(capture)) => captured(variable, *capture, ended)?,
            (Some(json), None) => Value::try_from(json).map_err(|problem| bad(&variable.name, &problem))?,
            // As printed, but for the line break at its end.
            (None, None) if &*variable.name == "stdout" => Value::from(text(ended)?.trim_end_matches('\n')),
            // What came in and was not changed goes out.
            (None, None) => job.parameters.get(at).unwrap_or(&nothing).clone(),
        };
        results.push(value(&result));
    }
    Ok((results, given.into_iter().map(|(name, _)| name).collect()))
}

/// Whether a program gave everything that it must; `besides` are names of what else it gave.
pub(crate) fn check_complete(activity: &ActivityType, results: &[v1::Value], besides: &[String]) -> Result<(), Failed> {
    let outs = activity.parameters.iter().filter(|variable| variable.direction.is_out());
    let needed = |variable: &&Variable| !variable.optional && variable.default.is_none();
    let nothing = value(&Value::Null);
    let missing = outs.zip(results).find(|(variable, result)| needed(variable) && **result == nothing);
    let Some((variable, _)) = missing else { return Ok(()) };
    let name = &variable.name;
    let hint = match besides {
        [] => {
            "it is read from the JSON file that XAVANTES_RESULTS names, or from standard output if it has FROM=\"stdout\""
        }
        _ => "",
    };
    let names: Vec<String> = besides.iter().take(5).map(|name| format!("{name:?}")).collect();
    let others = if names.is_empty() { String::new() } else { format!("the results file has {}", names.join(", ")) };
    Err(bad(name, &format!("the program did not give it: {others}{hint}")))
}

fn bad(name: &str, problem: &str) -> Failed {
    failure(v1::FailureKind::Parameter, format!("result {name:?}: {problem}"))
}

fn captured(variable: &Variable, capture: Capture, ended: &Ended) -> Result<Value, Failed> {
    let bad = |problem: String| bad(&variable.name, &problem);
    match capture {
        Capture::ExitStatus => Ok(ended.status.code().map_or(Value::Null, |code| Value::Int(code.into()))),
        Capture::Stdout if variable.ty == Some(Type::Bytes) => {
            text(ended)?;
            Ok(Value::Bytes(ended.stdout.captured[..].into()))
        }
        Capture::Stdout => Ok(Value::from(&*text(ended)?)),
        Capture::Trimmed => {
            let text = text(ended)?;
            let text = text.trim();
            variable.ty.map_or_else(|| Ok(Value::from(text)), |ty| ty.parse(text)).map_err(bad)
        }
        Capture::Json => {
            let text = text(ended)?;
            let json: serde_json::Value = serde_json::from_str(&text)
                .map_err(|error| bad(format!("what the program printed is not JSON: {error}")))?;
            Value::try_from(json).map_err(bad)
        }
    }
}

/// What the program printed. Bytes that are no text are shown as such.
fn text(ended: &Ended) -> Result<std::borrow::Cow<'_, str>, Failed> {
    if ended.stdout.total > MOST_CAPTURED as u64 {
        let message = format!(
            "it printed {}, as a result at most {} are taken: write it to a file",
            size(ended.stdout.total),
            size(MOST_CAPTURED as u64)
        );
        return Err(failure(v1::FailureKind::Limit, message));
    }
    Ok(String::from_utf8_lossy(&ended.stdout.captured))
}

/// The members of the file of results. It comes from a stranger: it may be anything but a file.
fn read(file: &Path) -> Result<serde_json::Map<String, serde_json::Value>, Failed> {
    let bad = |message: String| failure(v1::FailureKind::Parameter, message);
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(serde_json::Map::new()),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(bad("the results file is a symbolic link: write a file".into()));
        }
        Err(error) => return Err(bad(format!("the results file cannot be read: {error}"))),
    };
    let about = opened.metadata().map_err(|error| bad(format!("the results file cannot be read: {error}")))?;
    if !about.is_file() {
        return Err(bad("the results file is not a file".into()));
    }
    let too_large = |bytes: u64| {
        let message = format!("the results file has {}, at most {} are read", size(bytes), size(MOST_RESULTS));
        failure(v1::FailureKind::Limit, message)
    };
    if about.len() > MOST_RESULTS {
        return Err(too_large(about.len()));
    }
    let mut bytes = Vec::new();
    let mut limited = opened.take(MOST_RESULTS + 1);
    limited.read_to_end(&mut bytes).map_err(|error| bad(format!("the results file cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST_RESULTS {
        return Err(too_large(bytes.len() as u64));
    }
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

#[cfg(test)]
mod tests {
    use xavantes_model::definition::ExitStatuses;

    use super::*;

    fn ended(status: i32) -> Ended {
        Ended { status: ExitStatus::from_raw(status), ..Ended::default() }
    }

    #[test]
    fn exit_statuses_mean_what_the_type_says() {
        let launch = Launch {
            success: ExitStatuses(vec![0..=0, 3..=3]),
            retry: Some(ExitStatuses(vec![75..=75])),
            ..Launch::default()
        };
        assert!(judge(&launch, "it", &ended(0)).is_ok() && judge(&launch, "it", &ended(3 << 8)).is_ok());
        let failed = |launch: &Launch, status| judge(launch, "it", &ended(status)).expect_err("it failed");
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
