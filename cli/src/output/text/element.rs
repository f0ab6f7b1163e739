//! Elements: `show` prints one fact per line, `tree` one element per line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::process::some_labels;
use super::units::{duration, mib, seconds, timestamp};
use crate::output::printer::Report;
use crate::output::visible::visible_line;
use crate::report::element::{AttemptRecord, Element, EventReport, Explanation, LoopBounds, Shown, Tree, TypeUsage};
use crate::report::process::LiveActivities;

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
    parts.push(state_text(element));
    if let Some(completed) = element.completed {
        let total = element.total.or(element.runs).map_or(String::new(), |total| format!(" of {total}"));
        parts.push(format!("{completed}{total} completed"));
    }
    if let Some(live) = &element.live {
        parts.extend(live_text(live));
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
    parts.extend(element.running_since_ms.map(|since| format!("for {}", elapsed_text(since, None))));
    parts.extend(element.waits.clone());
    if let Some(attempts @ 2..) = element.attempts {
        parts.push(format!("attempt {attempts}"));
    }
    // An element is one line, whatever its message is.
    parts.extend(element.failure.as_ref().map(|failure| {
        let place = failure.place().map_or_else(String::new, |place| format!(" ({place})"));
        visible_line(&(failure.message.clone() + &place)).into_owned()
    }));
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
    add("name", element.name.clone());
    add("labels", some_labels(&element.labels));
    add("element", Some(element.element.clone()));
    add("type", element.r#type.clone());
    add("state", Some(state_text(element)));
    add("waits", element.waits.clone());
    for (key, parameters) in [("input", &element.inputs), ("output", &element.outputs)] {
        for parameter in parameters {
            let value = parameter.value.as_deref().unwrap_or("(hidden)");
            add(key, Some(format!("{} = {value}", parameter.name)));
        }
    }
    add("parameters", element.more_parameters.map(|more| format!("{more} more")));
    add("bounds", element.bounds.as_ref().and_then(bounds_text));
    add("worker", element.worker.clone());
    add(
        "running",
        element.running_since_ms.map(|since| format!("since {}, for {}", timestamp(since), elapsed_text(since, None))),
    );
    add("activities", element.live.as_ref().and_then(live_text));
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
    add("elapsed", element.began_ms.map(|began| elapsed_text(began, element.ended_ms)));
    add("counted at", element.counted_at.clone());
    if element.attempts_unknown {
        add("attempt", Some("not known any more: no worker that answers keeps what it had of this activity".into()));
    }
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

fn bounds_text(bounds: &LoopBounds) -> Option<String> {
    let mut parts = Vec::new();
    if let (Some(from), Some(to), Some(step)) = (bounds.from, bounds.to, bounds.step) {
        let step = if step == 1 { String::new() } else { format!(" in steps of {step}") };
        parts.push(format!("counter from {from} to {to}{step}"));
    }
    parts.extend(bounds.max_parallel.map(|max| format!("MAX_PARALLEL {max}")));
    parts.extend(bounds.join.map(|count| format!("JOIN {count}")));
    parts.extend(bounds.exit_condition.as_ref().map(|text| format!("EXIT_CONDITION {text}")));
    Some(parts.join(", ")).filter(|text| !text.is_empty())
}

/// The time from a beginning to an end, or until now.
fn elapsed_text(began_ms: u64, ended_ms: Option<u64>) -> String {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    duration(Duration::from_millis(ended_ms.unwrap_or_else(now).saturating_sub(began_ms)))
}

/// The state of an element. One below a paused element says so, unless it waits for that.
fn state_text(element: &Element) -> String {
    let mut text = element.state.to_owned();
    if element.paused && !matches!(element.state, "paused" | "waiting") {
        text += ", paused";
    }
    if element.reused {
        text += ", reused";
    }
    text
}

/// The activities in an element, by state.
fn live_text(live: &LiveActivities) -> Option<String> {
    let counts = [(live.running, "running"), (live.queued, "queued"), (live.waiting, "waiting"), (live.held, "held")];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    Some(counts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

fn event_text(event: &EventReport) -> String {
    match (&event.error, &event.steered) {
        (Some(error), _) => error.clone(),
        (None, Some(command)) => {
            let by = event.by.as_ref().map_or_else(String::new, |by| format!(", by {by}"));
            format!("{}: {command}{by}", event.path)
        }
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
