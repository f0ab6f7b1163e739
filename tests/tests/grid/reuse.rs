//! Cached results are reused unless anything differs, and `explain` says why or why not.

use serde_json::{Value as Json, json};
use xavantes_tests::{Grid, until};

use crate::delegation::{Gate, PATIENCE};

/// Squares numbers with a program that appends a line to a log at each run, and waits for a gate if it has one.
const SWEEP: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Sweep">
    <IN_PARAMETER TYPE="list" NAME="numbers"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <OUT_PARAMETER TYPE="list" NAME="squares"/>
    <BODY>
      <PARFOR NAME="all" EACH="${numbers}" COLLECT="square.square" DELEGATE="auto">
        <ITERATE><ACTIVITY TYPE="Square" NAME="square" n="${item}" log="${log}"/></ITERATE>
      </PARFOR>
      <POST_CODE>squares = all.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Square" CACHE="true">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <OUT_PARAMETER TYPE="int" NAME="square" FROM="stdout-trimmed"/>
    <CODE LANGUAGE="sh">
      echo $n >> $log
      if [ $n = 99 ]; then until test -e $log.gate; do sleep 0.1; done; fi
      echo $((n * n))
    </CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

struct Sweep {
    file: String,
    log: String,
}

impl Sweep {
    fn new(grid: &mut Grid) -> Self {
        Self { file: grid.write("sweep.xml", SWEEP), log: grid.write("log", "") }
    }

    fn submit(&self, grid: &Grid, address: &str, numbers: &str, flags: &[&str]) -> String {
        let (numbers, log) = (format!("numbers={numbers}"), format!("log={}", self.log));
        let arguments = [&["submit", &self.file, "-p", &numbers, "-p", &log], flags].concat();
        grid.cli(address, &arguments).ok().json()["process"].as_str().expect("a process has an id").to_owned()
    }

    /// Runs the process to its end. Returns its id.
    fn run(&self, grid: &Grid, address: &str, numbers: &str, flags: &[&str], expected: Json) -> String {
        let process = self.submit(grid, address, numbers, flags);
        let ended = grid.end(address, &process);
        assert_eq!(ended["state"], "completed", "{ended}");
        assert_eq!(counts(&ended), expected, "{ended}");
        let numbers: Vec<i64> = serde_json::from_str(numbers).expect("they are numbers");
        assert_eq!(ended["results"]["squares"], json!(numbers.iter().map(|n| n * n).collect::<Vec<_>>()), "{ended}");
        process
    }

    /// The number of runs of the program.
    fn runs(&self) -> usize {
        std::fs::read_to_string(&self.log).expect("it is there").lines().count()
    }
}

/// The numbers of completed activities, of reused results and of attempts.
fn counts(status: &Json) -> Json {
    let counts = &status["activities"];
    json!([counts["completed"], counts["reused"], counts["attempts"]])
}

fn explain(grid: &Grid, address: &str, path: &str) -> Json {
    grid.cli(address, &["explain", path]).ok().json()["reuse"].clone()
}

fn reason(grid: &Grid, address: &str, path: &str) -> String {
    explain(grid, address, path)["reason"].as_str().expect("there is one").to_owned()
}

#[test]
fn results_are_reused_by_later_processes_and_after_a_kill() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let sweep = Sweep::new(&mut grid);
    let alone = sweep.run(&grid, &address, "[1]", &[], json!([1, 0, 1]));
    assert_eq!((sweep.runs(), reason(&grid, &address, &format!("{alone}/all/[1]/square")).as_str()), (1, "first"));
    let first = sweep.run(&grid, &address, "[1,2,3]", &[], json!([3, 1, 2]));
    let second = sweep.run(&grid, &address, "[1,2,3]", &[], json!([3, 3, 0]));
    assert_eq!(sweep.runs(), 3, "all results are reused");
    let told = explain(&grid, &address, &format!("{second}/all/[2]/square"));
    assert_eq!(
        (&told["reused"], &told["earlier"]),
        (&true.into(), &format!("{first}/all/[2]/square").into()),
        "{told}"
    );
    let shown = grid.cli(&address, &["show", &format!("{second}/all/[2]/square")]).ok().json();
    assert_eq!(
        (&shown["state"], &shown["reused"], &shown["type"]),
        (&"completed".into(), &true.into(), &"Square".into()),
        "{shown}"
    );
    grid.restart("a/main");
    grid.wait_for_nodes(&address, 2);
    assert_eq!(counts(&grid.status(&address, &second)), json!([3, 3, 0]));
    let third = sweep.run(&grid, &address, "[1,2,4]", &[], json!([3, 2, 1]));
    let told = explain(&grid, &address, &format!("{third}/all/[3]/square"));
    assert_eq!(told["reason"], "changed", "{told}");
    assert_eq!(told["changes"], json!([{ "name": "n", "before": "3", "after": "4" }]), "{told}");
    assert!(
        told["code"].is_null() && told["earlier"].as_str().is_some_and(|it| it.ends_with("/all/[3]/square")),
        "{told}"
    );
    // Only the code counts, not the attributes of the activity type.
    let changed = SWEEP.replace("$((n * n))", "$((n * n * 1))").replace("CACHE", "RETRIES=\"2\" CACHE");
    std::fs::write(&sweep.file, changed).expect("tests can write here");
    let fourth = sweep.run(&grid, &address, "[1,2]", &[], json!([2, 0, 2]));
    let told = explain(&grid, &address, &format!("{fourth}/all/[2]/square"));
    assert_eq!(told["reason"], "changed", "{told}");
    assert!(told["changes"].is_null() && told["code"].is_string() && told["code"] != told["code_before"], "{told}");
    std::fs::write(&sweep.file, SWEEP.replace("CACHE", "RETRIES=\"2\" CACHE")).expect("tests can write here");
    sweep.run(&grid, &address, "[1,2,3,4]", &[], json!([4, 4, 0]));
    let unwanted = sweep.run(&grid, &address, "[1,2]", &["--no-reuse"], json!([2, 0, 2]));
    assert_eq!(reason(&grid, &address, &format!("{unwanted}/all/[1]/square")), "not-wanted");
    grid.cli(&address, &["forget", "--reusable"]).ok();
    let last = sweep.run(&grid, &address, "[2]", &[], json!([1, 0, 1]));
    assert_eq!(reason(&grid, &address, &format!("{last}/all/[1]/square")), "first");
    assert_eq!(
        reason(&grid, &address, &format!("{third}/all/[3]/square")),
        "unknown",
        "the cached results were forgotten"
    );
    // The text for people.
    let path = format!("{last}/all/[1]/square");
    let text = xavantes_tests::xavantes(&["explain", &path, "--coordinator", &address]).ok().stdout;
    assert!(text.contains("reused     no\nwhy        no earlier activity of the type Square is known"), "{text}");
    let wrong = grid.cli(&address, &["explain", "Nobody-1/a"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("there is no process"), "{wrong:?}");
    let controller = grid.cli(&address, &["explain", &format!("{last}/all")]).ok().json();
    assert_eq!((&controller["state"], &controller["reuse"]), (&"completed".into(), &json!(null)));
    let wrong = grid.cli(&address, &["explain", &format!("{last}/none")]);
    assert!(wrong.code == 2 && wrong.stderr.contains("is no activity"), "{wrong:?}");
}

#[test]
fn a_killed_coordinator_counts_reused_results_as_before() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let sweep = Sweep::new(&mut grid);
    sweep.run(&grid, &address, "[1,2]", &[], json!([2, 0, 2]));
    let process = sweep.submit(&grid, &address, "[1,99,2,99]", &[]);
    let all = || (counts(&grid.status(&address, &process)) == json!([2, 2, 2])).then_some(());
    until("two are reused and two run", PATIENCE, all);
    until("both activities have begun", PATIENCE, || (sweep.runs() == 4).then_some(()));
    assert_eq!(reason(&grid, &address, &format!("{process}/all/[2]/square")), "changed", "it runs");
    grid.restart("a/main");
    until("the process continues", PATIENCE, || {
        (counts(&grid.status(&address, &process)) == json!([2, 2, 2])).then_some(())
    });
    std::fs::write(format!("{}.gate", sweep.log), "").expect("tests can write here");
    let ended = grid.end(&address, &process);
    assert_eq!((&ended["state"], counts(&ended)), (&"completed".into(), json!([4, 2, 2])), "{ended}");
    assert_eq!(sweep.runs(), 4, "the running activities continued");
    sweep.run(&grid, &address, "[99,1]", &[], json!([2, 2, 0]));
}

const FILES: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Files">
    <IN_PARAMETER TYPE="file" NAME="data"/>
    <OUT_PARAMETER TYPE="directory" NAME="sorted"/>
    <OUT_PARAMETER TYPE="int" NAME="lines"/>
    <BODY>
      <ACTIVITY TYPE="Sort" NAME="sort" data="${data}"/>
      <ACTIVITY TYPE="Count" NAME="count" table="${sort.sorted}"/>
      <POST_CODE>sorted, lines = sort.sorted, count.lines</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Sort" CACHE="true">
    <IN_PARAMETER TYPE="file" NAME="data"/>
    <OUT_PARAMETER TYPE="directory" NAME="sorted"/>
    <REQUIRES TAGS="maker"/>
    <OUTPUT PARAMETER="sorted" PATTERN="table"/>
    <CODE LANGUAGE="sh">mkdir table; sort $data > table/rows</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Count">
    <IN_PARAMETER TYPE="directory" NAME="table"/>
    <OUT_PARAMETER TYPE="int" NAME="lines" FROM="stdout-trimmed"/>
    <REQUIRES TAGS="maker"/>
    <CODE LANGUAGE="sh">wc -l &lt; $table/rows</CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

#[test]
fn files_are_reused_as_long_as_a_node_has_them() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    grid.worker("a/lost", &address, &["--slots", "1", "--tags", "maker"]);
    grid.wait_for_nodes(&address, 2);
    let (file, data) = (grid.write("files.xml", FILES), grid.write("data.txt", "b\na\nc\n"));
    let run = |grid: &Grid, expected: Json| {
        let process = grid.submit(&address, &file, &[&format!("data=@{data}")]);
        let ended = grid.end(&address, &process);
        assert_eq!((&ended["state"], counts(&ended)), (&"completed".into(), expected), "{ended}");
        process
    };
    let first = run(&grid, json!([2, 0, 2]));
    let second = run(&grid, json!([2, 1, 1]));
    assert_eq!(explain(&grid, &address, &format!("{second}/sort"))["earlier"], format!("{first}/sort"));
    assert_eq!(reason(&grid, &address, &format!("{second}/count")), "not-asked");
    // The files stay for the process that reuses them, even if the process that made them is forgotten.
    grid.cli(&address, &["forget", &first]).ok();
    let pins = || std::fs::read_dir(grid.data("a/lost").join("files/pins")).map_or(0, Iterator::count);
    until("only the second process has pinned them", PATIENCE, || (pins() == 1).then_some(()));
    std::fs::write(&data, "b\na\nd\n").expect("tests can write here");
    let third = run(&grid, json!([2, 0, 2]));
    let told = explain(&grid, &address, &format!("{third}/sort"));
    let change = &told["changes"][0];
    assert_eq!((&told["reason"], &change["name"]), (&"changed".into(), &"data".into()), "{told}");
    assert!(
        change["before"] != change["after"] && change["after"].as_str().is_some_and(|it| it.contains("data.txt")),
        "{told}"
    );
    grid.kill("a/lost");
    grid.worker("a/other", &address, &["--slots", "1", "--tags", "maker"]);
    let fourth = run(&grid, json!([2, 0, 2]));
    let told = explain(&grid, &address, &format!("{fourth}/sort"));
    assert_eq!((&told["reason"], &told["earlier"]), (&"files-gone".into(), &format!("{third}/sort").into()), "{told}");
    assert!(told["detail"].as_str().is_some_and(|it| it.starts_with("table (")), "{told}");
    let fifth = run(&grid, json!([2, 1, 1]));
    let out = grid.folder().join("out");
    grid.cli(&address, &["results", &fifth, "--download", out.to_str().expect("it is UTF-8")]).ok();
    assert_eq!(std::fs::read_to_string(out.join("sorted/table/rows")).expect("it was downloaded"), "a\nb\nd\n");
}

const OUTSIDE: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Outside">
    <IN_PARAMETER TYPE="file" NAME="data"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <BODY>
      <ACTIVITY TYPE="Try" NAME="try" gate="${gate}" ON_FAILURE="continue"/>
      <ACTIVITY TYPE="Read" NAME="read" data="${data}"/>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Try" CACHE="true">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <CODE LANGUAGE="sh">test -e $gate</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Read" CACHE="true">
    <IN_PARAMETER TYPE="file" NAME="data"/>
    <OUT_PARAMETER TYPE="string" NAME="text" FROM="stdout"/>
    <CODE LANGUAGE="sh">cat $data</CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

#[test]
fn failures_are_not_cached_and_the_content_of_sources_is_unknown() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let file = grid.write("outside.xml", OUTSIDE);
    let root = grid.folder().join("root");
    std::fs::create_dir_all(&root).expect("tests can write here");
    std::fs::write(root.join("in.txt"), "from outside").expect("tests can write here");
    grid.cli(&address, &["sources", "add", "here", root.to_str().expect("it is UTF-8")]).ok();
    let gate = Gate::new(&mut grid);
    let run = || {
        let process = grid.submit(&address, &file, &["data=source://here/in.txt", &gate.parameter()]);
        let ended = grid.end(&address, &process);
        assert_eq!(ended["state"], "completed", "{ended}");
        process
    };
    let first = run();
    assert_eq!(reason(&grid, &address, &format!("{first}/try")), "first");
    gate.open();
    let second = run();
    let told = explain(&grid, &address, &format!("{second}/try"));
    assert_eq!((&told["reason"], &told["earlier"]), (&"failed".into(), &format!("{first}/try").into()), "{told}");
    let third = run();
    assert_eq!(explain(&grid, &address, &format!("{third}/try"))["earlier"], format!("{second}/try"));
    for process in [&first, &third] {
        let told = explain(&grid, &address, &format!("{process}/read"));
        assert_eq!(told["reason"], "undecided", "{told}");
        assert!(told["detail"].as_str().is_some_and(|it| it.contains("source://here/in.txt")), "{told}");
    }
}

#[test]
fn a_subtree_in_another_group_uses_the_cache_of_that_group() {
    let mut grid = Grid::new();
    let north = grid.group("north", &[1], &[]);
    grid.group("south", &[1], &["--adjacent", &north]);
    until("the groups know each other", PATIENCE, || crate::kit::group(&grid, &north, "south"));
    let mut sweep = Sweep::new(&mut grid);
    sweep.file = grid.write("sweep.xml", &SWEEP.replace("DELEGATE=\"auto\"", "DELEGATE=\"always\""));
    let first = sweep.run(&grid, &north, "[1,2]", &[], json!([2, 0, 2]));
    let second = sweep.run(&grid, &north, "[1,2,3]", &[], json!([3, 2, 1]));
    let path = format!("{second}/all/[2]/square");
    let told = explain(&grid, &north, &path);
    assert_eq!(told["earlier"], format!("{first}/all/[2]/square"), "the coordinator that ran it is asked: {told}");
    let third = sweep.run(&grid, &north, "[1,2,3]", &["--no-reuse"], json!([3, 0, 3]));
    assert_eq!(reason(&grid, &north, &format!("{third}/all/[2]/square")), "not-wanted");
    assert_eq!(sweep.runs(), 6);
}

#[test]
fn coordinators_that_share_a_repository_share_results() {
    let Some(server) = xavantes_repository::testing::Postgres::start() else { return };
    let mut grid = Grid::new();
    let [one, two] = crate::shared::two_coordinators(&mut grid, &server);
    let sweep = Sweep::new(&mut grid);
    let first = sweep.run(&grid, &one, "[1,2]", &[], json!([2, 0, 2]));
    let second = sweep.run(&grid, &two, "[2,1]", &[], json!([2, 2, 0]));
    let told = explain(&grid, &one, &format!("{second}/all/[1]/square"));
    assert_eq!(told["earlier"], format!("{first}/all/[2]/square"), "{told}");
    grid.cli(&one, &["forget", "--reusable"]).ok();
    sweep.run(&grid, &two, "[2,1]", &[], json!([2, 0, 2]));
}

const LARGE: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Large">
    <IN_PARAMETER TYPE="int" NAME="size"/>
    <BODY><ACTIVITY TYPE="Fill" NAME="fill" size="${size}"/></BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Fill" CACHE="true">
    <IN_PARAMETER TYPE="int" NAME="size"/>
    <OUT_PARAMETER TYPE="string" NAME="text"/>
    <CODE LANGUAGE="lua">text = string.rep("x", size)</CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

#[test]
fn too_large_results_are_not_cached_and_old_ones_are_evicted() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &["--reuse-mib", "1"]);
    let file = grid.write("large.xml", LARGE);
    let run = |size: u32| {
        let process = grid.submit(&address, &file, &[&format!("size={size}")]);
        let ended = grid.end(&address, &process);
        assert_eq!(ended["state"], "completed", "{ended}");
        explain(&grid, &address, &format!("{process}/fill"))
    };
    assert_eq!(run(5_000_000)["reason"], "first");
    let told = run(5_000_000);
    assert_eq!(told["reason"], "too-large", "{told}");
    assert!(told["detail"].as_str().is_some_and(|it| it.starts_with("50000")), "{told}");
    for size in [400_001, 400_002, 400_003] {
        assert_eq!(run(size)["reason"], "changed");
    }
    assert_eq!(run(400_003)["reason"], "reused");
    // The eviction runs in the background.
    until("the oldest result is evicted", PATIENCE, || (run(400_001)["reason"] == "removed").then_some(()));
    assert_eq!(run(400_001)["reason"], "reused", "it was cached again");
}
