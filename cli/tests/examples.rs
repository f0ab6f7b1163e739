//! Every example ends as its file with the expected result says.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{Folder, xavantes};
use serde_json::Value as Json;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
const EXPECTED: &str = ".expected.json";

/// The names of the examples that have a file with this ending.
fn names(ending: &str) -> BTreeSet<String> {
    let files = std::fs::read_dir(EXAMPLES).expect("there are examples");
    let files = files.map(|file| file.expect("they can be listed").file_name().into_string().expect("they are UTF-8"));
    files.filter_map(|file| file.strip_suffix(ending).map(str::to_owned)).collect()
}

fn file(name: &str, ending: &str) -> PathBuf {
    Path::new(EXAMPLES).join(format!("{name}{ending}"))
}

fn expected(name: &str) -> Json {
    let text = std::fs::read_to_string(file(name, EXPECTED)).expect("it can be read");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}{EXPECTED}: {error}"))
}

#[test]
fn every_example_has_an_expected_result() {
    assert!(!names(".xml").is_empty());
    assert_eq!(names(".xml"), names(EXPECTED));
    for name in names(EXPECTED) {
        let Json::Object(members) = expected(&name) else { panic!("{name}{EXPECTED} is not an object") };
        for member in ["process", "state", "results"] {
            assert!(members.contains_key(member), "{name}{EXPECTED} has no {member:?}");
        }
        for member in members.keys() {
            let known = ["process", "parameters", "state", "results", "error"];
            assert!(known.contains(&member.as_str()), "{name}{EXPECTED} has an unknown {member:?}");
        }
    }
}

#[test]
fn every_example_is_valid() {
    for name in names(".xml") {
        let ended = xavantes(&["validate", &file(&name, ".xml").display().to_string()], "");
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""), "{name}");
    }
}

#[test]
fn every_example_ends_as_expected_with_one_worker() {
    run_all("1");
}

#[test]
fn every_example_ends_as_expected_with_four_workers() {
    run_all("4");
}

fn run_all(workers: &str) {
    let wrong: Vec<String> = names(".xml").iter().flat_map(|name| run(name, workers)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

/// Runs an example; returns the difference from the expected result.
fn run(name: &str, workers: &str) -> Option<String> {
    let expected = expected(name);
    let folder = Folder::new();
    let parameters = expected.get("parameters").cloned().unwrap_or_else(|| Json::Object(Default::default()));
    let parameters = folder.write("parameters.json", parameters.to_string());
    let file = file(name, ".xml").display().to_string();
    let process = expected["process"].as_str().expect("the name of a type");
    let options = ["--params", &parameters, "--workers", workers, "--output", "json", "--timeout", "60s"];
    let ended = xavantes(&[&["run", &file, "--process", process], &options[..]].concat(), "");
    let Ok(printed) = serde_json::from_str::<Json>(&ended.stdout) else {
        return Some(format!("{name}: this is not JSON: {ended:?}"));
    };
    let code = match expected["state"].as_str() {
        Some("completed") => 0,
        Some("failed") => 1,
        other => panic!("{name}{EXPECTED}: an example cannot end {other:?}"),
    };
    let same = ended.code == code && printed["state"] == expected["state"] && printed["results"] == expected["results"];
    let has_error = match expected.get("error").and_then(Json::as_str) {
        Some(error) => {
            printed["error"].as_str().is_some_and(|message| message.contains(error)) && ended.stderr.contains(error)
        }
        None => printed.get("error").is_none(),
    };
    (!same || !has_error)
        .then(|| format!("{name}: expected {expected:#}\nbut it ended with {}: {printed:#}", ended.code))
}
