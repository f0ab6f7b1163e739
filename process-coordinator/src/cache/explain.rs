//! Decisions of the result cache as typed reasons for the wire.

use xavantes_model::digest::Digest;
use xavantes_proto::v1;
use xavantes_proto::v1::reuse_reason::Kind;

use crate::cache::cache_entry::{EarlierActivity, MissReason, ReuseDecision};

/// Whether an activity reused results, and why not.
pub(crate) fn explanation(at_ms: u64, decision: ReuseDecision) -> v1::ExplainResponse {
    let code = decision.code;
    let reason = match decision.outcome {
        Ok(earlier) => reused(earlier),
        Err(reason) => not_reused(reason, &code),
    };
    v1::ExplainResponse {
        path: decision.path,
        r#type: decision.type_name.to_string(),
        decided_ms: at_ms,
        reason: Some(reason.into()),
    }
}

/// An activity reused the results of this one.
pub(crate) fn reused(earlier: EarlierActivity) -> Kind {
    Kind::Reused(activity(earlier))
}

/// Why an activity with this code reused no results.
pub(crate) fn not_reused(reason: MissReason, code: &Digest) -> Kind {
    match reason {
        MissReason::Disabled => Kind::Disabled(v1::Nothing {}),
        MissReason::First => Kind::First(v1::Nothing {}),
        MissReason::Changed { earlier, code: before, parameters } => {
            let parameters = parameters.into_iter().map(|change| v1::ParameterChange {
                name: change.name.to_string(),
                before: change.before,
                after: change.after,
            });
            Kind::Changed(v1::ReuseChange {
                nearest: Some(activity(earlier)),
                code: before.map(|_| code.short()).unwrap_or_default(),
                code_before: before.map(|before| before.short()).unwrap_or_default(),
                parameters: parameters.collect(),
            })
        }
        MissReason::Failed(earlier) => Kind::Failed(activity(earlier)),
        MissReason::TooLarge(earlier, size_bytes) => {
            Kind::TooLarge(v1::ReuseTooLarge { earlier: Some(activity(earlier)), size_bytes })
        }
        MissReason::Evicted(earlier) => Kind::Evicted(activity(earlier)),
        MissReason::FileGone(earlier, file) => {
            Kind::FileGone(v1::ReuseFileGone { earlier: Some(activity(earlier)), file })
        }
        MissReason::UnknownContent(parameter, uri) => {
            Kind::UnknownContent(v1::ReuseUnknownContent { parameter: parameter.to_string(), uri })
        }
        MissReason::SharedObject(parameter) => Kind::SharedObject(parameter.to_string()),
        MissReason::Unavailable(problem) => Kind::Unavailable(problem),
        MissReason::NotCompleted { process, left_out } => {
            Kind::NotCompleted(v1::ReuseNotCompleted { process, left_out })
        }
        MissReason::WritesOutside(parameter) => Kind::WritesOutside(parameter.to_string()),
        MissReason::TakenOver(earlier) => Kind::TakenOver(activity(earlier)),
    }
}

fn activity(EarlierActivity { path, at_ms }: EarlierActivity) -> v1::EarlierActivity {
    v1::EarlierActivity { path, ended_ms: at_ms }
}
