//! Ended processes go on after a `retry`, also if their coordinator is killed before and after it.

use std::path::Path;

use xavantes_tests::Grid;

use crate::lines::ended;

/// Two loops of activities that append a line to a file. Iteration 3 of the second loop fails unless the gate is open.
const STAGES: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Stages">
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <IN_PARAMETER TYPE="int" NAME="count" DEFAULT="8"/>
    <OUT_PARAMETER TYPE="list" NAME="numbers"/>
    <BODY>
      <PARFOR NAME="first" TO="${count}" DELEGATE="WHERE">
        <ITERATE><ACTIVITY TYPE="Line" NAME="line" stage="first" n="${counter}" log="${log}"/></ITERATE>
      </PARFOR>
      <PARFOR NAME="second" TO="${count}" COLLECT="line.n" DELEGATE="WHERE">
        <ITERATE><ACTIVITY TYPE="Line" NAME="line" stage="second" n="${counter}" log="${log}"/></ITERATE>
      </PARFOR>
      <POST_CODE>numbers = second.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Line">
    <IN_PARAMETER TYPE="string" NAME="stage"/>
    <INOUT_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <CODE LANGUAGE="bash"><![CDATA[
      echo "$stage $n" >> "$log"
      if [ "$stage $n" = "second 3" ] && [ ! -e "$log.gate" ]; then sleep 0.5; exit 7; fi
    ]]></CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

fn count(log: &Path, line: &str) -> usize {
    std::fs::read_to_string(log).expect("the log is there").lines().filter(|it| *it == line).count()
}

#[test]
fn a_failed_process_goes_on_after_kills_and_repeats_nothing_that_completed() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2, 2], &[]);
    let (file, log) = (grid.write("stages.xml", &STAGES.replace("WHERE", "never")), grid.write("log", ""));
    let process = grid.submit(&address, &file, &[&format!("log={log}")]);
    let log = Path::new(&log);
    assert_eq!(ended(&grid, &address, &process)["state"], "failed");
    grid.kill("a/main");
    grid.restart("a/main");
    let before = count(log, "second 3");

    let refused = grid.cli(&address, &["retry", &format!("{process}/first")]);
    assert!(refused.code == 2 && refused.stderr.contains("did not fail"), "{refused:?}");
    assert_eq!(grid.cli(&address, &["resume", &process]).code, 2);
    // The second time the process fails again, the third time it completes.
    grid.cli(&address, &["retry", &process]).ok();
    assert_eq!(grid.cli(&address, &["wait", &process]).code, 1);
    assert!(count(log, "second 3") > before);
    std::fs::write(format!("{}.gate", log.display()), "").expect("the gate can be opened");
    grid.cli(&address, &["retry", &format!("{process}/second/[3]/line")]).ok();
    grid.kill("a/main");
    grid.restart("a/main");
    let end = grid.cli(&address, &["wait", &process]);
    assert_eq!(end.code, 0, "{end:?}");
    let results = grid.cli(&address, &["results", &process]).ok().json();
    assert_eq!(results["results"]["numbers"], serde_json::json!([1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(results["activities"]["completed"], 16);
    for n in 1..=8 {
        assert_eq!(count(log, &format!("first {n}")), 1, "completed activities are not repeated");
    }
    let refused = grid.cli(&address, &["retry", &process]);
    assert!(refused.code == 2 && refused.stderr.contains("completed: there is nothing to retry"), "{refused:?}");
}

#[test]
fn a_cancelled_process_goes_on_with_delegated_parts() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    grid.group("b", &[2], &["--adjacent", &a]);
    let (file, log) = (grid.write("stages.xml", &STAGES.replace("WHERE", "always")), grid.write("log", ""));
    let process = grid.submit(&a, &file, &[&format!("log={log}"), "count=4"]);
    assert_eq!(ended(&grid, &a, &process)["state"], "failed");
    std::fs::write(format!("{log}.gate"), "").expect("the gate can be opened");
    grid.cli(&a, &["retry", &process]).ok();
    assert_eq!(ended(&grid, &a, &process)["state"], "completed");
    let log = Path::new(&log);
    for n in 1..=4 {
        assert_eq!(count(log, &format!("first {n}")), 1, "the first loop completed");
    }
}

#[test]
fn the_definition_and_the_parameters_of_an_ended_process_can_be_read() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let secret = r#"<IN_PARAMETER TYPE="string" NAME="token" SECRET="true"/><OUT_PARAMETER"#;
    let text = STAGES.replace("WHERE", "never").replacen("<OUT_PARAMETER", secret, 1);
    let (file, log) = (grid.write("stages.xml", &text), grid.write("log", ""));
    let process = grid.submit(&address, &file, &[&format!("log={log}"), "token=t0ken"]);
    ended(&grid, &address, &process);
    let shown = grid.cli(&address, &["show", &process, "--definition"]).ok().json();
    assert_eq!((&shown["process_type"], &shown["documents"][0]["text"]), (&"Stages".into(), &text.into()));
    assert!(shown["documents"][0]["name"].as_str().is_some_and(|name| name.ends_with("stages.xml")), "{shown}");
    let shown = grid.cli(&address, &["show", &process, "--parameters"]).ok().json();
    assert_eq!(shown["parameters"], serde_json::json!({"log": log, "count": 8, "token": "(hidden)"}));
    let refused = grid.cli(&address, &["show", "Stages-none", "--definition"]);
    assert!(refused.code == 2 && refused.stderr.contains("there is no process"), "{refused:?}");
}
