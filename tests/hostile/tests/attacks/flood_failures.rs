//! Failures with messages that fill a message of the protocol, or a screen.

use xavantes_proto::message_limits::MAX_FAILURE_BYTES;
use xavantes_tests::Grid;

/// Fails with a message of 12 MB in an activity, or of 1 MB in the code of the process itself.
const FAILS: &str = r#"<XAVANTES VERSION="1">
  <ACTIVITY_TYPE NAME="Fail"><CODE LANGUAGE="lua">error("begin " .. string.rep("x", 12000000) .. " end")</CODE></ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="AtWorker"><BODY><ACTIVITY NAME="fail" TYPE="Fail"/></BODY></PROCESS_TYPE>
  <PROCESS_TYPE NAME="Here"><BODY><PRE_CODE>error("begin " .. string.rep("x", 1000000) .. " end")</PRE_CODE></BODY></PROCESS_TYPE>
</XAVANTES>"#;

#[test]
fn processes_that_fail_with_giant_messages_stay_small() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let file = grid.write("fails.xml", FAILS);
    for name in ["AtWorker", "Here", "AtWorker"] {
        let submitted = grid.cli(&address, &["submit", &file, "--process", name]).ok().json();
        let process = submitted["process"].as_str().expect("a process has an id").to_owned();
        assert_eq!(grid.end(&address, &process)["state"], "failed");
        let shown = grid.cli(&address, &["show", &process]).ok().json();
        let message = shown["failure"]["message"].as_str().expect("a failure has a message");
        assert!(message.len() <= MAX_FAILURE_BYTES, "{} bytes", message.len());
        assert!(message.contains("begin ") && message.contains(" end"), "{message}");
        assert!(message.contains(" bytes left out]"), "{message}");
    }
    let list = grid.cli(&address, &["list"]).ok();
    assert!(list.stdout.len() < 100_000, "{} bytes", list.stdout.len());
}
