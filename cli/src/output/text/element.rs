//! Elements: `show` prints one fact per line, `tree` one element per line.

use super::units::{mib, seconds, timestamp};
use crate::output::printer::Report;
use crate::output::visible::visible_line;
use crate::report::element::{AttemptRecord, Element, EventReport, Explanation, Shown, Tree, TypeUsage};

impl Report for Shown {
    fn text(&self) -> String {
        facts(&self.0)
    }
}

impl Report for Tree {
    fn text(&self) -> String {
        tree(&self.0)
    }
}

impl Report for Explanation {
    fn text(&self) -> String {
        let element = if self.is_known { facts(&self.element) } else { String::new() };
        let reuse = self.element.reuse.as_ref().map(|reuse| reuse.text_now(&self.element)).unwrap_or_default();
        element + &reuse
    }
}

/// An element and everything in it, drawn as a tree.
fn tree(element: &Element) -> String {
    let mut text = String::new();
    // Explicitly on a stack: elements nest as deep as definitions do.
    let mut pending = vec![(element, String::new(), String::new())];
    while let Some((element, lead, indent)) = pending.pop() {
        text += &format!("{lead}{}\n", line(element));
        if let Some(hidden) = element.hidden {
            text += &format!("{indent}├─ … and {hidden} more\n");
        }
        let last = element.children.len();
        for (index, child) in element.children.iter().enumerate().rev() {
            let (branch, below) = if index + 1 == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            pending.push((child, format!("{indent}{branch}"), format!("{indent}{below}")));
        }
    }
    text
}

/// One element in one line.
fn line(element: &Element) -> String {
    let name = element.path.rsplit('/').next().unwrap_or_default();
    let mut parts = vec![name.to_owned()];
    parts.push(match &element.r#type {
        Some(r#type) => format!("{} {type}", element.element),
        None => element.element.clone(),
    });
    parts.push(element.state.to_owned());
    if element.paused && element.state != "paused" {
        parts.push("paused".into());
    }
    if let Some(completed) = element.completed {
        let total = element.total.or(element.runs).map_or(String::new(), |total| format!(" of {total}"));
        parts.push(format!("{completed}{total} completed"));
    }
    let counts = [
        (element.failed, "failed"),
        (element.cancelled, "cancelled"),
        (element.retried, "tried again"),
        (element.lost, "lost"),
    ];
    for (count, word) in counts {
        if let Some(count @ 1..) = count {
            parts.push(format!("{count} {word}"));
        }
    }
    if let (Some(began), Some(ended)) = (element.began_ms, element.ended_ms)
        && let seconds @ 1.. = ended.saturating_sub(began) / 1000
    {
        parts.push(format!("{seconds} s"));
    }
    parts.extend(element.counted_at.as_ref().map(|path| format!("see {path}")));
    parts.extend(element.worker.as_ref().map(|worker| format!("on {worker}")));
    parts.extend(element.waits.clone());
    if let Some(attempts @ 2..) = element.attempts {
        parts.push(format!("attempt {attempts}"));
    }
    // An element is one line, whatever its message is.
    parts.extend(element.failure.as_ref().map(|failure| visible_line(&failure.message).into_owned()));
    parts.join("  ")
}

/// One element, a line for each fact.
fn facts(element: &Element) -> String {
    let mut text = String::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            // Further lines of a message look like no fact.
            text += &format!("{key:<10} {}\n", value.trim_end().replace('\n', "\n           "));
        }
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    add("path", Some(element.path.clone()));
    add("element", Some(element.element.clone()));
    add("type", element.r#type.clone());
    let paused = if element.paused && element.state != "paused" { ", paused" } else { "" };
    add("state", Some(format!("{}{paused}", element.state)));
    add("worker", element.worker.clone());
    add("waits", element.waits.clone());
    add("attempts", number(element.attempts.map(u64::from)));
    add("completed", number(element.completed));
    add("failed", number(element.failed));
    add("cancelled", number(element.cancelled));
    add("total", number(element.total));
    add("runs", number(element.runs.filter(|runs| *runs > 1)));
    add("retried", number(element.retried));
    add("lost", number(element.lost));
    add("error", element.error.clone());
    add("began", element.began_ms.map(timestamp));
    add("ended", element.ended_ms.map(timestamp));
    add("counted at", element.counted_at.clone());
    for record in &element.records {
        add("attempt", Some(record_text(record)));
    }
    for usage in &element.took {
        add("took", Some(usage_text(usage)));
    }
    for event in &element.events {
        add("event", Some(format!("{}  {}", timestamp(event.at_ms), event_text(event))));
    }
    text
}

fn event_text(event: &EventReport) -> String {
    match (&event.error, &event.steered) {
        (Some(error), _) => error.clone(),
        (None, Some(command)) => format!("{}: {command}", event.path),
        (None, None) => event.path.clone(),
    }
}

/// Resource usage of an activity type in one line.
fn usage_text(usage: &TypeUsage) -> String {
    format!(
        "{}: {} attempts, {:.2} s, the longest {:.2} s, {:.2} s on processors, at most {:.1} MiB of memory, {:.1} MiB \
         read, {:.1} MiB written",
        usage.r#type,
        usage.attempts,
        seconds(usage.wall_ms),
        seconds(usage.longest_ms),
        seconds(usage.user_ms + usage.system_ms),
        mib(usage.peak_memory),
        mib(usage.read_bytes),
        mib(usage.written_bytes)
    )
}

/// An attempt and its resource usage in one line.
fn record_text(record: &AttemptRecord) -> String {
    let mut parts = vec![format!("{} {}", record.attempt, record.state)];
    if let Some(usage) = &record.usage {
        parts.push(format!("on {}", usage.node));
        parts.push(format!(
            "{:.2} s, {:.2} s on processors",
            seconds(usage.wall_ms),
            seconds(usage.user_ms + usage.system_ms)
        ));
        parts.push(format!(
            "{:.1} MiB of memory, {:.1} MiB read, {:.1} MiB written",
            mib(usage.peak_memory),
            mib(usage.read_bytes),
            mib(usage.written_bytes)
        ));
    }
    let error = record.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
    parts.join(", ") + &error
}
