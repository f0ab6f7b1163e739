//! Commands: a program with its arguments, no shell, in a directory of its own.
//!
//! All parameters are in the JSON file that `XAVANTES_PARAMETERS` names. Results go as a JSON object into the file that
//! `XAVANTES_RESULTS` names; an `OUT` parameter called `stdout` takes what the program printed.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use xavantes_model::definition::ActivityCode;
use xavantes_model::script::{Argument, Limits, Sandbox};
use xavantes_model::shared::Objects;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

use crate::desk::{Desk, Job};

/// How long a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// Of standard output so much is kept, and the last so much of standard error.
const MOST_STDOUT: usize = 4 << 20;
const MOST_STDERR: usize = 4 << 10;

thread_local! {
    /// Evaluates arguments; they are expressions of the definition, under the limits of control code.
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

pub(crate) async fn run(desk: Arc<Desk>, job: Arc<Job>) {
    let outcome = match attempt(&job).await {
        Ok(results) => v1::answer::Outcome::Completed(v1::Completed { results }),
        Err(_) if job.stop.is_asked() => v1::answer::Outcome::Cancelled(v1::Nothing {}),
        Err(mut failure) => {
            failure.worker = Some(desk.node.clone());
            failure.line.get_or_insert(job.program.activities[job.activity].line);
            v1::answer::Outcome::Failed(*failure)
        }
    };
    desk.finish(&job, outcome);
}

fn failure(kind: v1::FailureKind, message: impl Into<String>) -> Box<v1::Failure> {
    Box::new(v1::Failure { kind: kind.into(), message: message.into(), ..v1::Failure::default() })
}

fn worker_failure(what: &str, error: &std::io::Error) -> Box<v1::Failure> {
    failure(v1::FailureKind::Worker, format!("{what}: {error}"))
}

/// A directory that is removed with everything in it.
struct WorkDir(PathBuf);

impl WorkDir {
    fn new(job: &Job) -> std::io::Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xavantes-{}-{number}-{}", std::process::id(), job.key.element);
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn attempt(job: &Job) -> Result<Vec<v1::Value>, Box<v1::Failure>> {
    let arguments = arguments(job)?;
    let Some((program, rest)) = arguments.split_first() else {
        return Err(failure(v1::FailureKind::Parameter, "the command has no program"));
    };
    let directory = WorkDir::new(job).map_err(|error| worker_failure("cannot make a working directory", &error))?;
    let (given, results) = (directory.0.join("parameters.json"), directory.0.join("results.json"));
    std::fs::write(&given, parameters_json(job))
        .map_err(|error| worker_failure("cannot write the parameters", &error))?;
    let mut child = Command::new(program)
        .args(rest)
        .current_dir(&directory.0)
        .env("XAVANTES_PARAMETERS", &given)
        .env("XAVANTES_RESULTS", &results)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| worker_failure(&format!("cannot start {program:?}"), &error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let output = async { tokio::join!(read_head(stdout, MOST_STDOUT), read_tail(stderr, MOST_STDERR)) };
    let group = child.id();
    let ((stdout, stderr), status) = tokio::select! {
        both = async { tokio::join!(output, child.wait()) } => both,
        () = job.stop.asked() => {
            end(group, &mut child).await;
            return Err(failure(v1::FailureKind::Cancelled, "stopped"));
        }
    };
    let status = status.map_err(|error| worker_failure("cannot wait for the program", &error))?;
    if !status.success() {
        let mut failed = failure(v1::FailureKind::Exit, format!("{program:?} ended with {status}"));
        failed.exit_status = status.code();
        failed.stderr = Some(stderr).filter(|text| !text.is_empty());
        return Err(failed);
    }
    collect(job, &results, &stdout)
}

/// Asks the whole process group to end, then makes it.
async fn end(group: Option<u32>, child: &mut Child) {
    let Some(group) = group else { return };
    signal("-TERM", group).await;
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        signal("-KILL", group).await;
        let _ = child.wait().await;
    }
}

/// Through the kill program: this crate has no unsafe code.
async fn signal(signal: &str, group: u32) {
    let _ = Command::new("kill").args([signal, "--", &format!("-{group}")]).stderr(Stdio::null()).status().await;
}

async fn read_head(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let Some(mut stream) = stream else { return kept };
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let room = most.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
    kept
}

async fn read_tail(stream: Option<impl AsyncRead + Unpin>, most: usize) -> String {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let Some(mut stream) = stream else { return String::new() };
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..count]);
        let extra = kept.len().saturating_sub(most);
        kept.drain(..extra);
    }
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}

fn arguments(job: &Job) -> Result<Vec<String>, Box<v1::Failure>> {
    let ActivityCode::Command { code, .. } = job.code() else { return Ok(Vec::new()) };
    let mut parameters = job.parameters.clone();
    parameters.resize(job.program.activities[job.activity].parameters.len(), Value::Null);
    parameters.push(Value::Int(job.key.attempt.into()));
    let outcome = SANDBOX.with_borrow_mut(|slot| {
        let mut sandbox = match slot.take() {
            Some(sandbox) => sandbox,
            None => Sandbox::new(Limits::CONTROL, false)?,
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

fn parameters_json(job: &Job) -> String {
    let names = job.program.activities[job.activity].parameters.iter();
    let members = names.zip(&job.parameters).map(|(variable, value)| (variable.name.to_string(), value.to_json()));
    serde_json::Value::Object(members.collect()).to_string()
}

fn collect(job: &Job, file: &Path, stdout: &[u8]) -> Result<Vec<v1::Value>, Box<v1::Failure>> {
    let bad = |message: String| failure(v1::FailureKind::Parameter, message);
    let mut given = match std::fs::read(file) {
        Err(_) => serde_json::Map::new(),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(serde_json::Value::Object(members)) => members,
            Ok(_) => return Err(bad("the results file is not a JSON object".into())),
            Err(error) => return Err(bad(format!("the results file is not JSON: {error}"))),
        },
    };
    let outs = job.program.activities[job.activity].parameters.iter().filter(|variable| variable.direction.is_out());
    outs.map(|variable| match given.remove(&*variable.name) {
        Some(json) => Value::try_from(json)
            .map(|result| value(&result))
            .map_err(|problem| bad(format!("result {:?}: {problem}", variable.name))),
        None if &*variable.name == "stdout" => {
            let text = String::from_utf8_lossy(stdout);
            Ok(value(&Value::from(text.trim_end_matches('\n'))))
        }
        None => Ok(value(&Value::Null)),
    })
    .collect()
}
