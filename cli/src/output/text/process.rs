//! Processes and their results.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;

use super::text_table::table;
use super::units::{age, duration};
use crate::output::printer::Report;
use crate::report::process::{
    ElementOutput, EndedReport, LiveActivities, OutcomeReport, Process, ProcessList, Submitted,
};

impl Report for Submitted {
    fn text(&self) -> String {
        self.process.clone()
    }
}

impl Report for OutcomeReport {
    fn text(&self) -> String {
        assignments(&self.results).map(|line| line + "\n").collect()
    }
}

impl Report for ProcessList {
    /// The columns NAME, QUEUED, HELD, REUSED, LABELS, WAITS and ERROR appear only if a process has something in them.
    fn text(&self) -> String {
        let any = |has: fn(&Process) -> bool| self.processes.iter().any(has);
        let (has_name, has_labels) = (any(|it| it.name.is_some()), any(|it| !it.labels.is_empty()));
        let (has_reused, has_trouble) = (any(|it| it.activities.reused > 0), any(|it| it.trouble.is_some()));
        let has_error = self.shows_errors && any(|it| it.error.is_some());
        let live = || self.processes.iter().filter_map(|process| process.activities.live);
        let (has_queued, has_held) = (live().any(|live| live.queued > 0), live().any(|live| live.held > 0));
        let mut head = vec!["PROCESS"];
        head.extend(has_name.then_some("NAME"));
        head.extend(["STATE", "SUBMITTED", "DURATION", "COMPLETED", "RUNNING"]);
        head.extend(has_queued.then_some("QUEUED"));
        head.push("WAITING");
        head.extend(has_held.then_some("HELD"));
        head.push("FAILED");
        head.extend(has_reused.then_some("REUSED"));
        head.extend(has_labels.then_some("LABELS"));
        head.extend(has_trouble.then_some("WAITS"));
        head.extend(has_error.then_some("ERROR"));
        let rows = self.processes.iter().map(|process| {
            let activities = &process.activities;
            let mut row = vec![process.process.clone()];
            row.extend(has_name.then(|| process.name.clone().unwrap_or_default()));
            let number = |of: fn(&LiveActivities) -> u64| activities.live.as_ref().map_or(0, of).to_string();
            row.extend([
                process.state.to_owned(),
                age(Duration::from_millis(self.now_ms.saturating_sub(process.submitted_ms))),
                duration(Duration::from_millis(
                    process.ended_ms.unwrap_or(self.now_ms).saturating_sub(process.submitted_ms),
                )),
                activities.completed.to_string(),
                number(|live| live.running),
            ]);
            row.extend(has_queued.then(|| number(|live| live.queued)));
            row.push(number(|live| live.waiting));
            row.extend(has_held.then(|| number(|live| live.held)));
            row.push(activities.failed.to_string());
            row.extend(has_reused.then(|| activities.reused.to_string()));
            row.extend(has_labels.then(|| some_labels(&process.labels).unwrap_or_default()));
            row.extend(has_trouble.then(|| process.trouble.clone().unwrap_or_default()));
            let error = process.error.as_deref().unwrap_or_default();
            row.extend(has_error.then(|| error.lines().next().unwrap_or_default().to_owned()));
            row
        });
        table(&head, rows)
    }
}

/// Labels in one line.
pub(super) fn some_labels(labels: &BTreeMap<String, String>) -> Option<String> {
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

impl Report for EndedReport {
    /// The exit code is the answer.
    fn text(&self) -> String {
        String::new()
    }
}

impl Report for ElementOutput {
    fn text(&self) -> String {
        let mut values: Vec<String> = assignments(&self.results).collect();
        values.extend(self.collected.as_ref().map(|value| format!("collected {value}")));
        let reused = if self.reused { "  (reused)" } else { "" };
        format!("{}  {}{reused}", self.path, values.join(", "))
    }
}

pub(super) fn assignments(results: &[(String, Json)]) -> impl Iterator<Item = String> {
    results.iter().map(|(name, value)| format!("{name} = {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};
    use xavantes_model::value::Value;
    use xavantes_proto::{v1, value};

    use super::*;

    #[test]
    fn an_output_is_one_line() {
        let results = vec![v1::Parameter { name: "n".into(), value: Some(value(&Value::from("a\nb"))) }];
        let output = v1::Output { path: "P-1/a".into(), results, reused: true, missed: 2, ..v1::Output::default() };
        let output = ElementOutput::from(&output);
        assert_eq!(output.text(), "P-1/a  n = \"a\\nb\"  (reused)");
        let expected = json!({"path": "P-1/a", "results": {"n": "a\nb"}, "reused": true, "missed": 2});
        assert_eq!(to_value(&output).unwrap(), expected);
        let collected = Some(value(&Value::Int(7)));
        let output = v1::Output { path: "P-1/all/[3]".into(), collected, ..v1::Output::default() };
        let output = ElementOutput::from(&output);
        assert_eq!(output.text(), "P-1/all/[3]  collected 7");
        assert_eq!(to_value(&output).unwrap(), json!({"path": "P-1/all/[3]", "collected": 7}));
    }
}
