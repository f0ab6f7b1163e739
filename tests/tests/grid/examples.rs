//! Every example gives the same results on a grid as in one program.

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, workspace};

#[test]
fn every_example_ends_as_expected_on_a_grid_of_separate_processes() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2, 2], &[]);
    let mut names: Vec<String> = std::fs::read_dir(workspace().join("examples"))
        .expect("there are examples")
        .filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".xml").map(str::to_owned))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let wrong: Vec<String> = names.iter().filter_map(|name| run(&mut grid, &address, name)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

/// Runs an example. Returns a description of the difference from what is expected.
fn run(grid: &mut Grid, address: &str, name: &str) -> Option<String> {
    let file = |ending: &str| workspace().join("examples").join(format!("{name}{ending}"));
    let expected = std::fs::read_to_string(file(".expected.json")).expect("every example has expected results");
    let expected: Json = serde_json::from_str(&expected).expect("it is JSON");
    let parameters = expected.get("parameters").cloned().unwrap_or_else(|| json!({}));
    let parameters = grid.write("parameters.json", &parameters.to_string());
    let process = expected["process"].as_str().expect("the name of a type");
    let file = file(".xml").display().to_string();
    let ended = grid.cli(address, &["submit", &file, "--process", process, "--params", &parameters, "--wait"]);
    let code = if expected["state"] == "completed" { 0 } else { 1 };
    let Ok(printed) = serde_json::from_str::<Json>(&ended.stdout) else {
        return Some(format!("{name}: this is not JSON: {ended:?}"));
    };
    let same = ended.code == code && printed["state"] == expected["state"] && printed["results"] == expected["results"];
    let told = match expected["error"].as_str() {
        Some(error) => {
            printed["error"].as_str().is_some_and(|told| told.contains(error)) && ended.stderr.contains(error)
        }
        None => printed.get("error").is_none(),
    };
    (!same || !told).then(|| format!("{name}: expected {expected:#}\nbut it ended with {}: {printed:#}", ended.code))
}
