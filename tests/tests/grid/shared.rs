//! Coordinators that share a repository take over from each other.

use std::time::Instant;

use xavantes_repository::testing::Postgres;
use xavantes_tests::{Grid, free_address, until, xavantes};

use crate::lines::{LONG, Lines};

/// A group with the coordinators `one` and `two`, and a worker with two slots. Gives the coordinators' addresses.
pub fn two_coordinators(grid: &mut Grid, server: &Postgres) -> [String; 2] {
    let url = server.url();
    xavantes(&["repository", "migrate", "--repository", &url]).ok();
    let manager = free_address();
    grid.start("a/manager", &manager, &["--roles", "group-manager"]);
    let addresses = ["one", "two"].map(|name| {
        let address = free_address();
        let flags = ["--roles", "process-coordinator", "--join", &manager, "--repository", &url];
        grid.start(&format!("a/{name}"), &address, &flags);
        address
    });
    grid.worker("a/w1", &manager, &["--slots", "2", "--queue", "0"]);
    grid.wait_for_nodes(&manager, 4);
    addresses
}

#[test]
fn the_processes_of_a_coordinator_that_is_lost_for_good_are_finished_by_another() {
    let Some(server) = Postgres::start() else { return };
    let mut grid = Grid::new();
    let [one, two] = two_coordinators(&mut grid, &server);
    let lines = Lines::new(&mut grid, 20, 10);
    let process = lines.submit(&grid, &one);
    lines.wait_for(12);
    grid.kill("a/one");
    let lost = Instant::now();
    // They end while nobody is there to hear of it.
    lines.open_gate();
    lines.assert_end(&grid, &two, &process, 0);
    println!("finished {:.1} s after the loss", lost.elapsed().as_secs_f64());
    assert_eq!(grid.status(&two, &process)["node"], "two");
}

#[test]
fn a_coordinator_that_stood_still_too_long_finds_its_process_taken_over_and_leaves_it_alone() {
    let Some(server) = Postgres::start() else { return };
    let mut grid = Grid::new();
    let [one, two] = two_coordinators(&mut grid, &server);
    let lines = Lines::new(&mut grid, 20, 10);
    let process = lines.submit(&grid, &one);
    lines.wait_for(12);
    grid.freeze("a/one");
    until("the other has it", LONG, || (grid.status(&two, &process)["node"] == "two").then_some(()));
    grid.thaw("a/one");
    until("the first one knows", LONG, || (grid.status(&one, &process)["node"] == "two").then_some(()));
    lines.open_gate();
    lines.assert_end(&grid, &two, &process, 0);
    assert_eq!(grid.status(&one, &process)["state"], "completed");
    // It goes on to coordinate others.
    let lines = Lines::new(&mut grid, 4, 4);
    let process = lines.submit(&grid, &one);
    lines.assert_end(&grid, &one, &process, 0);
}
