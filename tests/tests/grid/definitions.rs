//! Definitions: what the commands say about them before anything runs.

use xavantes_tests::{Grid, xavantes};

use crate::kit::naps;

#[test]
fn a_submission_uses_no_types_of_earlier_submissions() {
    let mut grid = Grid::new();
    let address = grid.group("g", &[1], &[]);
    let file = naps(&mut grid);
    let process = grid.submit(&address, &file, &["count=0", "time=0"]);
    assert_eq!(grid.end(&address, &process)["state"], "completed");
    let nap = r#"<ACTIVITY TYPE="Nap" NAME="nap" time="0"/>"#;
    let alone =
        format!(r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Alone"><BODY>{nap}</BODY></PROCESS_TYPE></XAVANTES>"#);
    let alone = grid.write("alone.xml", &alone);
    let validated = xavantes(&["validate", &alone, "--output", "json"]);
    let submitted = grid.cli(&address, &["submit", &alone]);
    assert_eq!((submitted.code, &submitted.stdout), (2, &validated.stdout), "{submitted:?} {validated:?}");
    assert_eq!(submitted.json()["problems"][0]["code"], "unknown-type");
    let together = grid.cli(&address, &["submit", &alone, &file, "--process", "Alone", "--wait"]);
    assert_eq!(together.ok().json()["state"], "completed");
}

#[test]
fn warnings_do_not_stop_a_submission() {
    let mut grid = Grid::new();
    let address = grid.group("g", &[1], &[]);
    let text = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><BODY><BLOCK NAME="b" RETRY_DELAY="1s"/></BODY></PROCESS_TYPE>
        </XAVANTES>"#;
    let file = grid.write("warned.xml", text);
    let submitted = grid.cli(&address, &["submit", &file, "--wait"]).ok();
    assert_eq!(submitted.json()["state"], "completed");
    assert!(
        submitted.stderr.contains("RETRY_DELAY never applies") && submitted.stderr.contains("1 warning"),
        "{submitted:?}"
    );
    let report = xavantes(&["validate", &file, "--output", "json"]).ok().json();
    assert_eq!((&report["valid"], &report["problems"][0]["severity"]), (&true.into(), &"warning".into()), "{report}");
}
