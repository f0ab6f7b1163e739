//! Expressions that a definition has in commands, environment variables and file names, evaluated over the parameters.

use std::cell::RefCell;

use xavantes_model::script::{Argument, Code, Sandbox, ScriptLimits};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;
use xavantes_proto::v1;

use crate::attempt_failure::{AttemptFailure, failure};
use crate::attempts::job::Job;

thread_local! {
    /// A sandbox per thread, because a new one costs more than most expressions. It has the limits of control code.
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

/// The values of the expressions, as text.
pub(crate) fn evaluate(job: &Job, parameters: &[Value], code: &Code) -> Result<Vec<String>, AttemptFailure> {
    let mut parameters = parameters.to_vec();
    parameters.resize(job.activity().parameters.len(), Value::Null);
    parameters.push(Value::Int(job.attempt.key.attempt.into()));
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
