//! Failures: why an element failed, in the form that users and `CATCH` see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::shortened_text::{MAX_FAILURE_BYTES, shorten};
use xavantes_model::value::Value;

/// Upper bound on a failure and the failures behind it.
const MAX_CAUSES: usize = 16;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// Code has an error or raised one.
    Code,
    /// An external program ended with a status that means failure.
    Exit,
    /// A try took longer than `TIMEOUT`.
    Timeout,
    /// A user cancelled an element that a sequence needs.
    Cancelled,
    /// A parameter is missing or of the wrong type.
    Parameter,
    /// Code reached a limit on steps or memory, or calls of process types on their depth.
    Limit,
    /// The worker could not run the activity.
    Worker,
}

impl FailureKind {
    /// The name of the kind in code (`error.kind`) and output.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Code => "code",
            FailureKind::Exit => "exit",
            FailureKind::Timeout => "timeout",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Parameter => "parameter",
            FailureKind::Limit => "limit",
            FailureKind::Worker => "worker",
        }
    }
}

/// Why an element failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// What happened, in one sentence.
    pub message: String,
    /// The path of the element in which it happened.
    pub path: String,
    /// The line in the definition.
    pub line: Option<u32>,
    /// The activity manager that ran the activity.
    pub worker: Option<String>,
    /// The exit status of the external program.
    pub exit_status: Option<i32>,
    /// The last lines of the program's error output.
    pub stderr: Option<String>,
    /// The failure that `CATCH` or `FINALLY` handled when this one happened.
    pub cause: Option<Box<Failure>>,
    /// A retry would fail in the same way.
    pub permanent: bool,
}

impl Failure {
    /// A failure of that kind. A long message is shortened. The engine adds the path.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: shorten(message.into(), MAX_FAILURE_BYTES),
            path: String::new(),
            line: None,
            worker: None,
            exit_status: None,
            stderr: None,
            cause: None,
            permanent: kind == FailureKind::Parameter,
        }
    }

    /// Sets the line in the definition.
    #[must_use]
    pub fn at_line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }

    /// Adds `before` as the first cause: this failure happened while `CATCH` or `FINALLY` handled it. The causes behind
    /// [`MAX_CAUSES`] are left out.
    #[must_use]
    pub(crate) fn while_handling(mut self: Box<Self>, before: Box<Failure>) -> Box<Self> {
        let (mut before, mut failure) = (Some(before), &mut *self);
        for _ in 1..MAX_CAUSES {
            if failure.cause.is_none() {
                failure.cause = before.take();
            }
            match &mut failure.cause {
                Some(cause) => failure = cause,
                None => return self,
            }
        }
        failure.cause = None;
        self
    }

    /// The value of `error` in `CATCH`.
    pub fn to_value(&self) -> Value {
        let text = |text: &str| Value::from(text);
        let mut map = BTreeMap::<Arc<str>, Value>::new();
        map.insert("kind".into(), text(self.kind.name()));
        map.insert("message".into(), text(&self.message));
        map.insert("path".into(), text(&self.path));
        if let Some(line) = self.line {
            map.insert("line".into(), Value::Int(line.into()));
        }
        if let Some(worker) = &self.worker {
            map.insert("worker".into(), text(worker));
        }
        if let Some(status) = self.exit_status {
            map.insert("exit_status".into(), Value::Int(status.into()));
        }
        if let Some(stderr) = &self.stderr {
            map.insert("stderr".into(), text(stderr));
        }
        Value::Map(Arc::new(map))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(worker) = &self.worker {
            write!(f, ", on {worker}")?;
        }
        if let Some(status) = self.exit_status {
            write!(f, ", exit status {status}")?;
        }
        if let Some(stderr) = &self.stderr {
            write!(f, "\n{stderr}")?;
        }
        if let Some(cause) = &self.cause {
            write!(f, "\nwhile handling {cause}")?;
        }
        Ok(())
    }
}
