//! What `explain` tells of the reuse of a result. Pure: time is passed in.

use std::time::Duration;

use serde_json::{Value as Json, json};
use xavantes_proto::v1;
use xavantes_proto::v1::reuse_reason::Kind;

use crate::progress::time;

/// For people. `now` is the time since 1970.
pub(crate) fn text(answer: &v1::ExplainResponse, now: Duration) -> String {
    let earlier = |activity: &Option<v1::EarlierActivity>| {
        let activity = activity.clone().unwrap_or_default();
        let ago = now.saturating_sub(Duration::from_millis(activity.ended_ms));
        format!("{}, {} ago", activity.path, time(ago))
    };
    let some = |activity: &v1::EarlierActivity| earlier(&Some(activity.clone()));
    let (reused, why) = match kind(answer) {
        Kind::Reused(activity) => (true, format!("the result is that of {}", some(activity))),
        Kind::NotCached(_) => (false, format!("the type {} does not say CACHE=\"true\"", answer.r#type)),
        Kind::Disabled(_) => (false, "the process was started with --no-reuse".into()),
        Kind::First(_) => (false, format!("no earlier activity of the type {} is known", answer.r#type)),
        Kind::Changed(change) => (false, changes(change, &earlier(&change.nearest))),
        Kind::Failed(activity) => {
            (false, format!("the same activity failed before: {}; only successes are kept", some(activity)))
        }
        Kind::TooLarge(large) => {
            let (activity, bytes) = (earlier(&large.earlier), large.size_bytes);
            (false, format!("the results of {activity} were too large to be kept: {bytes} bytes"))
        }
        Kind::Evicted(activity) => (false, format!("the results of {} were removed to make room", some(activity))),
        Kind::FileGone(gone) => {
            let activity = earlier(&gone.earlier);
            (false, format!("no node has {} any more, which belongs to the results of {activity}", gone.file))
        }
        Kind::UnknownContent(v1::ReuseUnknownContent { parameter, uri }) => {
            (false, format!("the content of {parameter}, {uri}, is not known before a worker has read it"))
        }
        Kind::SharedObject(parameter) => (false, format!("{parameter} holds a shared object")),
        Kind::Unavailable(error) => (false, format!("the result cache could not be read: {error}")),
        Kind::Unknown(_) => {
            let unknown = "unknown: the activity has not begun, was cancelled before it began, or ended too long ago";
            return format!("{:<10} {unknown}\n", "reused");
        }
    };
    format!("{:<10} {}\n{:<10} {why}\n", "reused", if reused { "yes" } else { "no" }, "why")
}

fn kind(answer: &v1::ExplainResponse) -> &Kind {
    answer.reason.as_ref().and_then(|reason| reason.kind.as_ref()).unwrap_or(&Kind::Unknown(v1::Nothing {}))
}

fn changes(change: &v1::ReuseChange, nearest: &str) -> String {
    let mut text = format!("no earlier activity is the same; nearest is {nearest}");
    if !change.code.is_empty() {
        text += &format!("\n           code: {} → {}", change.code_before, change.code);
    }
    for v1::ParameterChange { name, before, after } in &change.parameters {
        let shown = |value: &str| if value.is_empty() { "not there".to_owned() } else { value.to_owned() };
        text += &format!("\n           {name}: {} → {}", shown(before), shown(after));
    }
    text
}

/// For scripts.
pub(crate) fn json(answer: &v1::ExplainResponse) -> Json {
    let (reason, earlier) = match kind(answer) {
        Kind::Reused(activity) => ("reused", Some(activity)),
        Kind::NotCached(_) => ("not-asked", None),
        Kind::Disabled(_) => ("not-wanted", None),
        Kind::First(_) => ("first", None),
        Kind::Changed(change) => ("changed", change.nearest.as_ref()),
        Kind::Failed(activity) => ("failed", Some(activity)),
        Kind::TooLarge(large) => ("too-large", large.earlier.as_ref()),
        Kind::Evicted(activity) => ("removed", Some(activity)),
        Kind::FileGone(gone) => ("files-gone", gone.earlier.as_ref()),
        Kind::UnknownContent(_) | Kind::SharedObject(_) => ("undecided", None),
        Kind::Unavailable(_) => ("unavailable", None),
        Kind::Unknown(_) => ("unknown", None),
    };
    let mut shown = json!({ "reused": reason == "reused", "reason": reason });
    if let Some(activity) = earlier {
        shown["earlier"] = json!(activity.path);
        shown["earlier_ms"] = json!(activity.ended_ms);
    }
    if answer.decided_ms > 0 {
        shown["decided_ms"] = json!(answer.decided_ms);
    }
    match kind(answer) {
        Kind::Changed(change) => {
            if !change.code.is_empty() {
                shown["code"] = json!(change.code);
                shown["code_before"] = json!(change.code_before);
            }
            let difference =
                |it: &v1::ParameterChange| json!({ "name": it.name, "before": it.before, "after": it.after });
            if !change.parameters.is_empty() {
                shown["changes"] = change.parameters.iter().map(difference).collect();
            }
        }
        Kind::TooLarge(large) => shown["detail"] = json!(format!("{} bytes", large.size_bytes)),
        Kind::FileGone(gone) => shown["detail"] = json!(gone.file),
        Kind::UnknownContent(unknown) => {
            let v1::ReuseUnknownContent { parameter, uri } = unknown;
            shown["detail"] =
                json!(format!("the content of {parameter}, {uri}, is not known before a worker has read it"));
        }
        Kind::SharedObject(parameter) => shown["detail"] = json!(format!("{parameter} holds a shared object")),
        Kind::Unavailable(error) => shown["detail"] = json!(error),
        _ => {}
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_with_what_it_was() {
        let change = |name: &str, before: &str, after: &str| v1::ParameterChange {
            name: name.into(),
            before: before.into(),
            after: after.into(),
        };
        let answer = v1::ExplainResponse {
            path: "P-2/a".into(),
            r#type: "A".into(),
            reason: Some(
                Kind::Changed(v1::ReuseChange {
                    nearest: Some(v1::EarlierActivity { path: "P-1/a".into(), ended_ms: 5000 }),
                    code: "22".into(),
                    code_before: "11".into(),
                    parameters: vec![change("n", "1", "2"), change("m", "", "[]")],
                })
                .into(),
            ),
            ..v1::ExplainResponse::default()
        };
        assert_eq!(
            text(&answer, Duration::from_secs(70)),
            "reused     no\nwhy        no earlier activity is the same; nearest is P-1/a, 1m 05s ago\n           \
             code: 11 → 22\n           n: 1 → 2\n           m: not there → []\n"
        );
        assert_eq!(
            json(&answer),
            json!({
                "reused": false, "reason": "changed", "earlier": "P-1/a", "earlier_ms": 5000, "code": "22",
                "code_before": "11", "changes": [
                    { "name": "n", "before": "1", "after": "2" }, { "name": "m", "before": "", "after": "[]" },
                ],
            })
        );
    }
}
