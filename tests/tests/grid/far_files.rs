//! Files that cross between groups: relayed by coordinators if workers cannot reach each other, made again if lost, and copied
//! to the group of the process if they are results.

use serde_json::Value as Json;
use xavantes_tests::{Grid, Networks, free_address, until};

use crate::delegation::{Gate, PATIENCE};
use crate::files::owners;
use crate::kit::{document, elements, group, tree};

/// Activity types that make and use files, each on a worker with its tag.
const TYPES: &str = r#"
  <ACTIVITY_TYPE NAME="Make">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <OUT_PARAMETER TYPE="file" NAME="table"/>
    <REQUIRES TAGS="maker"/>
    <OUTPUT PARAMETER="table" PATTERN="table"/>
    <CODE LANGUAGE="sh">seq $count > table</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Double">
    <IN_PARAMETER TYPE="file" NAME="table"/>
    <OUT_PARAMETER TYPE="directory" NAME="twice"/>
    <REQUIRES TAGS="user"/>
    <OUTPUT PARAMETER="twice" PATTERN="twice"/>
    <CODE LANGUAGE="sh">mkdir twice; cat $table $table > twice/table</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Count">
    <IN_PARAMETER TYPE="directory" NAME="twice"/>
    <OUT_PARAMETER TYPE="int" NAME="lines" FROM="stdout-json"/>
    <OUT_PARAMETER TYPE="directory" NAME="copy"/>
    <REQUIRES TAGS="counter"/>
    <OUTPUT PARAMETER="copy" PATTERN="copy"/>
    <CODE LANGUAGE="sh">cat $twice/table | wc -l; cp -r $twice copy</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Wait">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <REQUIRES TAGS="counter"/>
    <CODE LANGUAGE="sh">until test -e $gate; do sleep 0.1; done</CODE>
  </ACTIVITY_TYPE>"#;

/// Makes a file in one group, doubles it in another group, and counts its lines in the first.
const THERE_AND_BACK: &str = r#"
  <PROCESS_TYPE NAME="Main">
    <OUT_PARAMETER TYPE="int" NAME="lines"/>
    <OUT_PARAMETER TYPE="directory" NAME="copy"/>
    <BODY>
      <ACTIVITY TYPE="Make" NAME="make" count="1000"/>
      <PROCESS TYPE="There" NAME="there" DELEGATE="always" table="${make.table}"/>
      <ACTIVITY TYPE="Count" NAME="count" twice="${there.twice}"/>
      <POST_CODE>lines, copy = count.lines, count.copy</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="There">
    <IN_PARAMETER TYPE="file" NAME="table"/>
    <OUT_PARAMETER TYPE="directory" NAME="twice"/>
    <BODY>
      <ACTIVITY TYPE="Double" NAME="double" table="${table}"/>
      <POST_CODE>twice = double.twice</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

fn twice(count: u32) -> String {
    (1..=count).chain(1..=count).map(|number| format!("{number}\n")).collect()
}

#[test]
fn coordinators_relay_files_between_networks_whose_workers_cannot_reach_each_other() {
    let Some(networks) = Networks::make() else { return };
    let mut grid = Grid::new();
    let port = |address: String| address.rsplit(':').next().expect("it has a port").to_owned();
    let [here, there] = [0, 1].map(|side| format!("{}:{}", networks.host(side), port(free_address())));
    let roles = ["--roles", "group-manager,process-coordinator"];
    grid.enter_network(networks.name(1));
    grid.start("b/main", &there, &roles);
    grid.worker("b/w", &there, &["--tags", "user"]);
    grid.wait_for_nodes(&there, 2);
    grid.enter_network(networks.name(0));
    grid.start("a/main", &here, &[&roles[..], &["--adjacent", &there]].concat());
    grid.worker("a/w", &here, &["--tags", "maker,counter"]);
    grid.wait_for_nodes(&here, 2);
    wait_for_workers(&grid, &here);
    let file = grid.write("there.xml", &document(&format!("{THERE_AND_BACK}{TYPES}")));
    let process = grid.submit(&here, &file, &[]);
    let ended = grid.end(&here, &process);
    assert_eq!((&ended["state"], &ended["results"]["lines"]), (&"completed".into(), &2000.into()), "{ended}");
    let out = grid.folder().join("out");
    grid.cli(&here, &["results", &process, "--download", out.to_str().expect("it is UTF-8")]).ok();
    assert_eq!(std::fs::read_to_string(out.join("copy/copy/table")).expect("it was downloaded"), twice(1000));
}

/// A remote subprocess makes a file that is used after a gate opens: in the remote group or in the local one.
const LOSS: &str = r#"
  <PROCESS_TYPE NAME="Down">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="int" NAME="lines"/>
    <BODY>
      <ACTIVITY TYPE="Make" NAME="make" count="1000"/>
      <PROCESS TYPE="Use" NAME="use" DELEGATE="always" table="${make.table}" gate="${gate}"/>
      <POST_CODE>lines = use.lines</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Up">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="int" NAME="lines"/>
    <BODY>
      <PROCESS TYPE="MakeTwice" NAME="make" DELEGATE="always"/>
      <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
      <ACTIVITY TYPE="Count" NAME="count" twice="${make.twice}"/>
      <POST_CODE>lines = count.lines</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Use">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <IN_PARAMETER TYPE="file" NAME="table"/>
    <OUT_PARAMETER TYPE="int" NAME="lines"/>
    <BODY>
      <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
      <ACTIVITY TYPE="Double" NAME="double" table="${table}"/>
      <ACTIVITY TYPE="Count" NAME="count" twice="${double.twice}"/>
      <POST_CODE>lines = count.lines</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="MakeTwice">
    <OUT_PARAMETER TYPE="directory" NAME="twice"/>
    <BODY>
      <ACTIVITY TYPE="Make" NAME="make" count="500"/>
      <ACTIVITY TYPE="Double" NAME="double" table="${make.table}"/>
      <POST_CODE>twice = double.twice</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

/// Starts two groups that know each other. Returns their addresses.
fn groups(grid: &mut Grid) -> [String; 2] {
    let there = grid.group("b", &[], &[]);
    let here = grid.group("a", &[], &["--adjacent", &there]);
    [here, there]
}

/// Waits until the local group knows that the other one has free slots.
fn wait_for_workers(grid: &Grid, here: &str) {
    until("the groups know each other", PATIENCE, || group(grid, here, "b").filter(|it| it["free_slots"] != 0));
}

/// Submits a process of this type and waits until it is at its gate.
fn start_loss(grid: &mut Grid, here: &str, kind: &str) -> (String, Gate) {
    wait_for_workers(grid, here);
    let (file, gate) = (grid.write("loss.xml", &document(&format!("{LOSS}{TYPES}"))), Gate::new(grid));
    let started = grid.cli(here, &["submit", &file, "--process", kind, "-p", &gate.parameter()]).ok().json();
    let process = started["process"].as_str().expect("a process has an id").to_owned();
    until("the process is at the gate", PATIENCE, || {
        let shown = tree(grid, here, &process)?;
        elements(&shown).into_iter().any(|it| it["type"] == "Wait" && !it["worker"].is_null()).then_some(())
    });
    (process, gate)
}

#[test]
fn a_subtree_makes_lost_files_of_its_parent_again() {
    let mut grid = Grid::new();
    let [here, there] = groups(&mut grid);
    grid.worker("a/lost", &here, &["--tags", "maker"]);
    grid.worker("b/w", &there, &["--tags", "maker,user,counter"]);
    grid.wait_for_nodes(&here, 2);
    let (process, gate) = start_loss(&mut grid, &here, "Down");
    grid.kill("a/lost");
    gate.open();
    let ended = grid.end(&here, &process);
    assert_eq!((&ended["state"], &ended["results"]["lines"]), (&"completed".into(), &2000.into()), "{ended}");
}

#[test]
fn a_parent_makes_lost_files_of_its_subtree_again() {
    let mut grid = Grid::new();
    let [here, there] = groups(&mut grid);
    grid.worker("a/w", &here, &["--tags", "counter"]);
    grid.worker("b/lost", &there, &["--tags", "maker,user"]);
    grid.wait_for_nodes(&here, 2);
    let (process, gate) = start_loss(&mut grid, &here, "Up");
    grid.kill("b/lost");
    // The coordinator is killed, too. It has stored how the files were made.
    grid.restart("a/main");
    grid.worker("a/other", &here, &["--tags", "maker,user"]);
    gate.open();
    let ended = grid.end(&here, &process);
    assert_eq!((&ended["state"], &ended["results"]["lines"]), (&"completed".into(), &1000.into()), "{ended}");
    // The resource usage includes both groups.
    let shown = grid.cli(&here, &["show", &process]).ok().json();
    let took = |kind: &str| {
        let all = shown["took"].as_array().expect("there were programs");
        all.iter().find(|took| took["type"] == kind).cloned().unwrap_or(Json::Null)
    };
    for kind in ["Make", "Double", "Count", "Wait"] {
        assert_eq!(took(kind)["attempts"], 1, "{kind}: {shown}");
    }
    assert!(took("Double")["written_bytes"].as_u64() >= Some(3000), "{shown}");
}

/// A remote subprocess makes a file and then waits.
const FAR_RESULT: &str = r#"
  <PROCESS_TYPE NAME="Main">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="directory" NAME="twice"/>
    <BODY>
      <PROCESS TYPE="There" NAME="there" DELEGATE="always" gate="${gate}"/>
      <POST_CODE>twice = there.twice</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="There">
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="directory" NAME="twice"/>
    <BODY>
      <ACTIVITY TYPE="Make" NAME="make" count="100"/>
      <ACTIVITY TYPE="Double" NAME="double" table="${make.table}"/>
      <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
      <POST_CODE>twice = double.twice</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

#[test]
fn outputs_of_a_subtree_arrive_at_once_and_its_results_are_copied_home() {
    let mut grid = Grid::new();
    let [here, there] = groups(&mut grid);
    grid.worker("b/w", &there, &["--tags", "maker,user,counter"]);
    wait_for_workers(&grid, &here);
    let (file, gate) = (grid.write("far.xml", &document(&format!("{FAR_RESULT}{TYPES}"))), Gate::new(&mut grid));
    let process = grid.submit(&here, &file, &[&gate.parameter()]);
    let early = grid.folder().join("early");
    let stream = crate::streams::Lines::start(
        &here,
        &["results", &process, "--stream", "--download", early.to_str().expect("it is UTF-8")],
    );
    let mut paths = [stream.next(), stream.next()].map(|line| line["path"].as_str().unwrap_or_default().to_owned());
    paths.sort();
    assert_eq!(paths, ["double", "make"].map(|name| format!("{process}/there/{name}")));
    let table = early.join(format!("{process}/there/double/twice/twice/table"));
    assert_eq!(std::fs::read_to_string(table).expect("it was downloaded"), twice(100));
    gate.open();
    let whole = stream.next();
    assert_eq!(whole["path"], format!("{process}/there"), "{whole}");
    let (last, code) = stream.end();
    assert_eq!((&last["state"], code), (&"completed".into(), Some(0)), "{last}");
    until("the local group has pinned the result", PATIENCE, || (owners(&grid, "a/main") == 1).then_some(()));
    grid.kill("b/main");
    grid.kill("b/w");
    let out = grid.folder().join("out");
    grid.cli(&here, &["results", &process, "--download", out.to_str().expect("it is UTF-8")]).ok();
    assert_eq!(std::fs::read_to_string(out.join("twice/twice/table")).expect("it was downloaded"), twice(100));
    grid.cli(&here, &["forget", &process]).ok();
    until("nothing is pinned", PATIENCE, || (owners(&grid, "a/main") == 0).then_some(()));
}
