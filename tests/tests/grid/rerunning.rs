//! A rerun takes over what did not change, and says beforehand what will run. No type in here has `CACHE`.

use std::path::Path;

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, until};

use crate::delegation::delegated;
use crate::lines::ended;

/// Measures each item with a program that appends a line to a log, then adds the results up. Item 3 fails in the first
/// version of `Measure`. Items 3 and 99 wait for a gate.
const STUDY: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Study">
    <IN_PARAMETER TYPE="list" NAME="items"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <IN_PARAMETER TYPE="file" NAME="table" OPTIONAL="true"/>
    <OUT_PARAMETER TYPE="int" NAME="total"/>
    <BODY>
      <ACTIVITY TYPE="Prepare" NAME="prepare" log="${log}" table="${table}"/>
      <PARFOR NAME="all" EACH="${items}" COLLECT="measure.result" DELEGATE="never">
        <ITERATE>
          <ACTIVITY TYPE="Measure" NAME="measure" n="${item}" base="${prepare.base}" log="${log}"/>
          <ACTIVITY TYPE="Check" NAME="check" n="${measure.result}" log="${log}"/>
        </ITERATE>
      </PARFOR>
      <ACTIVITY TYPE="Sum" NAME="sum" numbers="${all.results}" log="${log}"/>
      <POST_CODE>total = sum.total</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Prepare">
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <IN_PARAMETER TYPE="file" NAME="table" OPTIONAL="true"/>
    <OUT_PARAMETER TYPE="file" NAME="base"/>
    <OUTPUT PARAMETER="base" PATTERN="base.txt"/>
    <CODE LANGUAGE="sh"><![CDATA[
      echo prepare >> $log
      if [ -n "${table-}" ]; then cat "$table" > base.txt; else echo 100 > base.txt; fi
    ]]></CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Measure">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="file" NAME="base"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <OUT_PARAMETER TYPE="int" NAME="result" FROM="stdout-trimmed"/>
    <CODE LANGUAGE="sh"><![CDATA[
      echo measure $n >> $log
      if [ $n = 3 ] || [ $n = 99 ]; then until test -e $log.gate; do sleep 0.1; done; fi
      if [ $n = 3 ]; then exit 7; fi
      echo $(($(cat $base) + n))
    ]]></CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Check">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <CODE LANGUAGE="sh">echo check $n &gt;&gt; $log</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Sum">
    <IN_PARAMETER TYPE="list" NAME="numbers"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <OUT_PARAMETER TYPE="int" NAME="total"/>
    <CODE LANGUAGE="lua">total = 0 for _, n in numbers do total += n end</CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

struct Study {
    file: String,
    log: String,
}

impl Study {
    fn new(grid: &mut Grid) -> Self {
        Self { file: grid.write("study.xml", STUDY), log: grid.write("log", "") }
    }

    fn submit(&self, grid: &Grid, address: &str, items: &str) -> String {
        grid.submit(address, &self.file, &[&format!("items={items}"), &format!("log={}", self.log)])
    }

    /// Corrects the type `Measure`, which fails for 3.
    fn corrected(&self, grid: &mut Grid) -> String {
        grid.write("corrected.xml", &STUDY.replace("if [ $n = 3 ]; then exit 7; fi", ""))
    }

    fn open_gate(&self) {
        std::fs::write(format!("{}.gate", self.log), "").expect("the gate can be opened");
    }

    /// The lines of the log since the last call, sorted.
    fn ran(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).expect("the log is there");
        std::fs::write(&self.log, "").expect("tests can write here");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

fn completed(grid: &Grid, address: &str, process: &str, count: u64) -> Option<()> {
    (grid.status(address, process)["activities"]["completed"] == count).then_some(())
}

fn plan(grid: &Grid, address: &str, arguments: &[&str]) -> Json {
    grid.cli(address, &[&["rerun", "--dry-run"], arguments].concat()).ok().json()
}

/// The numbers of a plan: taken over, will run, later.
fn numbers(plan: &Json) -> Json {
    json!([plan["taken_over"], plan["will_run"], plan["later"]])
}

fn rerun(grid: &Grid, address: &str, arguments: &[&str]) -> String {
    let started = grid.cli(address, &[&["rerun"], arguments].concat()).ok();
    assert!(started.stderr.contains("rerun of Study-"), "{started:?}");
    started.json()["process"].as_str().expect("a process has an id").to_owned()
}

/// The numbers of completed activities and of reused results.
fn counts(status: &Json) -> Json {
    json!([status["activities"]["completed"], status["activities"]["reused"]])
}

#[test]
fn a_corrected_type_runs_with_what_depends_on_it_also_after_a_restart() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let study = Study::new(&mut grid);
    let former = study.submit(&grid, &address, "[1,2,3]");
    until("two are completed", 60, || completed(&grid, &address, &former, 5));
    study.open_gate();
    assert_eq!(ended(&grid, &address, &former)["state"], "failed");
    study.ran();
    grid.kill("a/main");
    grid.restart("a/main");
    grid.wait_for_nodes(&address, 2);

    // The same definition: what failed runs, and what was cancelled.
    let same = plan(&grid, &address, &[&former]);
    let measured = same["types"].as_array().expect("there are types").iter().find(|it| it["type"] == "Measure");
    let measured = measured.expect("the type is there");
    let failed = measured["running"].as_array().expect("some run").iter().find(|it| it["path"] == "all/[3]/measure");
    assert_eq!(failed.expect("it runs")["reuse"]["reason"], "not-completed", "{same}");

    let corrected = study.corrected(&mut grid);
    let planned = plan(&grid, &address, &[&former, &corrected]);
    assert_eq!(numbers(&planned), json!([1, 3, 4]), "{planned}");
    assert_eq!(study.ran(), Vec::<String>::new(), "a dry run runs nothing");
    let listed = grid.cli(&address, &["list"]).ok().json();
    assert_eq!(listed["processes"].as_array().map(Vec::len), Some(1), "a dry run starts nothing");
    let again = rerun(&grid, &address, &[&former, &corrected]);
    let status = grid.end(&address, &again);
    assert_eq!((&status["results"]["total"], counts(&status)), (&json!(306), json!([8, 3])), "{status}");
    // `Check` has the same inputs as before for the items that were completed.
    assert_eq!(study.ran(), ["check 103", "measure 1", "measure 2", "measure 3"]);
    let told = grid.cli(&address, &["explain", &format!("{again}/prepare")]).ok().json();
    assert_eq!(told["reuse"]["earlier"], format!("{former}/prepare"), "{told}");
    let told = grid.cli(&address, &["explain", &format!("{again}/all/[1]/measure")]).ok().json();
    assert!(told["reuse"]["reason"] == "changed" && told["reuse"]["code"].is_string(), "{told}");

    // A rerun of the rerun takes over everything, also what that one took over.
    let third = rerun(&grid, &address, &[&again]);
    assert_eq!(counts(&grid.end(&address, &third)), json!([8, 8]));
    assert_eq!(study.ran(), Vec::<String>::new());
}

#[test]
fn only_new_points_of_a_sweep_run_and_files_count_by_content() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let study = Study::new(&mut grid);
    let former = study.submit(&grid, &address, "[1,2]");
    assert_eq!(ended(&grid, &address, &former)["state"], "completed");
    study.ran();
    let arguments = [&*former, "-p", "items=[2,1,5]"];
    let planned = plan(&grid, &address, &arguments);
    assert_eq!(numbers(&planned), json!([5, 1, 2]), "{planned}");
    let wider = rerun(&grid, &address, &arguments);
    let status = grid.end(&address, &wider);
    assert_eq!((&status["results"]["total"], counts(&status)), (&json!(308), json!([8, 5])), "{status}");
    assert_eq!(study.ran(), ["check 105", "measure 5"]);

    // The same name with another content: everything that depends on it runs.
    let table = grid.write("table.txt", "200\n");
    let upload = format!("table=@{table}");
    let with_table = rerun(&grid, &address, &[&wider, "-p", &upload]);
    assert_eq!(grid.end(&address, &with_table)["results"]["total"], 608);
    assert_eq!(study.ran().len(), 7);
    assert_eq!(numbers(&plan(&grid, &address, &[&with_table, "-p", &upload])), json!([8, 0, 0]));
    std::fs::write(&table, "300\n").expect("tests can write here");
    let planned = plan(&grid, &address, &[&with_table, "-p", &upload]);
    assert_eq!(numbers(&planned), json!([0, 1, 3]), "{planned}");
    let changes = &planned["types"][0]["running"][0]["reuse"]["changes"];
    assert_eq!(changes[0]["name"], "table", "{planned}");
    let other = rerun(&grid, &address, &[&with_table, "-p", &upload]);
    assert_eq!(grid.end(&address, &other)["results"]["total"], 908);
    assert_eq!(study.ran().len(), 7);
}

#[test]
fn a_cancelled_process_is_taken_over_and_a_rerun_survives_a_kill() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let study = Study::new(&mut grid);
    let former = study.submit(&grid, &address, "[1,2,99]");
    let log = Path::new(&study.log);
    let has = |line: &str| std::fs::read_to_string(log).is_ok_and(|text| text.lines().any(|it| it == line));
    until("two are measured and checked", 60, || {
        (has("check 101") && has("check 102") && has("measure 99")).then_some(())
    });
    let refused = grid.cli(&address, &["rerun", &former]);
    assert!(refused.code == 2 && refused.stderr.contains("has not ended"), "{refused:?}");
    until("two are completed", 60, || completed(&grid, &address, &former, 5));
    grid.cli(&address, &["cancel", &former]).ok();
    assert_eq!(ended(&grid, &address, &former)["state"], "cancelled");
    study.ran();
    let again = rerun(&grid, &address, &[&former]);
    until("it measures", 60, || has("measure 99").then_some(()));
    grid.kill("a/main");
    grid.restart("a/main");
    study.open_gate();
    let status = grid.end(&address, &again);
    assert_eq!((&status["state"], counts(&status)), (&json!("completed"), json!([8, 5])), "{status}");
    let mut ran = study.ran();
    ran.dedup();
    assert_eq!(ran, ["check 199", "measure 99"]);
    let refused = grid.cli(&address, &["rerun", "Study-none"]);
    assert!(refused.code == 2 && refused.stderr.contains("no process"), "{refused:?}");
    grid.cli(&address, &["forget", &former]).ok();
    assert_eq!(grid.cli(&address, &["rerun", &former]).code, 2);
}

#[test]
fn what_another_coordinator_ran_is_taken_over() {
    let mut grid = Grid::new();
    let a = grid.group("a", &[1], &[]);
    grid.group("b", &[2], &["--adjacent", &a]);
    let file = grid.write("study.xml", &STUDY.replace("DELEGATE=\"never\"", "DELEGATE=\"always\""));
    let study = Study { file, log: grid.write("log", "") };
    let parameters = ["items=[1,2,3]", &*format!("log={}", study.log)];
    let former = delegated(&grid, &a, &study.file, &parameters, "all");
    until("two are completed", 60, || completed(&grid, &a, &former, 5));
    grid.cli(&a, &["cancel", &former]).ok();
    assert_eq!(ended(&grid, &a, &former)["state"], "cancelled");
    study.ran();
    study.open_gate();
    let planned = plan(&grid, &a, &[&former]);
    assert_eq!(numbers(&planned), json!([5, 1, 2]), "{planned}");
    let corrected = study.corrected(&mut grid);
    let same = grid.write("same.xml", &std::fs::read_to_string(&study.file).expect("it is there"));
    assert_eq!(numbers(&plan(&grid, &a, &[&former, &same])), json!([5, 1, 2]));
    let again = rerun(&grid, &a, &[&former, &corrected, "-p", "items=[1,2]"]);
    assert_eq!(counts(&grid.end(&a, &again)), json!([6, 3]));
    assert_eq!(study.ran(), ["measure 1", "measure 2"]);
}
