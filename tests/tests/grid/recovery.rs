//! Nodes are killed in the middle of processes and restart: nothing is lost, and nothing is repeated without need.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_tests::{Grid, Running, free_address, is_live, stays, until, xavantes};

use crate::kit::{group, tree};
use crate::lines::{LONG, Lines, ended, wait_for_delegation};

#[test]
fn a_killed_coordinator_continues_and_no_activity_is_executed_twice() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2, 2], &[]);
    let lines = Lines::new(&mut grid, 200, 120);
    let process = lines.submit(&grid, &address);
    // The first kill is in the middle of the work, the second when all slots wait at the gate. After a restart others may begin
    // before attempts whose worker is not known yet.
    lines.wait_for(30);
    grid.kill("a/main");
    grid.restart("a/main");
    lines.wait_for_gate(4);
    grid.kill("a/main");
    // The activities end while no coordinator runs.
    lines.open_gate();
    grid.restart("a/main");
    lines.assert_end(&grid, &address, &process, 0);
}

/// Activities that append their number to a log. Number 40 ends when the gate is there, so those behind it wait at the worker.
const GATED: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Gated">
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <BODY>
      <PARFOR NAME="all" TO="80"><ITERATE><ACTIVITY TYPE="Step" NAME="step" n="${counter}" log="${log}"/></ITERATE></PARFOR>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Step">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <IN_PARAMETER TYPE="string" NAME="log"/>
    <CODE LANGUAGE="command">
      <ARG>sh</ARG><ARG>-c</ARG><ARG>echo "$0" >> "$1"; while [ "$0" = 40 ] &amp;&amp; [ ! -e "$1.gate" ]; do sleep 0.05; done</ARG>
      <ARG>${n}</ARG><ARG>${log}</ARG>
    </CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

#[test]
fn a_worker_starts_what_is_queued_while_its_coordinator_is_away() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    grid.worker("a/worker", &address, &["--slots", "1", "--queue", "8"]);
    grid.wait_for_nodes(&address, 2);
    let (file, log) = (grid.write("gated.xml", GATED), grid.write("log", ""));
    let lines = || std::fs::read_to_string(&log).expect("the log is there").lines().count();
    let process = grid.submit(&address, &file, &[&format!("log={log}")]);
    until("activities are queued behind the one at the gate", 60, || {
        let worker = grid.nodes(&address).into_iter().find(|node| node["node"] == "worker")?;
        (lines() >= 40 && worker["queued"].as_u64() >= Some(2)).then_some(())
    });
    let before = lines();
    grid.kill("a/main");
    std::fs::write(format!("{log}.gate"), "").expect("the gate can be opened");
    until("the queued activities begin", 60, || (lines() >= before + 2).then_some(()));
    grid.restart("a/main");
    let ended = grid.end(&address, &process);
    assert_eq!(ended["activities"]["completed"], 80, "{ended}");
    assert_eq!(lines(), 80, "no activity began twice");
}

#[test]
fn only_the_running_activities_of_a_killed_worker_are_repeated() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2, 2], &[]);
    let lines = Lines::new(&mut grid, 20, 8);
    let process = lines.submit(&grid, &address);
    lines.wait_for(12);
    grid.kill("a/w1");
    grid.restart("a/w1");
    lines.wait_for(14);
    lines.open_gate();
    lines.assert_end(&grid, &address, &process, 2);
}

/// The total size of the files in a folder.
fn size(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(|it| it.is_file()).map(|it| it.len()).sum()
}

#[test]
fn finished_activities_of_a_killed_worker_are_not_executed_again() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1, 1], &[]);
    let lines = Lines::new(&mut grid, 2, 0);
    let process = lines.submit(&grid, &address);
    lines.wait_for(2);
    // A frozen coordinator acknowledges no answer.
    grid.freeze("a/main");
    let folders = ["a/w1", "a/w2"].map(|worker| grid.data(worker).join("answers"));
    let before = folders.each_ref().map(|folder| size(folder));
    lines.open_gate();
    for (folder, before) in folders.iter().zip(before) {
        until("the answer is stored", LONG, || (size(folder) > before).then_some(()));
    }
    for worker in ["a/w1", "a/w2"] {
        grid.kill(worker);
        grid.restart(worker);
    }
    grid.thaw("a/main");
    lines.assert_end(&grid, &address, &process, 0);
}

fn submit(address: &str, lines: &Lines, request: &str) -> String {
    let text = std::fs::read_to_string(&lines.document).expect("it is there");
    let parameters = lines.parameters().into_iter().map(|parameter| {
        let (name, value) = parameter.split_once('=').expect("it has a value");
        let value = match value.parse::<i64>() {
            Ok(number) => v1::value::Kind::Int(number),
            Err(_) => v1::value::Kind::Text(value.into()),
        };
        v1::Parameter { name: name.into(), value: Some(v1::Value { kind: Some(value) }) }
    });
    let request = v1::SubmitRequest {
        documents: vec![v1::Document { name: "lines.xml".into(), text }],
        parameters: parameters.collect(),
        request_id: request.into(),
        ..v1::SubmitRequest::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("threads are available");
    runtime.block_on(async {
        let client = ProcessCoordinatorClient::connect(format!("http://{address}")).await;
        client.expect("it is there").submit(request).await.expect("it starts").into_inner().process
    })
}

#[test]
fn a_submitted_process_survives_a_kill_and_is_not_started_twice() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let lines = Lines::new(&mut grid, 10, 10);
    let process = submit(&address, &lines, "the request");
    grid.kill("a/main");
    grid.restart("a/main");
    assert_eq!(submit(&address, &lines, "the request"), process);
    lines.assert_end(&grid, &address, &process, 0);
    assert_eq!(submit(&address, &lines, "the request"), process);
    let list = grid.cli(&address, &["list"]).ok().json();
    assert_eq!(list["processes"].as_array().map(Vec::len), Some(1), "{list}");
}

#[test]
fn nothing_starts_in_a_paused_process() {
    pause_a_process(|_| {});
}

#[test]
fn a_paused_process_is_still_paused_after_a_kill() {
    pause_a_process(|grid| {
        grid.kill("a/main");
        grid.restart("a/main");
    });
}

/// Pauses a process with activities that run, and others that wait for a worker.
fn pause_a_process(meanwhile: impl Fn(&mut Grid)) {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let lines = Lines::new(&mut grid, 8, 0);
    let process = lines.submit(&grid, &address);
    lines.wait_for(2);
    until("others wait for a worker", LONG, || {
        (grid.status(&address, &process)["activities"]["waiting"] != 0).then_some(())
    });
    grid.cli(&address, &["pause", &process]).ok();
    meanwhile(&mut grid);
    assert_eq!(grid.status(&address, &process)["state"], "paused");
    lines.open_gate();
    until("the running activities have ended", LONG, || {
        (grid.status(&address, &process)["activities"]["completed"] == 2).then_some(())
    });
    stays("nothing starts in a paused process", 1500, || lines.executed().len() == 2);
    grid.cli(&address, &["resume", &process]).ok();
    lines.assert_end(&grid, &address, &process, 0);
}

#[test]
fn a_cancelled_process_ends_as_cancelled_after_a_kill() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let lines = Lines::new(&mut grid, 8, 0);
    let process = lines.submit(&grid, &address);
    lines.wait_for(2);
    grid.cli(&address, &["cancel", &process]).ok();
    grid.kill("a/main");
    grid.restart("a/main");
    assert_eq!(ended(&grid, &address, &process)["state"], "cancelled");
    assert_eq!(lines.executed().len(), 2);
}

/// Starts groups a and b with these slots. Group a delegates to b.
fn two_groups(grid: &mut Grid, slots: [&[u32]; 2]) -> [String; 2] {
    let a = grid.group("a", slots[0], &[]);
    let b = grid.group("b", slots[1], &["--adjacent", &a]);
    until("a knows b", LONG, || group(grid, &a, "b").filter(|it| it["coordinators"] == 1 && it["free_slots"] != 0));
    wait_for_delegation(grid, &a, &b);
    [a, b]
}

#[test]
fn a_delegated_subtree_survives_the_kills_of_its_parent_and_of_its_own_coordinator() {
    let mut grid = Grid::new();
    let [a, b] = two_groups(&mut grid, [&[], &[2]]);
    let lines = Lines::elsewhere(&mut grid, 40, 20);
    let process = lines.submit(&grid, &a);
    lines.wait_for(5);
    grid.kill("b/main");
    grid.restart("b/main");
    lines.wait_for_gate(2);
    assert!(is_live(&grid.status(&b, &format!("{process}/each"))));
    grid.kill("a/main");
    grid.kill("b/main");
    lines.open_gate();
    grid.restart("b/main");
    // The subtree continues without its parent.
    lines.wait_for(40);
    grid.restart("a/main");
    lines.assert_end(&grid, &a, &process, 0);
}

#[test]
fn a_subtree_of_a_lost_coordinator_is_retried_elsewhere_and_its_late_answer_is_refused() {
    let mut grid = Grid::new();
    let [a, b] = two_groups(&mut grid, [&[2], &[2]]);
    let lines = Lines::elsewhere(&mut grid, 4, 0);
    let process = lines.submit(&grid, &a);
    let each = format!("{process}/each");
    lines.wait_for(2);
    let shown = tree(&grid, &a, &each).expect("it runs");
    assert!(is_live(&grid.status(&b, &each)), "{shown}");
    grid.kill("b/main");
    until("a has noticed the loss", LONG, || {
        group(&grid, &a, "b").is_none_or(|it| it["coordinators"] == 0).then_some(())
    });
    grid.cli(&a, &["retry", &each, "--elsewhere"]).ok();
    // Group a has free slots.
    lines.wait_for(4);
    grid.restart("b/main");
    lines.open_gate();
    lines.result(&grid, &a, &process);
    until("the abandoned subtree is given up", LONG, || {
        let list = grid.cli(&b, &["list"]);
        let running = |list: &serde_json::Value| list["processes"].as_array()?.iter().find(|it| is_live(it)).cloned();
        (list.code == 0 && running(&list.json()).is_none()).then_some(())
    });
    let ended = ended(&grid, &a, &process);
    assert_eq!(ended["results"]["sum"], 10, "{ended}");
}

#[test]
fn results_survive_a_restart_until_they_are_forgotten() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let lines = Lines::new(&mut grid, 4, 4);
    let [kept, forgotten] = [(); 2].map(|()| {
        let process = lines.submit(&grid, &address);
        ended(&grid, &address, &process);
        process
    });
    let before = grid.cli(&address, &["results", &kept]).ok().json();
    grid.kill("a/main");
    grid.restart("a/main");
    assert_eq!(grid.cli(&address, &["results", &kept]).ok().json(), before);
    grid.cli(&address, &["forget", &forgotten]).ok();
    for life in ["this", "the next"] {
        assert_eq!(grid.status(&address, &kept)["state"], "completed", "in {life} life");
        let refused = grid.cli(&address, &["results", &forgotten]);
        assert_eq!(refused.code, 2, "in {life} life: {refused:?}");
        grid.kill("a/main");
        grid.restart("a/main");
    }
    let running = Lines::new(&mut grid, 2, 0);
    let process = running.submit(&grid, &address);
    running.wait_for(2);
    grid.cli(&address, &["forget", &process]);
    running.open_gate();
    running.assert_end(&grid, &address, &process, 0);
}

const LARGE: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Large">
    <OUT_PARAMETER TYPE="string" NAME="text"/>
    <BODY><PRE_CODE>text = string.rep("x", 400000)</PRE_CODE></BODY>
  </PROCESS_TYPE>
</XAVANTES>"#;

#[test]
fn the_oldest_results_are_removed_when_the_node_exceeds_its_limit() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &["--retention-mib", "1"]);
    let file = grid.write("large.xml", LARGE);
    let processes: Vec<String> = (0..6).map(|_| grid.submit(&address, &file, &[])).collect();
    until("the oldest process is removed", LONG, || (grid.status(&address, &processes[0])).is_null().then_some(()));
    let last = ended(&grid, &address, &processes[5]);
    assert_eq!(last["results"]["text"].as_str().map(str::len), Some(400_000));
}

#[test]
fn a_killed_manager_recovers_its_sources_and_nodes() {
    let mut grid = Grid::new();
    let (manager, coordinator) = (free_address(), free_address());
    grid.start("a/manager", &manager, &["--roles", "group-manager"]);
    grid.start("a/main", &coordinator, &["--roles", "process-coordinator", "--join", &manager]);
    grid.worker("a/w1", &manager, &["--slots", "2", "--queue", "0"]);
    grid.wait_for_nodes(&manager, 3);
    grid.cli(&manager, &["sources", "add", "genomes", "file:///data/genomes"]).ok();
    let lines = Lines::new(&mut grid, 20, 10);
    let process = lines.submit(&grid, &coordinator);
    lines.wait_for(5);
    grid.kill("a/manager");
    lines.wait_for(12);
    grid.restart("a/manager");
    grid.wait_for_nodes(&manager, 3);
    let sources = grid.cli(&manager, &["sources"]).ok().json();
    assert!(sources.to_string().contains("file:///data/genomes"), "{sources}");
    lines.open_gate();
    lines.assert_end(&grid, &coordinator, &process, 0);
}

#[test]
fn a_run_that_was_killed_is_resumed() {
    let mut grid = Grid::new();
    let data = grid.folder().join("run");
    let data = data.to_str().expect("the path is UTF-8");
    let lines = Lines::new(&mut grid, 20, 10);
    let mut arguments = vec!["run", &lines.document, "--data-dir", data, "--workers", "2", "--output", "json"];
    let parameters = lines.parameters();
    arguments.extend(parameters.iter().flat_map(|parameter| ["-p", parameter]));
    let running = Running::start(&arguments);
    lines.wait_for(12);
    running.kill();
    lines.open_gate();
    let resume = ["run", "--resume", "--data-dir", data, "--workers", "2", "--output", "json"];
    let ended = xavantes(&resume).ok().json();
    assert_eq!((&ended["state"], &ended["results"]["sum"]), (&json!("completed"), &json!(lines.sum())), "{ended}");
    let executed = lines.executed();
    let mut distinct = executed.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((executed.len(), distinct.len()), (22, 22), "only the two that ran are repeated: {executed:?}");
    // The process has ended, and its results are still stored.
    assert_eq!(xavantes(&resume).ok().json()["results"], ended["results"]);
}

/// A small file system that is unmounted when this is dropped.
struct Disk(PathBuf);

impl Disk {
    /// Mounts a file system. Returns nothing if this user may not.
    fn new(place: PathBuf, mebibytes: u32) -> Option<Self> {
        std::fs::create_dir_all(&place).expect("tests can write here");
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&place).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(place))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stalls_processes_until_it_has_space_again() {
    let mut grid = Grid::new();
    let Some(disk) = Disk::new(grid.folder().join("disk"), 96) else {
        eprintln!("SKIPPED: only root can mount a small disk");
        return;
    };
    let data = disk.0.join("data");
    let address = grid.group("a", &[2], &["--data-dir", data.to_str().expect("the path is UTF-8")]);
    let lines = Lines::new(&mut grid, 400, 400);
    let process = lines.submit(&grid, &address);
    lines.wait_for(10);
    let filler = disk.0.join("filler");
    until("the process is stalled", LONG, || {
        // The filler also takes the space that the node frees meanwhile.
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&filler).expect("it can be opened");
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        grid.status(&address, &process)["trouble"].as_str().map(str::to_owned)
    });
    let begun = lines.executed().len();
    assert!(begun < 400, "the process is stalled");
    stays("hardly any activity starts", 2000, || lines.executed().len() <= begun + 4);
    std::fs::remove_file(&filler).expect("it is there");
    lines.assert_end(&grid, &address, &process, 0);
}
