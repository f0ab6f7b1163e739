//! Processes, elements and nodes as people and scripts see them.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use xavantes_proto::{v1, value_from};

/// A failure with its path, line and everything that is known.
pub(crate) fn failure(failure: &v1::Failure) -> String {
    let mut text = failure.path.clone();
    if let Some(line) = failure.line {
        text += &format!(" (line {line})");
    }
    text += &format!(": {}", failure.message);
    if let Some(worker) = &failure.worker {
        text += &format!(", on {worker}");
    }
    if let Some(status) = failure.exit_status {
        text += &format!(", exit status {status}");
    }
    if let Some(stderr) = &failure.stderr {
        text += &format!("\n{stderr}");
    }
    if let Some(cause) = &failure.cause {
        text += &format!("\nwhile handling {}", self::failure(cause));
    }
    text
}

pub(crate) fn state(status: &v1::ProcessStatus) -> &'static str {
    match status.state() {
        v1::ProcessState::Running if status.paused => "paused",
        state => state.word(),
    }
}

/// Results by name.
pub(crate) fn results(results: &[v1::Parameter]) -> serde_json::Map<String, Json> {
    let value = |parameter: &v1::Parameter| value_from(parameter.value.clone().unwrap_or_default());
    results
        .iter()
        .map(|parameter| (parameter.name.clone(), value(parameter).map_or(Json::Null, |value| value.to_json())))
        .collect()
}

/// Results for people: a line each.
pub(crate) fn results_text(results: &[v1::Parameter]) -> String {
    let value = |parameter: &v1::Parameter| value_from(parameter.value.clone().unwrap_or_default());
    results
        .iter()
        .map(|parameter| match value(parameter) {
            Ok(value) => format!("{} = {}\n", parameter.name, value.to_json()),
            Err(_) => format!("{} = ?\n", parameter.name),
        })
        .collect()
}

pub(crate) fn status_json(status: &v1::ProcessStatus) -> Json {
    let counts = status.counts.unwrap_or_default();
    let mut shown = json!({
        "process": status.process,
        "path": status.path,
        "type": status.process_type,
        "state": state(status),
        "activities": {
            "completed": counts.completed, "failed": counts.failed, "attempts": counts.attempts,
            "running": counts.running, "reused": counts.reused,
        },
        "submitted_ms": status.submitted_ms,
        "node": status.node,
        "group": status.group,
    });
    if status.ended_ms > 0 {
        shown["ended_ms"] = json!(status.ended_ms);
    }
    if let Some(reason) = &status.stalled {
        shown["trouble"] = json!(reason.to_string());
    }
    if let Some(why) = &status.failure {
        shown["error"] = json!(failure(why));
    }
    shown
}

/// A table with a headline; columns as wide as they need to be.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(head.to_vec());
    text.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    text
}

/// Processes; how many activities used results again, and why processes do not go on, only if there are such.
pub(crate) fn list(processes: &[v1::ProcessStatus]) -> String {
    let troubled = processes.iter().any(|status| status.stalled.is_some());
    let reused = processes.iter().any(|status| status.counts.unwrap_or_default().reused > 0);
    let mut head = vec!["PROCESS", "STATE", "COMPLETED", "RUNNING", "FAILED"];
    head.extend(reused.then_some("REUSED"));
    head.extend(troubled.then_some("TROUBLE"));
    let rows: Vec<Vec<String>> = processes
        .iter()
        .map(|status| {
            let counts = status.counts.unwrap_or_default();
            let mut row = vec![
                status.process.clone(),
                state(status).to_owned(),
                counts.completed.to_string(),
                counts.running.to_string(),
                counts.failed.to_string(),
            ];
            row.extend(reused.then(|| counts.reused.to_string()));
            row.extend(troubled.then(|| status.stalled.as_ref().map(ToString::to_string).unwrap_or_default()));
            row
        })
        .collect();
    table(&head, &rows)
}

pub(crate) fn nodes(nodes: &[v1::NodeStatus]) -> String {
    let rows: Vec<Vec<String>> = nodes
        .iter()
        .map(|status| {
            let node = status.node.clone().unwrap_or_default();
            let worker = node.roles.contains(&(v1::Role::ActivityManager as i32));
            vec![
                node.name.clone(),
                node.address.clone(),
                roles(&node).join(","),
                if worker { format!("{}/{}", status.busy.min(node.slots), node.slots) } else { "-".into() },
                if worker { status.busy.saturating_sub(node.slots).to_string() } else { "-".into() },
                status.processes.to_string(),
                if status.draining { "draining" } else { "up" }.to_owned(),
            ]
        })
        .collect();
    table(&["NODE", "ADDRESS", "ROLES", "BUSY", "WAITING", "PROCESSES", "STATE"], &rows)
}

fn roles(node: &v1::NodeDescription) -> Vec<&'static str> {
    node.roles
        .iter()
        .filter_map(|role| match v1::Role::try_from(*role).ok()? {
            v1::Role::GroupManager => Some("group-manager"),
            v1::Role::ProcessCoordinator => Some("process-coordinator"),
            v1::Role::ActivityManager => Some("activity-manager"),
            v1::Role::Unspecified => None,
        })
        .collect()
}

pub(crate) fn node_json(status: &v1::NodeStatus) -> Json {
    let node = status.node.clone().unwrap_or_default();
    json!({
        "node": node.name, "address": node.address, "roles": roles(&node), "slots": node.slots, "tags": node.tags,
        "version": node.version, "memory": node.memory, "gpus": node.gpus, "interpreters": node.interpreters,
        "containers": node.containers, "cgroups": node.cgroups, "busy": status.busy, "processes": status.processes,
        "draining": status.draining,
    })
}

pub(crate) fn groups(groups: &[v1::GroupSummary]) -> String {
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|group| {
            vec![
                group.group.clone(),
                group.hops.to_string(),
                group.workers.to_string(),
                format!("{}/{}", group.free_slots, group.slots),
                group.coordinators.len().to_string(),
                group.managers.join(","),
            ]
        })
        .collect();
    table(&["GROUP", "HOPS", "WORKERS", "FREE", "COORDINATORS", "MANAGERS"], &rows)
}

pub(crate) fn group_json(group: &v1::GroupSummary) -> Json {
    json!({
        "group": group.group, "hops": group.hops, "workers": group.workers, "slots": group.slots,
        "free_slots": group.free_slots, "coordinators": group.coordinators.len(), "managers": group.managers,
        "age_ms": group.age_ms,
    })
}

pub(crate) fn types(types: &[v1::TypeDescription]) -> String {
    let rows: Vec<Vec<String>> = types
        .iter()
        .map(|it| {
            let digest = it.digest.chars().take(12).collect();
            vec![it.name.clone(), it.kind().word().to_owned(), digest, it.document.clone()]
        })
        .collect();
    table(&["TYPE", "KIND", "DIGEST", "DOCUMENT"], &rows)
}

/// An element and what is alive in it, drawn as a tree.
pub(crate) fn tree(element: &v1::Element) -> String {
    let mut text = String::new();
    // Explicitly on a stack: elements nest as deep as definitions do.
    let mut pending = vec![(element, String::new(), String::new())];
    while let Some((element, lead, indent)) = pending.pop() {
        text += &format!("{lead}{}\n", line(element));
        let more = element.hidden > 0;
        if more {
            text += &format!("{indent}├─ … and {} more\n", element.hidden);
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
pub(crate) fn line(element: &v1::Element) -> String {
    let name = element.path.rsplit('/').next().unwrap_or_default();
    let kind =
        if element.r#type.is_empty() { element.tag.clone() } else { format!("{} {}", element.tag, element.r#type) };
    let mut parts = vec![name.to_owned(), kind, element.condition().word().to_owned()];
    if element.paused {
        parts.push("paused".into());
    }
    if let Some(completed) = element.completed {
        let total = element
            .total
            .or((element.runs > 0).then_some(element.runs))
            .map_or(String::new(), |total| format!(" of {total}"));
        parts.push(format!("{completed}{total} completed"));
    }
    for (count, word) in [(element.failed, "failed"), (element.cancelled, "cancelled")] {
        if let Some(count @ 1..) = count {
            parts.push(format!("{count} {word}"));
        }
    }
    for (count, word) in [(element.retried, "tried again"), (element.lost, "lost")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    if let seconds @ 1.. = element.ended_ms.saturating_sub(element.began_ms) / 1000 {
        parts.push(format!("{seconds} s"));
    }
    if !element.counted_at.is_empty() {
        parts.push(format!("see {}", element.counted_at));
    }
    if !element.worker.is_empty() {
        parts.push(format!("on {}", element.worker));
    }
    parts.extend(waits(element));
    if element.attempts > 1 {
        parts.push(format!("attempt {}", element.attempts));
    }
    if let Some(why) = &element.failure {
        parts.push(why.message.clone());
    }
    parts.join("  ")
}

/// Why no worker runs an element, and what to do about it.
fn waits(element: &v1::Element) -> Option<String> {
    let reason = element.wait_reason.as_ref()?;
    Some(match reason.kind {
        Some(v1::wait_reason::Kind::CoordinatorSilentMs(_)) => {
            format!("{reason}; if it is gone permanently: xavantes retry {} --elsewhere", element.path)
        }
        _ => reason.to_string(),
    })
}

/// What `show` tells of one element, a line each.
pub(crate) fn element_text(element: &v1::Element) -> String {
    let mut text = format!("path       {}\nelement    {}\n", element.path, element.tag);
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            text += &format!("{key:<10} {value}\n");
        }
    };
    add("type", &element.r#type);
    let paused = if element.paused { ", paused" } else { "" };
    add("state", &format!("{}{paused}", element.condition().word()));
    add("worker", &element.worker);
    add("waits", &waits(element).unwrap_or_default());
    if element.attempts > 0 {
        add("attempts", &element.attempts.to_string());
    }
    let numbers = [
        ("completed", element.completed),
        ("failed", element.failed),
        ("cancelled", element.cancelled),
        ("total", element.total),
        ("runs", Some(element.runs).filter(|runs| *runs > 1)),
        ("retried", Some(element.retried).filter(|count| *count > 0)),
        ("lost", Some(element.lost).filter(|count| *count > 0)),
    ];
    for (key, number) in numbers {
        add(key, &number.map_or(String::new(), |number| number.to_string()));
    }
    add("error", &element.failure.as_ref().map_or(String::new(), failure));
    add("began", &time(element.began_ms));
    add("ended", &time(element.ended_ms));
    add("counted at", &element.counted_at);
    for record in &element.records {
        add("attempt", &record_text(record));
    }
    for took in &element.usage {
        add("took", &took_text(took));
    }
    for remark in &element.remarks {
        add("event", &format!("{}  {}", time(remark.at_ms), remark_text(remark)));
    }
    text
}

/// Milliseconds since 1970 for people; nothing for none.
fn time(ms: u64) -> String {
    match UNIX_EPOCH.checked_add(Duration::from_millis(ms)) {
        Some(time) if ms > 0 => humantime::format_rfc3339_seconds(time).to_string(),
        _ => String::new(),
    }
}

fn remark_text(remark: &v1::Remark) -> String {
    match &remark.what {
        Some(v1::remark::What::Failed(why)) => failure(why),
        Some(v1::remark::What::Steered(what)) => format!("{}: {what}", remark.path),
        None => remark.path.clone(),
    }
}

fn remark_json(remark: &v1::Remark) -> Json {
    let mut shown = json!({ "at_ms": remark.at_ms, "path": remark.path });
    match &remark.what {
        Some(v1::remark::What::Failed(why)) => shown["error"] = json!(failure(why)),
        Some(v1::remark::What::Steered(what)) => shown["steered"] = json!(what),
        None => {}
    }
    shown
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What the programs of an activity type took, in one line.
fn took_text(took: &v1::UsageTotals) -> String {
    format!(
        "{}: {} attempts, {:.2} s, the longest {:.2} s, {:.2} s on processors, at most {:.1} MiB of memory, {:.1} MiB \
         read, {:.1} MiB written",
        took.r#type,
        took.attempts,
        seconds(took.wall_ms),
        seconds(took.longest_ms),
        seconds(took.user_ms + took.system_ms),
        mib(took.peak_memory),
        mib(took.read_bytes),
        mib(took.written_bytes)
    )
}

fn took_json(took: &v1::UsageTotals) -> Json {
    json!({
        "type": took.r#type, "attempts": took.attempts, "wall_ms": took.wall_ms, "longest_ms": took.longest_ms,
        "user_ms": took.user_ms, "system_ms": took.system_ms, "peak_memory": took.peak_memory,
        "read_bytes": took.read_bytes, "written_bytes": took.written_bytes,
    })
}

/// An attempt of a program and what it took, in one line.
fn record_text(record: &v1::AttemptRecord) -> String {
    let mut parts = vec![format!("{} {}", record.attempt, record.state().word())];
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
    let reason = if record.reason.is_empty() { String::new() } else { format!(": {}", record.reason) };
    parts.join(", ") + &reason
}

fn record_json(record: &v1::AttemptRecord) -> Json {
    let mut shown = json!({
        "attempt": record.attempt, "state": record.state().word(), "began_ms": record.began_ms,
        "stdout_bytes": record.stdout_bytes, "stderr_bytes": record.stderr_bytes,
    });
    if record.ended_ms > 0 {
        shown["ended_ms"] = json!(record.ended_ms);
    }
    if !record.reason.is_empty() {
        shown["reason"] = json!(record.reason);
    }
    if let Some(usage) = &record.usage {
        shown["usage"] = json!({
            "node": usage.node, "wall_ms": usage.wall_ms, "user_ms": usage.user_ms, "system_ms": usage.system_ms,
            "peak_memory": usage.peak_memory, "read_bytes": usage.read_bytes, "written_bytes": usage.written_bytes,
        });
    }
    shown
}

pub(crate) fn element_json(element: &v1::Element) -> Json {
    let mut shown = json!({
        "path": element.path, "element": element.tag, "state": element.condition().word(), "paused": element.paused,
    });
    let mut add = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            shown[key] = value;
        }
    };
    let text = |text: &String| (!text.is_empty()).then(|| json!(text));
    add("type", text(&element.r#type));
    add("worker", text(&element.worker));
    add("waits", waits(element).map(|waits| json!(waits)));
    let records: Vec<Json> = element.records.iter().map(record_json).collect();
    add("records", (!records.is_empty()).then(|| json!(records)));
    add("attempts", (element.attempts > 0).then(|| json!(element.attempts)));
    add("completed", element.completed.map(|count| json!(count)));
    add("failed", element.failed.map(|count| json!(count)));
    add("cancelled", element.cancelled.map(|count| json!(count)));
    add("total", element.total.map(|count| json!(count)));
    for (key, count) in [
        ("runs", element.runs),
        ("retried", element.retried),
        ("lost", element.lost),
        ("began_ms", element.began_ms),
        ("ended_ms", element.ended_ms),
    ] {
        add(key, (count > 0).then(|| json!(count)));
    }
    add("counted_at", text(&element.counted_at));
    let took: Vec<Json> = element.usage.iter().map(took_json).collect();
    add("took", (!took.is_empty()).then(|| json!(took)));
    let remarks: Vec<Json> = element.remarks.iter().map(remark_json).collect();
    add("events", (!remarks.is_empty()).then(|| json!(remarks)));
    add("error", element.failure.as_ref().map(|why| json!(failure(why))));
    let children: Vec<Json> = element.children.iter().map(element_json).collect();
    add("children", (!children.is_empty()).then(|| json!(children)));
    add("hidden", (element.hidden > 0).then(|| json!(element.hidden)));
    shown
}
