//! Metrics and health of a node over HTTP, and the dashboards and alerts that use the metrics.

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Running, run, until};

const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/monitoring");

/// An address that nobody uses at the moment.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("there is a free port").to_string()
}

/// Head and body of the answer to a request.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("the node serves it");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time is given");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n").expect("the node reads it");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.to_owned(), body.to_owned())
}

/// The value of a series.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not in:\n{metrics}")).parse().expect("it is a number")
}

/// A node that has run a small process, with the address of its metrics.
fn worked() -> (Running, String) {
    let web = free_address();
    let node = Running::node(&["--in-memory", "--slots", "3", "--web", &web]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/word-count.xml");
    let ended = node.ask(&["submit", example, "-p", "texts=[\"to be or not to be\"]", "--wait"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    (node, web)
}

#[test]
fn a_node_tells_what_it_did_and_how_it_is() {
    let (_node, web) = worked();
    let (head, metrics) = get(&web, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    let ended = value(&metrics, "xavantes_attempts_ended_total{outcome=\"completed\"}");
    assert!(ended >= 1.0, "{metrics}");
    assert_eq!(value(&metrics, "xavantes_attempt_duration_seconds_count"), ended);
    assert_eq!(value(&metrics, "xavantes_attempt_worker_wait_seconds_count"), ended);
    assert_eq!(value(&metrics, "xavantes_processes_submitted_total"), 1.0);
    assert_eq!(value(&metrics, "xavantes_processes_ended_total{outcome=\"completed\"}"), 1.0);
    let slots = ["busy", "free"].map(|used| value(&metrics, &format!("xavantes_worker_slots{{use=\"{used}\"}}")));
    assert_eq!(slots.iter().sum::<f64>(), 3.0);
    assert_eq!(value(&metrics, "xavantes_group_nodes{condition=\"available\"}"), 1.0);
    assert!(value(&metrics, "xavantes_node_resident_memory_bytes") > 1e6);
    assert!(value(&metrics, "xavantes_node_tasks") > 1.0);
    let series = metrics.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series <= 500, "{series}");
    until("nothing runs", || {
        let (_, metrics) = get(&web, "/metrics");
        (value(&metrics, "xavantes_processes{condition=\"running\"}") == 0.0).then_some(())
    });
}

#[test]
fn the_health_names_the_roles_and_other_paths_are_refused() {
    let (_node, web) = worked();
    let (head, body) = get(&web, "/healthz");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "serving: group-manager, process-coordinator, activity-manager\n");
    let (head, body) = get(&web, "/secrets");
    assert!(head.starts_with("HTTP/1.1 404") && body.contains("/metrics"), "{head}");
}

#[test]
fn silent_web_clients_shut_out_nobody_for_long() {
    let (_node, web) = worked();
    // More than the node takes at once: it closes those that say nothing.
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(&web).expect("the system accepts it")).collect();
    assert!(get(&web, "/healthz").0.starts_with("HTTP/1.1 200"));
    drop(silent);
}

#[test]
fn an_address_in_use_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let ended = common::xavantes(&["node", "--in-memory", "--listen", "127.0.0.1:0", "--web", &address], "");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains(&address) && ended.stderr.contains("--web"), "{ended:?}");
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("xavantes_")).map(str::to_owned).collect()
}

#[test]
fn dashboards_and_alerts_name_only_what_nodes_export() {
    let exported = names(&get(&worked().1, "/metrics").1);
    let mut used = 0;
    for entry in std::fs::read_dir(MONITORING).expect("the folder is there") {
        let path = entry.expect("it is readable").path();
        for name in names(&std::fs::read_to_string(&path).expect("it is text")) {
            assert!(exported.contains(&name), "{} names {name}, which no node exports", path.display());
            used += 1;
        }
    }
    assert!(used > 15, "{used}");
}

#[test]
fn the_documentation_lists_exactly_what_nodes_export() {
    let metrics = get(&worked().1, "/metrics").1;
    let exported = metrics.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
    let page = std::fs::read_to_string(format!("{MONITORING}/../operating.md")).expect("the page is there");
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let listed: BTreeSet<_> = listed.filter(|name| name.starts_with("xavantes_")).collect();
    assert_eq!(listed, exported.collect::<BTreeSet<_>>());
}

#[test]
fn promtool_finds_nothing_wrong() {
    if Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: promtool is not installed, so the metrics and alerts are not checked with it");
        return;
    }
    let metrics = get(&worked().1, "/metrics").1;
    let ended = run(Command::new("promtool").args(["check", "metrics"]), &metrics);
    assert_eq!((ended.code, ended.stdout + &ended.stderr), (0, String::new()));
    let alerts = Path::new(MONITORING).join("alerts.yml");
    let ended = run(Command::new("promtool").args(["check", "rules"]).arg(alerts), "");
    assert_eq!(ended.code, 0, "{ended:?}");
}
