//! Workers join, leave and are lost in the middle of a process.

use std::time::Duration;

use serde_json::Value as Json;
use xavantes_tests::{Grid, stays, until};

use crate::kit::{assert_counts, group, naps};

fn busy(grid: &Grid, address: &str, node: &str) -> u64 {
    let nodes = grid.nodes(address);
    nodes.iter().find(|it| it["node"] == node).and_then(|it| it["busy"].as_u64()).unwrap_or(0)
}

fn completed(grid: &Grid, address: &str, process: &str) -> u64 {
    grid.status(address, process)["activities"]["completed"].as_u64().unwrap_or(0)
}

fn assert_sum(ended: &Json, sum: i64) {
    assert_eq!((ended["state"].as_str(), ended["results"]["sum"].as_i64()), (Some("completed"), Some(sum)), "{ended}");
}

#[test]
fn the_activities_of_a_lost_worker_run_elsewhere() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2, 2], &[]);
    let file = naps(&mut grid);
    let process = grid.submit(&address, &file, &["count=20", "time=1"]);
    until("both workers are busy", 60, || {
        (busy(&grid, &address, "w1") == 2 && busy(&grid, &address, "w2") == 2).then_some(())
    });
    grid.kill("a/w1");
    let lost = until("the worker is listed as lost", 60, || {
        grid.listed_nodes(&address).into_iter().find(|node| node["node"] == "w1" && node["state"] == "lost")
    });
    assert_eq!((&lost["busy"], &lost["running"]), (&0.into(), &0.into()), "nothing runs on it: {lost}");
    let ended = grid.end(&address, &process);
    assert_sum(&ended, 210);
    let counts = &ended["activities"];
    assert_eq!(counts["completed"], 20, "{ended}");
    let attempts = counts["attempts"].as_u64().expect("a number");
    assert!((21..=22).contains(&attempts), "the worker had one or two activities when it was lost: {ended}");
}

#[test]
fn a_worker_that_joins_later_gets_activities() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let file = naps(&mut grid);
    let process = grid.submit(&address, &file, &["count=20", "time=0.5"]);
    until("the first worker is busy", 60, || (busy(&grid, &address, "w1") == 1).then_some(()));
    grid.worker("a/w2", &address, &["--slots", "4"]);
    until("the new worker is busy", 60, || (busy(&grid, &address, "w2") >= 4).then_some(()));
    let ended = grid.end(&address, &process);
    assert_sum(&ended, 210);
    assert_counts(&ended, 20);
}

#[test]
fn a_signal_to_a_draining_worker_lets_running_programs_end() {
    drain_with_a_program(&["--after-drain", "wait"], |grid| {
        grid.terminate("a/drained");
        until("the worker has the signal", 60, || grid.log("a/drained").contains("stopping on a signal").then_some(()));
    });
}

#[test]
fn a_drained_worker_gives_running_programs_all_time() {
    drain_with_a_program(&["--drain-seconds", "0"], |grid| {
        stays("the program runs", 1500, || !grid.log("a/drained").contains("drain timed out"));
    });
}

/// Drains a worker with these flags while a program runs, which ends after `meanwhile`: it is not repeated.
fn drain_with_a_program(flags: &[&str], meanwhile: impl Fn(&Grid)) {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    grid.worker("a/drained", &address, flags);
    grid.wait_for_nodes(&address, 2);
    let (started, go) = (grid.folder().join("started"), grid.folder().join("go"));
    let document = format!(
        "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"P\"><OUT_PARAMETER TYPE=\"int\" NAME=\"n\"/><BODY>
        <ACTIVITY TYPE=\"A\" NAME=\"a\"/><POST_CODE>n = a.n</POST_CODE></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME=\"A\"><OUT_PARAMETER TYPE=\"int\" NAME=\"n\"/>
        <CODE LANGUAGE=\"sh\">touch {}; until test -e {}; do sleep 0.1; done; n=$XAVANTES_ATTEMPT</CODE></ACTIVITY_TYPE></XAVANTES>",
        started.display(),
        go.display()
    );
    let file = grid.write("slow.xml", &document);
    let process = grid.submit(&address, &file, &[]);
    until("the program runs", 60, || started.exists().then_some(()));
    grid.cli(&address, &["drain", "drained"]).ok();
    until("the worker drains", 60, || grid.log("a/drained").contains("draining on request").then_some(()));
    meanwhile(&grid);
    assert_eq!(grid.ended("a/drained"), None);
    std::fs::write(&go, "").expect("the disk has space");
    // The node does not wait for another signal.
    assert_eq!(until("the worker has ended", 60, || grid.ended("a/drained")), 0);
    let ended = grid.end(&address, &process);
    assert_eq!(ended["results"]["n"], 1, "{ended}");
}

#[test]
fn a_stopping_or_draining_worker_finishes_its_activities_and_nothing_is_repeated() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    for worker in ["a/stopped", "a/drained"] {
        grid.worker(worker, &address, &["--slots", "2", "--queue", "4"]);
    }
    grid.wait_for_nodes(&address, 4);
    let file = naps(&mut grid);
    // Short activities, so that some wait in the queues of the workers.
    let process = grid.submit(&address, &file, &["count=600", "time=0.05"]);
    until("both workers are busy", 60, || {
        ["stopped", "drained"].iter().all(|node| busy(&grid, &address, node) > 2).then_some(())
    });
    grid.terminate("a/stopped");
    assert_eq!(until("the worker has stopped", 60, || grid.ended("a/stopped")), 0);
    grid.cli(&address, &["drain", "drained"]).ok();
    assert_eq!(until("the worker has drained", 60, || grid.ended("a/drained")), 0);
    assert!(completed(&grid, &address, &process) < 600, "both workers left in the middle of the process");
    let ended = grid.end(&address, &process);
    assert_sum(&ended, 180_300);
    assert_counts(&ended, 600);
    until("both workers have left", 60, || (grid.nodes(&address).len() == 2).then_some(()));
    assert_eq!(grid.listed_nodes(&address).len(), 2, "a worker that left in order is not lost");
    // Under a supervisor that starts ended nodes again, a drained node stays.
    grid.worker("a/waiting", &address, &["--after-drain", "wait"]);
    grid.wait_for_nodes(&address, 3);
    grid.cli(&address, &["drain", "waiting"]).ok();
    until("the worker has left", 60, || grid.log("a/waiting").contains("waits for SIGTERM").then_some(()));
    grid.wait_for_nodes(&address, 2);
    assert_eq!(grid.ended("a/waiting"), None);
    grid.terminate("a/waiting");
    assert_eq!(until("the worker has stopped", 60, || grid.ended("a/waiting")), 0);
    let unknown = grid.cli(&address, &["drain", "nobody"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("there is no node \"nobody\" in group \"a\""), "{unknown:?}");
}

#[test]
fn watched_nodes_and_groups_follow_what_joins() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let nodes = grid.spawn(&address, &["nodes", "--watch"]);
    let groups = grid.spawn(&address, &["groups", "--watch"]);
    grid.worker("a/late", &address, &["--slots", "2"]);
    grid.group("b", &[], &["--adjacent", &address]);
    until("both groups know each other", 60, || group(&grid, &address, "b"));
    std::thread::sleep(Duration::from_secs(3));
    // Without a manager there is nothing left to watch.
    grid.kill("a/main");
    for (watched, new) in [(nodes, "\"late\""), (groups, "\"b\"")] {
        let ended = watched.wait();
        assert_eq!(ended.code, 3, "{ended:?}");
        let first = ended.stdout.split("\n{").next().unwrap_or_default();
        assert!(!first.contains(new) && ended.stdout.contains(new), "{new} joined later: {ended:?}");
    }
}
