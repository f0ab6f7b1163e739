//! Processes that keep their coordinator busy: users steer them and all others nevertheless.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use xavantes_hostile::{block_on, client, connect};
use xavantes_tests::xml::{document, process_type};
use xavantes_tests::{Grid, is_live, until};

/// A command gets its answer within this time. It is long because tests share the machine with others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Submits a process whose body is this.
fn submit(grid: &mut Grid, address: &str, body: &str) -> String {
    let lua = r#"<ACTIVITY_TYPE NAME="Print"><CODE LANGUAGE="lua">
        for i = 1, 100000 do print("line " .. i .. string.rep("x", 200)) end</CODE></ACTIVITY_TYPE>
      <ACTIVITY_TYPE NAME="Nothing"><CODE LANGUAGE="lua">local nothing</CODE></ACTIVITY_TYPE>"#;
    let file = grid.write("busy.xml", &document(&[process_type("Busy", &[], body), lua.into()]));
    grid.submit(address, &file, &[])
}

/// Runs a command that must succeed in time.
fn in_time(grid: &Grid, address: &str, arguments: &[&str]) {
    let began = Instant::now();
    grid.cli(address, arguments).ok();
    assert!(began.elapsed() < PATIENCE, "{arguments:?} took {:?}", began.elapsed());
}

#[test]
fn a_process_with_a_large_variable_or_long_code_is_steered_like_any_other() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    // Every iteration stores twenty megabytes; every condition takes as long as code may take.
    let large = r#"<WHILE NAME="w" CONDITION="true"><ITERATE><BLOCK NAME="b"><INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT=""/>
        <PRE_CODE>s = string.rep("x", 20000000)</PRE_CODE></BLOCK></ITERATE></WHILE>"#;
    let long =
        r#"<WHILE NAME="w" CONDITION="(function() for i = 1, 900000 do end return true end)()"><ITERATE/></WHILE>"#;
    let busy = [large, long, long].map(|body| submit(&mut grid, &address, body));
    let idle = submit(&mut grid, &address, "<ACTIVITY TYPE=\"Nothing\" NAME=\"n\"/>");
    std::thread::sleep(Duration::from_secs(1));
    in_time(&grid, &address, &["list"]);
    for process in busy.iter().chain([&idle]) {
        for command in ["tree", "pause", "resume", "cancel"] {
            in_time(&grid, &address, &[command, process]);
        }
        until("it has ended", 30, || (grid.status(&address, process)["state"] == "cancelled").then_some(()));
    }
}

#[test]
fn a_process_that_prints_much_delays_no_other() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let printing = r#"<PARFOR NAME="all" TO="1000" MAX_PARALLEL="1"><ITERATE><ACTIVITY TYPE="Print" NAME="p"/></ITERATE></PARFOR>"#;
    let noisy = submit(&mut grid, &address, printing);
    until("it prints", 30, || grid.log("a/main").contains("line 100").then_some(()));
    let steps = r#"<FOR NAME="all" TO="300"><ITERATE><ACTIVITY TYPE="Nothing" NAME="n"/></ITERATE></FOR>"#;
    let began = Instant::now();
    let quiet = submit(&mut grid, &address, steps);
    assert_eq!(grid.end(&address, &quiet)["state"], "completed");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    in_time(&grid, &address, &["cancel", &noisy]);
    let logged = grid.log("a/main").lines().filter(|line| line.contains("printed")).count();
    assert!(logged < 300 * (began.elapsed().as_secs() as usize + 10), "{logged} lines");
}

/// A small file system that is unmounted when this is dropped.
struct Disk(PathBuf);

impl Disk {
    /// Mounts a file system of 96 MiB. Returns nothing if this user may not.
    fn new(place: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&place).expect("tests can write here");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"]).arg(&place).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(place))
    }

    fn fill(&self) -> PathBuf {
        let filler = self.0.join("filler");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&filler).expect("it can be opened");
        while file.write_all(&[0; 4096]).is_ok() {}
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_coordinator_goes_on_after_a_write_of_its_database_failed() {
    let mut grid = Grid::new();
    let Some(disk) = Disk::new(grid.folder().join("disk")) else {
        eprintln!("SKIPPED: only root can mount a small disk");
        return;
    };
    let data = disk.0.join("data");
    let address = grid.group("a", &[], &["--data-dir", data.to_str().expect("the path is UTF-8")]);
    let empty = document(&[process_type("Empty", &[], "")]);
    let ended: Vec<String> = block_on(async {
        let channel = connect(&address).await;
        let mut ended = Vec::new();
        for _ in 0..300 {
            ended.push(client::submit(&channel, &empty).await.expect("it is valid"));
        }
        ended
    });
    ended.iter().rev().take(10).for_each(|process| assert_eq!(grid.end(&address, process)["state"], "completed"));
    let runs = submit(&mut grid, &address, "<ACTIVITY TYPE=\"Nothing\" NAME=\"n\"/>");
    // A removal needs no reserve, so the database itself fails when the disk has no room at all.
    let filler = disk.fill();
    let refused = ended.iter().map(|process| grid.cli(&address, &["forget", process])).find(|it| it.code != 0);
    let refused = refused.expect("the database cannot write");
    assert!(refused.code == 3 && refused.stderr.contains("opened again"), "{refused:?}");
    in_time(&grid, &address, &["tree", &runs]);
    std::fs::remove_file(&filler).expect("it is there");
    until("the database can write again", 60, || {
        (grid.cli(&address, &["forget", &ended[299]]).code == 0).then_some(())
    });
    assert!(is_live(&grid.status(&address, &runs)));
    grid.cli(&address, &["cancel", &runs]).ok();
    let after = submit(&mut grid, &address, "");
    assert_eq!(grid.end(&address, &after)["state"], "completed");
    // What was acknowledged is there after a restart.
    grid.restart("a/main");
    assert_eq!(grid.end(&address, &runs)["state"], "cancelled");
    assert_eq!(grid.end(&address, &after)["state"], "completed");
    assert_eq!(grid.status(&address, &ended[299]), serde_json::Value::Null);
}

#[test]
fn with_a_full_disk_commands_say_what_they_wait_for() {
    let mut grid = Grid::new();
    let Some(disk) = Disk::new(grid.folder().join("disk")) else {
        eprintln!("SKIPPED: only root can mount a small disk");
        return;
    };
    let data = disk.0.join("data");
    let address = grid.group("a", &[], &["--data-dir", data.to_str().expect("the path is UTF-8")]);
    let process = submit(&mut grid, &address, "<ACTIVITY TYPE=\"Nothing\" NAME=\"n\"/>");
    let filler = disk.fill();
    let began = Instant::now();
    let waiting = grid.cli(&address, &["pause", &process]);
    assert!(waiting.code == 3 && waiting.stderr.contains("the repository cannot write"), "{waiting:?}");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    in_time(&grid, &address, &["tree", &process]);
    in_time(&grid, &address, &["list"]);
    // The command was not lost.
    std::fs::remove_file(&filler).expect("it is there");
    until("it is paused", 30, || (grid.status(&address, &process)["state"] == "paused").then_some(()));
    in_time(&grid, &address, &["cancel", &process]);
}
