//! Decisions about the reuse of results.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::units::duration;
use crate::report::element::Element;
use crate::report::reuse::{Reuse, ReuseReason};

impl Reuse {
    /// The decision, with times relative to the present.
    pub(super) fn text_now(&self, element: &Element) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        text(self, element.r#type.as_deref().unwrap_or_default(), now)
    }
}

/// `now` is the time since 1970.
fn text(reuse: &Reuse, activity_type: &str, now: Duration) -> String {
    let path = reuse.earlier.as_deref().unwrap_or_default();
    let ago = now.saturating_sub(Duration::from_millis(reuse.earlier_ms.unwrap_or_default()));
    let earlier = format!("{path}, {} ago", duration(ago));
    let detail = reuse.detail.as_deref().unwrap_or_default();
    let why = match reuse.reason {
        ReuseReason::Reused => format!("the result is that of {earlier}"),
        ReuseReason::NotAsked => format!("the type {activity_type} does not say CACHE=\"true\""),
        ReuseReason::NotWanted => "the process was started with --no-reuse".into(),
        ReuseReason::First => format!("no earlier activity of the type {activity_type} is known"),
        ReuseReason::Changed => changes(reuse, &earlier),
        ReuseReason::Failed => format!("the same activity failed before: {earlier}; only successes are kept"),
        ReuseReason::TooLarge => format!("the results of {earlier} were too large to be kept: {detail}"),
        ReuseReason::Removed => format!("the results of {earlier} were removed to make room"),
        ReuseReason::FilesGone => {
            format!("no node has {detail} any more, which belongs to the results of {earlier}")
        }
        ReuseReason::Undecided | ReuseReason::NotCompleted => detail.to_owned(),
        ReuseReason::TakenOver => format!("another activity took over the results of {earlier}"),
        ReuseReason::Unavailable => format!("the result cache could not be read: {detail}"),
        ReuseReason::Unknown => {
            let unknown = "unknown: the activity has not begun, was cancelled before it began, or ended too long ago";
            return format!("{:<10} {unknown}\n", "reused");
        }
    };
    format!("{:<10} {}\n{:<10} {why}\n", "reused", if reuse.reused { "yes" } else { "no" }, "why")
}

fn changes(reuse: &Reuse, nearest: &str) -> String {
    let mut text = format!("no earlier activity is the same; nearest is {nearest}");
    if let (Some(code), Some(before)) = (&reuse.code, &reuse.code_before) {
        text += &format!("\n           code: {before} → {code}");
    }
    for change in &reuse.changes {
        let shown = |value: &str| if value.is_empty() { "not there".to_owned() } else { value.to_owned() };
        text += &format!("\n           {}: {} → {}", change.name, shown(&change.before), shown(&change.after));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};
    use xavantes_proto::v1;
    use xavantes_proto::v1::reuse_reason::Kind;

    use super::*;

    #[test]
    fn a_change_is_told_with_the_value_before() {
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
        let reuse = Reuse::from(&answer);
        assert_eq!(
            text(&reuse, "A", Duration::from_secs(70)),
            "reused     no\nwhy        no earlier activity is the same; nearest is P-1/a, 1m 05s ago\n           \
             code: 11 → 22\n           n: 1 → 2\n           m: not there → []\n"
        );
        assert_eq!(
            to_value(&reuse).unwrap(),
            json!({
                "reused": false, "reason": "changed", "earlier": "P-1/a", "earlier_ms": 5000, "code": "22",
                "code_before": "11", "changes": [
                    { "name": "n", "before": "1", "after": "2" }, { "name": "m", "before": "", "after": "[]" },
                ],
            })
        );
    }
}
