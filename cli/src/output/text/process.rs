//! Processes and their results.

use serde_json::Value as Json;

use super::text_table::table;
use crate::output::printer::Report;
use crate::report::process::{ElementOutput, EndedReport, LiveActivities, OutcomeReport, ProcessList, Submitted};

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
    /// The columns QUEUED, HELD, REUSED and WAITS appear only if a process has something in them.
    fn text(&self) -> String {
        let has_reused = self.processes.iter().any(|process| process.activities.reused > 0);
        let has_trouble = self.processes.iter().any(|process| process.trouble.is_some());
        let live = || self.processes.iter().filter_map(|process| process.activities.live);
        let (has_queued, has_held) = (live().any(|live| live.queued > 0), live().any(|live| live.held > 0));
        let mut head = vec!["PROCESS", "STATE", "COMPLETED", "RUNNING"];
        head.extend(has_queued.then_some("QUEUED"));
        head.push("WAITING");
        head.extend(has_held.then_some("HELD"));
        head.push("FAILED");
        head.extend(has_reused.then_some("REUSED"));
        head.extend(has_trouble.then_some("WAITS"));
        let rows = self.processes.iter().map(|process| {
            let activities = &process.activities;
            let mut row = vec![process.process.clone(), process.state.to_owned(), activities.completed.to_string()];
            let number = |of: fn(&LiveActivities) -> u64| activities.live.as_ref().map_or(0, of).to_string();
            row.push(number(|live| live.running));
            row.extend(has_queued.then(|| number(|live| live.queued)));
            row.push(number(|live| live.waiting));
            row.extend(has_held.then(|| number(|live| live.held)));
            row.push(activities.failed.to_string());
            row.extend(has_reused.then(|| activities.reused.to_string()));
            row.extend(has_trouble.then(|| process.trouble.clone().unwrap_or_default()));
            row
        });
        table(&head, rows)
    }
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

fn assignments(results: &[(String, Json)]) -> impl Iterator<Item = String> {
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
