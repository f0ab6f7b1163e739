//! What `explain` tells of the reuse of a result. Pure: time is passed in.

use std::time::Duration;

use serde_json::{Value as Json, json};
use xavantes_proto::v1;

use crate::progress::time;

/// For people. `now` is since 1970.
pub(crate) fn text(answer: &v1::ExplainResponse, now: Duration) -> String {
    let earlier = || {
        let ago = now.saturating_sub(Duration::from_millis(answer.earlier_ms));
        format!("{}, {} ago", answer.earlier, time(ago))
    };
    let (reused, why) = match answer.reason.as_str() {
        "reused" => (true, format!("the result is that of {}", earlier())),
        "not-asked" => (false, format!("the type {} does not say CACHE=\"true\"", answer.r#type)),
        "not-wanted" => (false, "the process was started with --no-reuse".into()),
        "first" => (false, format!("nothing of the type {} is known from before", answer.r#type)),
        "changed" => (false, changes(answer, &earlier())),
        "failed" => (false, format!("the same failed before: {}; only successes are kept", earlier())),
        "too-large" => (false, format!("the results of {} were too large to be kept: {}", earlier(), answer.detail)),
        "removed" => (false, format!("the results of {} were removed to make room", earlier())),
        "files-gone" => {
            (false, format!("nobody has {} any more, which is among the results of {}", answer.detail, earlier()))
        }
        "undecided" => (false, answer.detail.clone()),
        "unavailable" => (false, format!("what was kept could not be read: {}", answer.detail)),
        _ => {
            let unknown =
                "nothing is known of it: it has not begun, was cancelled before it could, or it is too long ago";
            return format!("{:<10} {unknown}\n", "reused");
        }
    };
    format!("{:<10} {}\n{:<10} {why}\n", "reused", if reused { "yes" } else { "no" }, "why")
}

fn changes(answer: &v1::ExplainResponse, earlier: &str) -> String {
    let mut text = format!("it is not what was done before; nearest is {earlier}");
    if !answer.code.is_empty() {
        text += &format!("\n           code: {} → {}", answer.code_before, answer.code);
    }
    for v1::ParameterChange { name, before, after } in &answer.changes {
        let shown = |value: &str| if value.is_empty() { "not there".to_owned() } else { value.to_owned() };
        text += &format!("\n           {name}: {} → {}", shown(before), shown(after));
    }
    text
}

/// For scripts.
pub(crate) fn json(answer: &v1::ExplainResponse) -> Json {
    let mut shown = json!({ "reused": answer.reason == "reused", "reason": answer.reason });
    let texts = [
        ("earlier", &answer.earlier),
        ("code", &answer.code),
        ("code_before", &answer.code_before),
        ("detail", &answer.detail),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        shown[key] = json!(text);
    }
    for (key, ms) in [("decided_ms", answer.decided_ms), ("earlier_ms", answer.earlier_ms)] {
        if ms > 0 {
            shown[key] = json!(ms);
        }
    }
    if !answer.changes.is_empty() {
        let change = |it: &v1::ParameterChange| json!({ "name": it.name, "before": it.before, "after": it.after });
        shown["changes"] = answer.changes.iter().map(change).collect();
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
            reason: "changed".into(),
            earlier: "P-1/a".into(),
            earlier_ms: 5000,
            code: "22".into(),
            code_before: "11".into(),
            changes: vec![change("n", "1", "2"), change("m", "", "[]")],
            ..v1::ExplainResponse::default()
        };
        assert_eq!(
            text(&answer, Duration::from_secs(70)),
            "reused     no\nwhy        it is not what was done before; nearest is P-1/a, 1m 05s ago\n           \
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
