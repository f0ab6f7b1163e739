//! Outputs of a process reach its user as soon as they are made, not only at the end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, is_live, program, until};

use crate::delegation::{Gate, PATIENCE};

/// Makes a file with n lines for each number n. The last activity waits for a gate.
const PARTS: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Parts">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="list" NAME="lines"/>
    <BODY>
      <PARFOR NAME="all" TO="3" COLLECT="make.lines">
        <ITERATE><ACTIVITY TYPE="Make" NAME="make" n="${counter}" gate="${gate}"/></ITERATE>
      </PARFOR>
      <PROCESS TYPE="Inner" NAME="inner"/>
      <POST_CODE>lines = all.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Inner">
    <OUT_PARAMETER TYPE="string" NAME="word"/>
    <BODY><PRE_CODE>word = "done"</PRE_CODE></BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Make">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="file" NAME="table"/>
    <OUT_PARAMETER TYPE="int" NAME="lines" FROM="stdout-trimmed"/>
    <OUTPUT PARAMETER="table" PATTERN="table.txt"/>
    <CODE LANGUAGE="sh">
      if [ $n = 3 ]; then until test -e $gate; do sleep 0.1; done; fi
      seq $n > table.txt
      echo $n
    </CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

/// A command whose output is read line by line while it runs.
pub struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    pub fn start(address: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(arguments).args(["--coordinator", address, "--output", "json"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program exists");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    pub fn next(&self) -> Json {
        let line = self.lines.recv_timeout(Duration::from_secs(PATIENCE)).expect("there is one more line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Returns the last line and the exit code.
    pub fn end(mut self) -> (Json, Option<i32>) {
        let last = self.next();
        assert!(self.lines.recv_timeout(Duration::from_secs(PATIENCE)).is_err(), "there is one more line");
        (last, self.child.wait().expect("it has ended").code())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn outputs_arrive_while_the_last_activity_runs() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[3], &[]);
    let (file, gate) = (grid.write("parts.xml", PARTS), Gate::new(&mut grid));
    let process = grid.submit(&address, &file, &[&gate.parameter()]);
    let out = grid.folder().join("out");
    let folder = out.to_str().expect("it is UTF-8").to_owned();
    let stream = Lines::start(&address, &["results", &process, "--stream", "--download", &folder]);
    // Two activities and two iterations. Each activity comes before its iteration.
    let mut early: Vec<Json> = (0..4).map(|_| stream.next()).collect();
    early.sort_by_key(|line| line["path"].to_string());
    let path = |rest: &str| format!("{process}/all/{rest}");
    for (number, pair) in [1, 2].into_iter().zip(early.chunks(2)) {
        let (iteration, activity) = (&pair[0], &pair[1]);
        assert_eq!(iteration["path"], path(&format!("[{number}]")), "{early:?}");
        assert_eq!(activity["path"], path(&format!("[{number}]/make")), "{early:?}");
        let made = out.join(path(&format!("[{number}]/make"))).join("table/table.txt");
        assert_eq!(activity["results"], json!({ "lines": number, "table": made.to_str() }), "{activity}");
        assert_eq!(iteration["collected"], number, "{iteration}");
        let expected: String = (1..=number).map(|line| format!("{line}\n")).collect();
        assert_eq!(std::fs::read_to_string(made).expect("it was downloaded"), expected);
    }
    assert!(is_live(&grid.status(&address, &process)));
    assert!(!out.join(path("[3]/make")).exists());
    gate.open();
    let late: Vec<Json> = (0..3).map(|_| stream.next()).collect();
    assert_eq!(late[0]["path"], path("[3]/make"), "{late:?}");
    assert_eq!(late[2], json!({ "path": format!("{process}/inner"), "results": { "word": "done" } }), "{late:?}");
    let (last, code) = stream.end();
    assert_eq!(
        (&last["state"], &last["results"], code),
        (&"completed".into(), &json!({ "lines": [1, 2, 3] }), Some(0))
    );
    // After the end, the stream has only the end.
    let again = Lines::start(&address, &["results", &process, "--stream"]).end();
    assert_eq!((&again.0["results"], again.1), (&json!({ "lines": [1, 2, 3] }), Some(0)));
}

#[test]
fn submit_can_stream_outputs() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let (file, gate) = (grid.write("parts.xml", PARTS), Gate::new(&mut grid));
    let submit = Lines::start(&address, &["submit", &file, "-p", &gate.parameter(), "--wait", "--stream"]);
    let first = submit.next();
    assert!(first["path"].as_str().is_some_and(|path| path.ends_with("/all/[1]/make")), "{first}");
    assert_eq!((&first["results"]["lines"], first.get("missed")), (&1.into(), None), "{first}");
    gate.open();
    (0..6).for_each(|_| drop(submit.next()));
    let (last, code) = submit.end();
    assert_eq!((&last["results"]["lines"], code), (&json!([1, 2, 3]), Some(0)), "{last}");
}

/// Many outputs of 64 KiB, which the subscriber does not read for a while.
const MANY: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Many">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <BODY>
      <PARFOR NAME="all" TO="400">
        <ITERATE><ACTIVITY TYPE="Make" NAME="make" n="${counter}"/></ITERATE>
      </PARFOR>
      <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Make">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <OUT_PARAMETER TYPE="string" NAME="text"/>
    <CODE LANGUAGE="lua">text = string.rep("x", 65536)</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Wait">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <CODE LANGUAGE="sh">until test -e $gate; do sleep 0.1; done</CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

#[test]
fn a_slow_subscriber_delays_nothing_and_learns_how_much_it_missed() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let (file, gate) = (grid.write("many.xml", MANY), Gate::new(&mut grid));
    let process = grid.submit(&address, &file, &[&gate.parameter()]);
    let mut command = Command::new(program());
    command.args(["results", &process, "--stream", "--coordinator", &address, "--output", "json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program exists");
    let done = || (grid.status(&address, &process)["activities"]["completed"] == 400).then_some(());
    until("all activities have completed", PATIENCE, done);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().map(|line| line.expect("text").parse::<Json>().expect("it is JSON"));
    // The first line shows that the subscription has begun.
    let mut all: Vec<Json> = next().into_iter().collect();
    gate.open();
    all.extend(std::iter::from_fn(next));
    assert!(child.wait().expect("it has ended").success());
    let outputs = all.iter().filter(|line| line["path"].as_str().is_some_and(|path| path.ends_with("/make")));
    let missed: u64 = all.iter().filter_map(|line| line["missed"].as_u64()).sum();
    assert_eq!(outputs.count() as u64 + missed, 400, "each output is delivered or counted as missed");
    assert!(missed > 0, "the coordinator does not buffer 25 MB for a subscriber");
    assert_eq!(all.last().expect("the stream has an end")["state"], "completed");
}
