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

#[test]
fn a_type_is_imported_by_name_and_hash_and_stays_with_the_process() {
    let mut grid = Grid::new();
    let address = grid.group("g", &[1], &[]);
    let file = naps(&mut grid);
    let first = grid.submit(&address, &file, &["count=0", "time=0"]);
    assert_eq!(grid.end(&address, &first)["state"], "completed");
    let types = grid.cli(&address, &["types"]).ok().json();
    let nap = types["types"].as_array().into_iter().flatten().find(|it| it["name"] == "Nap").cloned();
    let hash = nap.expect("the type is listed")["hash"].as_str().expect("it has a hash").to_owned();
    assert_eq!(hash.len(), 64);
    let importing = |hash: &str| {
        format!(
            r#"<XAVANTES VERSION="1"><IMPORT TYPE="Nap" HASH="{hash}"/>
            <PROCESS_TYPE NAME="Importing"><BODY><ACTIVITY TYPE="Nap" NAME="nap" time="1"/></BODY></PROCESS_TYPE></XAVANTES>"#
        )
    };
    let wrong = grid.write("wrong.xml", &importing(&"0".repeat(64)));
    let refused = grid.cli(&address, &["submit", &wrong]);
    assert!(refused.code == 2 && refused.stderr.contains(&format!("with the hash {hash}")), "{refused:?}");
    let right = grid.write("importing.xml", &importing(&hash[..16]));

    // Without a grid, `validate` needs the other file.
    let alone = xavantes(&["validate", &right, "--output", "json"]);
    assert_eq!((alone.code, &alone.json()["problems"][0]["code"]), (2, &"unknown-import".into()), "{alone:?}");
    xavantes(&["validate", &right, &file]).ok();
    grid.cli(&address, &["validate", &right]).ok();

    let process = grid.submit(&address, &right, &[]);
    grid.cli(&address, &["forget", &first]).ok();
    grid.kill("g/main");
    grid.restart("g/main");
    let ended = grid.end(&address, &process);
    assert_eq!((&ended["state"], &ended["activities"]["completed"]), (&"completed".into(), &1.into()), "{ended}");
}

#[test]
fn failures_name_the_file_of_their_line() {
    let mut grid = Grid::new();
    let address = grid.group("g", &[1], &[]);
    let main = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Two"><BODY>
          <ACTIVITY TYPE="Bad" NAME="bad"/></BODY></PROCESS_TYPE></XAVANTES>"#;
    let types = r#"<XAVANTES VERSION="1">

          <ACTIVITY_TYPE NAME="Bad"><CODE LANGUAGE="lua">error("no luck")</CODE></ACTIVITY_TYPE></XAVANTES>"#;
    let (main, types) = (grid.write("main.xml", main), grid.write("types.xml", types));
    let process = grid.cli(&address, &["submit", &main, &types]).ok().json();
    let process = process["process"].as_str().expect("a process has an id");
    let file = types.rsplit('/').next().expect("a file has a name");
    let place = format!("/bad ({file}:3): no luck");
    let waited = grid.cli(&address, &["wait", process]);
    assert!(waited.code == 1 && waited.stderr.contains(&place), "{waited:?}");
    for command in ["show", "tree"] {
        let shown = grid.cli(&address, &[command, process]).ok().json();
        let failure = &shown["failure"];
        assert_eq!((&failure["file"], &failure["line"]), (&file.into(), &3.into()), "{command}: {shown}");
    }
    let logs = grid.cli(&address, &["logs", "--failed", process]).ok();
    assert!(logs.stdout.contains(file), "{logs:?}");
    assert!(grid.cli(&address, &["list", "--failed"]).ok().stdout.contains(&place));
}
