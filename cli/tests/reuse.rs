//! Runs with the same data directory reuse results of each other.

mod common;

use common::{Ended, Folder, xavantes};
use serde_json::{Value as Json, json};

const SWEEP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/cached-sweep.xml");

fn run(folder: &Folder, temperatures: &str, flags: &[&str]) -> (Json, Ended) {
    let (given, data) = (format!("temperatures={temperatures}"), folder.path("data"));
    let fixed = ["run", SWEEP, "-p", &given, "--data-dir", &data, "--output", "json", "--timeout", "120s"];
    let ended = xavantes(&[&fixed, flags].concat(), "");
    assert_eq!(ended.code, 0, "{ended:?}");
    (serde_json::from_str(&ended.stdout).expect("it is JSON"), ended)
}

#[test]
fn a_second_run_executes_only_new_activities() {
    let folder = Folder::new();
    let (first, _) = run(&folder, "[280,290]", &[]);
    assert_eq!(first["activities"], json!({"completed": 2, "failed": 0, "attempts": 2, "reused": 0}));
    let (second, ended) = run(&folder, "[290,300,280]", &[]);
    assert_eq!(second["results"], json!({"rates": [84, 90, 78]}));
    assert_eq!(second["activities"], json!({"completed": 3, "failed": 0, "attempts": 1, "reused": 2}));
    assert_eq!(ended.stderr, "2 of 3 activities used results again\n");
    let (third, ended) = run(&folder, "[290,300,280]", &["--no-reuse"]);
    assert_eq!(third["activities"], json!({"completed": 3, "failed": 0, "attempts": 3, "reused": 0}));
    assert_eq!(ended.stderr, "");
    let (_, ended) = run(&folder, "[300]", &["--quiet"]);
    assert_eq!(ended.stderr, "");
}
