//! Status and results of a process that has ended. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_engine::Outcome;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

use crate::engine_messages::failure;

/// The last status of a process: `status` with its outcome, its counts and the time of its end.
pub fn final_status(
    status: v1::ProcessStatus,
    outcome: &Outcome,
    counts: v1::Counts,
    ended_ms: u64,
) -> v1::ProcessStatus {
    let state = match outcome {
        Outcome::Completed => v1::State::Completed,
        Outcome::Cancelled => v1::State::Cancelled,
        Outcome::Failed(_) | Outcome::Restart => v1::State::Failed,
    };
    let failure = match outcome {
        Outcome::Failed(why) => Some(failure(why)),
        _ => status.failure,
    };
    let (state, counts) = (state.into(), Some(counts));
    v1::ProcessStatus { state, counts, failure, paused: false, stalled: None, wait_reason: None, ended_ms, ..status }
}

/// The results of a process; only a completed process has some.
pub fn final_results(outcome: &Outcome, results: &BTreeMap<Arc<str>, Value>) -> Vec<v1::Parameter> {
    if !matches!(outcome, Outcome::Completed) {
        return Vec::new();
    }
    let parameter =
        |(name, result): (&Arc<str>, &Value)| v1::Parameter { name: name.to_string(), value: Some(value(result)) };
    results.iter().map(parameter).collect()
}
