//! Outputs of activities can be read through any coordinator, while they run and afterwards.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::json;
use xavantes_tests::{Grid, program, until};

use crate::kit::{TestWorker, assert_tells, sh};

#[test]
fn output_is_stored_for_each_attempt() {
    let mut place = TestWorker::new(&[]);
    let process = place.submit_with(
        "RETRIES=\"1\"",
        &sh("echo out $XAVANTES_ATTEMPT; echo err $XAVANTES_ATTEMPT >&2; exit $((2 - XAVANTES_ATTEMPT))"),
    );
    assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
    let path = format!("{process}/work");
    let logs = |more: &[&str]| place.grid.cli(&place.address, &[&["logs", &path], more].concat());
    let last = logs(&[]).ok().json();
    assert_eq!(last, json!({"path": path, "attempt": 2, "node": "w", "stdout": "out 2\n", "stderr": "err 2\n"}));
    let first = logs(&["--attempt", "1", "--stderr"]).ok().json();
    assert_eq!(first, json!({"path": path, "attempt": 1, "node": "w", "stderr": "err 1\n"}));
    let shown = place.grid.cli(&place.address, &["show", &path]).ok().json();
    assert_eq!(shown["records"][0]["error"], "the sh code failed, exit status 1", "{shown}");
    assert_eq!(shown["records"][1].get("error"), None, "{shown}");
    let none = logs(&["--attempt", "3"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert_tells(&none.stderr, &["nothing is known of what attempt 3 of", "/work wrote: "]);
    let none = place.grid.cli(&place.address, &["logs", &process]);
    assert_tells(&none.stderr, &["is a PROCESS, which writes nothing itself: give the path of an activity in it"]);
    // As text, standard output and standard error are separate.
    let text = xavantes_tests::xavantes(&["logs", &path, "--coordinator", &place.address]);
    assert_eq!((text.code, &*text.stdout, &*text.stderr), (0, "out 2\n", "err 2\n"));
    // The output survives a restart of the worker.
    place.grid.restart("a/w");
    let again = until("the worker is back", 60, || {
        let again = place.grid.cli(&place.address, &["logs", &path, "--stdout"]);
        (again.code == 0).then(|| again.json())
    });
    assert_eq!(again["stdout"], "out 2\n");
}

#[test]
fn following_continues_with_the_next_attempt() {
    let mut place = TestWorker::new(&[]);
    let process = place.submit_with(
        "RETRIES=\"2\" RETRY_DELAY=\"1s\"",
        &sh("echo try $XAVANTES_ATTEMPT; [ $XAVANTES_ATTEMPT = 3 ] || exit 1"),
    );
    let followed = place.grid.cli(&place.address, &["logs", &format!("{process}/work"), "-f", "--stdout"]).ok().json();
    assert_eq!(followed["stdout"], "try 1\ntry 2\ntry 3\n", "{followed}");
}

#[test]
fn output_is_followed_while_it_is_written() {
    let mut place = TestWorker::new(&[]);
    let gate = place.sign("gate");
    let process = place.submit(&sh(&format!(
        "echo one; while [ ! -e {} ]; do sleep 0.05; done; echo two >&2; echo three",
        gate.display()
    )));
    let mut follower = Command::new(program())
        .args(["logs", &format!("{process}/work"), "-f", "--coordinator", &place.address])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program exists");
    let mut stdout = follower.stdout.take().expect("a pipe");
    let mut first = [0; 4];
    stdout.read_exact(&mut first).expect("output arrives at once");
    assert_eq!(&first, b"one\n");
    std::fs::write(&gate, "").expect("tests can write here");
    let (mut rest, mut errors) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).expect("text");
    follower.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
    assert_eq!((&*rest, &*errors), ("three\n", "two\n"));
    assert!(follower.wait().expect("it has ended").success());
    assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
}

#[test]
fn the_beginning_and_the_end_of_huge_output_are_stored() {
    let mut place = TestWorker::new(&["--log-mib", "1"]);
    let process = place.submit(&sh("echo first; seq 1 1000000; echo last"));
    assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
    let path = format!("{process}/work");
    let logs =
        |more: &[&str]| place.grid.cli(&place.address, &[&["logs", &path, "--stdout"], more].concat()).ok().json();
    let whole = logs(&[])["stdout"].as_str().expect("text").to_owned();
    assert!(whole.starts_with("first\n1\n2\n3\n") && whole.ends_with("\n1000000\nlast\n"));
    let left: usize = whole
        .split(" bytes are left out]")
        .next()
        .and_then(|it| it.rsplit('[').next()?.parse().ok())
        .expect("an error is reported");
    assert_eq!(left + (1 << 20), 6 + 6_888_896 + 5, "all bytes are counted");
    assert_eq!(logs(&["--tail", "2"])["stdout"], "1000000\nlast\n");
    let folder = place.grid.data("a/w").join("logs");
    let sizes =
        std::fs::read_dir(folder).expect("it is there").flatten().map(|it| it.metadata().map_or(0, |it| it.len()));
    assert!(sizes.max().expect("there is one") <= 1 << 20);
}

#[test]
fn output_of_lua_code_is_stored() {
    let mut place = TestWorker::new(&[]);
    let process = place.submit("<CODE LANGUAGE=\"lua\">print('a', 1) print('b')</CODE>");
    assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
    let logs = place.grid.cli(&place.address, &["logs", &format!("{process}/work")]).ok().json();
    assert_tells(logs["stdout"].as_str().expect("text"), &["a", "1\n", "b\n"]);
}

#[test]
fn output_of_another_group_is_read_through_the_local_coordinator() {
    let mut grid = Grid::new();
    let north = grid.group("north", &[1], &[]);
    let south = grid.group("south", &[1], &["--adjacent", &north]);
    until("the groups know each other", 60, || {
        let known = grid.cli(&north, &["groups"]);
        (known.code == 0 && known.json()["groups"].as_array().is_some_and(|groups| groups.len() == 2)).then_some(())
    });
    let document = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><BODY><BLOCK NAME="far" DELEGATE="always">
        <ACTIVITY TYPE="Work" NAME="work"/></BLOCK></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="Work"><CODE LANGUAGE="sh">echo from $XAVANTES_PATH</CODE></ACTIVITY_TYPE></XAVANTES>"#;
    let file = grid.write("far.xml", document);
    let process = grid.submit(&north, &file, &[]);
    assert_eq!(grid.end(&north, &process)["state"], "completed");
    let path = format!("{process}/far/work");
    let logs = grid.cli(&north, &["logs", &path]).ok().json();
    assert_eq!(logs["stdout"], format!("from {path}\n"), "{logs}");
    let _ = south;
}
