//! Work goes where there is room: nothing waits for long while a slot in reach is free. The activities themselves record when they
//! begin and end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xavantes_tests::{Grid, free_address, until};

use crate::delegation::{Gate, PATIENCE, WAIT};
use crate::groups::WAITS;
use crate::kit::{busy, document, group};

/// Upper bound on the time for which a slot may be free while activities wait, even on a busy machine. Nodes report their free slots
/// about every second.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// Activities that sleep, and record the times of their begin and their end and the folder that they run in.
const TIMED: &str = r#"
  <PROCESS_TYPE NAME="Timed">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <OUT_PARAMETER TYPE="list" NAME="times"/>
    <BODY>
      <PARFOR NAME="all" TO="${count}" COLLECT="nap.times">
        <ITERATE><ACTIVITY TYPE="TimedNap" NAME="nap" time="${time}"/></ITERATE>
      </PARFOR>
      <POST_CODE>times = all.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="TimedNap">
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <OUT_PARAMETER TYPE="string" NAME="times" FROM="stdout"/>
    <CODE LANGUAGE="command">
      <ARG>sh</ARG><ARG>-c</ARG><ARG>date +%s%N; sleep "$0"; date +%s%N; pwd</ARG><ARG>${time}</ARG>
    </CODE>
  </ACTIVITY_TYPE>"#;

/// An activity that ended. Times count from 1970.
struct Nap {
    began: Duration,
    ended: Duration,
    folder: String,
}

/// Submits activities.
fn submit(grid: &mut Grid, address: &str, count: usize, time: &str) -> String {
    let file = grid.write("timed.xml", &document(TIMED));
    grid.submit(address, &file, &[&format!("count={count}"), &format!("time={time}")])
}

/// Waits for the end of a process and returns its activities.
fn naps(grid: &Grid, address: &str, process: &str) -> Vec<Nap> {
    let ended = grid.end(address, process);
    let times = ended["results"]["times"].as_array().unwrap_or_else(|| panic!("{ended}"));
    let nap = |text: &str| {
        let mut lines = text.lines();
        let mut time = || Duration::from_nanos(lines.next().and_then(|line| line.parse().ok()).expect("a time"));
        let (began, ended) = (time(), time());
        Nap { began, ended, folder: lines.next().expect("a folder").to_owned() }
    };
    times.iter().map(|text| nap(text.as_str().expect("a text"))).collect()
}

/// The longest time for which fewer than `slots` activities ran although others had not begun.
fn longest_waste(naps: &[Nap], slots: usize) -> Duration {
    let last = naps.iter().map(|nap| nap.began).max().expect("there are activities");
    let mut changes: Vec<(Duration, i32)> = naps.iter().flat_map(|nap| [(nap.began, 1), (nap.ended, -1)]).collect();
    changes.sort();
    let (mut running, mut wasted_since, mut longest) = (0, Some(changes[0].0), Duration::ZERO);
    for (time, change) in changes.into_iter().take_while(|(time, _)| *time <= last) {
        running += change;
        longest = longest.max(wasted_since.map_or(Duration::ZERO, |since| time - since));
        let wastes = running < i32::try_from(slots).expect("a small number");
        wasted_since = if wastes { wasted_since.or(Some(time)) } else { None };
    }
    longest
}

#[track_caller]
fn assert_no_waste(naps: &[Nap], slots: usize) {
    let longest = longest_waste(naps, slots);
    let first = naps.iter().map(|nap| nap.began).min().expect("there are activities");
    let begins: Vec<String> = naps.iter().map(|nap| format!("{:.1}", (nap.began - first).as_secs_f64())).collect();
    assert!(longest < NOTICED_WITHIN, "a slot was free for {longest:?}; the activities began at {begins:?}");
}

/// A group whose worker takes attempts ahead of its slots. Returns the address of its manager.
fn group_of(grid: &mut Grid, name: &str, slots: u32, flags: &[&str]) -> String {
    let address = grid.group(name, &[], flags);
    if slots > 0 {
        grid.worker(&format!("{name}/w"), &address, &["--slots", &slots.to_string()]);
        grid.wait_for_nodes(&address, 2);
    }
    address
}

fn knows_free_slots(grid: &Grid, address: &str, other: &str, slots: u64) {
    until("the groups know each other", PATIENCE, || {
        group(grid, address, other).filter(|it| it["free_slots"] == slots)
    });
}

#[test]
fn activities_use_the_slots_of_both_groups_from_the_beginning() {
    let mut grid = Grid::new();
    let north = group_of(&mut grid, "north", 4, &[]);
    group_of(&mut grid, "south", 4, &["--adjacent", &north]);
    knows_free_slots(&grid, &north, "south", 4);
    // Nothing is known about the activities. The second time, the groups have just become free.
    for _ in 0..2 {
        let process = submit(&mut grid, &north, 20, "2");
        assert_no_waste(&naps(&grid, &north, &process), 8);
    }
}

#[test]
fn activities_use_free_slots_two_groups_away() {
    let mut grid = Grid::new();
    let north = group_of(&mut grid, "north", 2, &[]);
    let middle = group_of(&mut grid, "middle", 0, &["--adjacent", &north]);
    group_of(&mut grid, "south", 4, &["--adjacent", &middle]);
    knows_free_slots(&grid, &north, "south", 4);
    let process = submit(&mut grid, &north, 16, "2");
    assert_no_waste(&naps(&grid, &north, &process), 6);
}

#[test]
fn a_worker_that_joins_gets_work_at_once() {
    let mut grid = Grid::new();
    let address = group_of(&mut grid, "a", 2, &[]);
    let process = submit(&mut grid, &address, 12, "2");
    until("activities run", PATIENCE, || (busy(&grid, &address) >= 2).then_some(()));
    grid.worker("a/late", &address, &["--slots", "4"]);
    let joined = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    let naps = naps(&grid, &address, &process);
    let folder = grid.data("a/late").to_str().expect("the path is UTF-8");
    let first = naps.iter().filter(|nap| nap.folder.starts_with(folder)).map(|nap| nap.began).min();
    let first = first.expect("the new worker got work").saturating_sub(joined);
    assert!(first < NOTICED_WITHIN, "the new worker got work after {first:?}");
}

#[test]
fn activities_behind_those_of_another_coordinator_go_to_a_free_slot() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    for worker in ["a/w1", "a/w2"] {
        grid.worker(worker, &address, &["--slots", "3"]);
    }
    let other = free_address();
    grid.start("a/other", &other, &["--roles", "process-coordinator", "--join", &address]);
    grid.wait_for_nodes(&address, 4);
    let gate = Gate::new(&mut grid);
    let file = grid.write("waits.xml", &document(&[WAITS, WAIT].concat()));
    // Four of six slots are busy until the gate opens.
    let waits = grid.submit(&address, &file, &[&gate.parameter()]);
    until("four slots are busy", PATIENCE, || (busy(&grid, &address) >= 4).then_some(()));
    let process = submit(&mut grid, &other, 12, "0.5");
    assert_eq!(naps(&grid, &other, &process).len(), 12, "they ended while the gate is closed");
    gate.open();
    grid.end(&address, &waits);
}
