//! Processes that keep a grid busy, and queries about running activities.

use serde_json::Value as Json;
use xavantes_tests::{Grid, until};

const NAP: &str = r#"
  <ACTIVITY_TYPE NAME="Nap">
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <CODE LANGUAGE="command"><ARG>sleep</ARG><ARG>${time}</ARG></CODE>
  </ACTIVITY_TYPE>"#;

/// `count` sleeping activities in the local group, as many at once as it has slots.
const NAPS: &str = r#"
  <PROCESS_TYPE NAME="Naps">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="all" TO="${count}" COLLECT="counter" DELEGATE="never">
        <ITERATE><ACTIVITY TYPE="Nap" NAME="nap" time="${time}"/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in all.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

/// A document with these types and the activity type `Nap`, which sleeps.
pub fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{types}{NAP}\n</XAVANTES>\n")
}

/// Writes the process type `Naps` and returns the path of the document.
pub fn naps(grid: &mut Grid) -> String {
    grid.write("naps.xml", &document(NAPS))
}

/// Keeps `slots` slots of a group busy for longer than any test takes.
pub fn keep_busy(grid: &mut Grid, address: &str, slots: u64) -> String {
    let file = naps(grid);
    let process = grid.submit(address, &file, &[&format!("count={slots}"), "time=300"]);
    until("the slots are busy", 60, || (busy(grid, address) >= slots).then_some(()));
    process
}

/// The number of activities that the workers of a group run.
pub fn busy(grid: &Grid, address: &str) -> u64 {
    grid.nodes(address).iter().filter_map(|node| node["busy"].as_u64()).sum()
}

/// The information that a group has about another one.
pub fn group(grid: &Grid, address: &str, name: &str) -> Option<Json> {
    let known = grid.cli(address, &["groups"]);
    let known = if known.code == 0 { known.json() } else { return None };
    known["groups"].as_array()?.iter().find(|group| group["group"] == name).cloned()
}

/// The output of `tree` for a process; nothing if the process has ended.
pub fn tree(grid: &Grid, address: &str, path: &str) -> Option<Json> {
    let shown = grid.cli(address, &["tree", path]);
    (shown.code == 0).then(|| shown.json()).filter(|tree| tree["ended_ms"].is_null())
}

/// An element and all elements below it.
pub fn elements(tree: &Json) -> Vec<&Json> {
    let mut all = vec![tree];
    let mut next = 0;
    while let Some(element) = all.get(next).copied() {
        all.extend(element["children"].as_array().into_iter().flatten());
        next += 1;
    }
    all
}

/// The element at this path in a tree.
pub fn at<'a>(tree: &'a Json, path: &str) -> Option<&'a Json> {
    elements(tree).into_iter().find(|element| element["path"] == path)
}

/// The names of the workers that run activities of a tree.
pub fn workers(tree: &Json) -> Vec<String> {
    let activities = elements(tree).into_iter().filter(|element| element["element"] == "ACTIVITY");
    activities.filter_map(|activity| activity["worker"].as_str().map(str::to_owned)).collect()
}

/// Asserts that each activity completed with one attempt.
#[track_caller]
pub fn assert_counts(status: &Json, activities: u64) {
    let counts = &status["activities"];
    assert_eq!(
        (counts["completed"].as_u64(), counts["attempts"].as_u64()),
        (Some(activities), Some(activities)),
        "{status}"
    );
}
