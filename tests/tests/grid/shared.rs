//! Coordinators that share a repository take over from each other.

use std::time::Instant;

use xavantes_repository::testing::Postgres;
use xavantes_tests::{Grid, free_address, until, xavantes};

use crate::lines::{LONG, Lines};

/// Starts a group with the coordinators `one` and `two` and a worker with two slots. Returns the addresses of the coordinators.
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
fn another_coordinator_finishes_the_processes_of_a_lost_one() {
    let Some(server) = Postgres::start() else { return };
    let mut grid = Grid::new();
    let [one, two] = two_coordinators(&mut grid, &server);
    let lines = Lines::new(&mut grid, 20, 10);
    let process = lines.submit(&grid, &one);
    lines.wait_for(12);
    grid.kill("a/one");
    let lost = Instant::now();
    // The activities end while no coordinator runs the process.
    lines.open_gate();
    lines.assert_end(&grid, &two, &process, 0);
    println!("finished {:.1} s after the loss", lost.elapsed().as_secs_f64());
    assert_eq!(grid.status(&two, &process)["node"], "two");
}

#[test]
fn a_coordinator_that_was_frozen_leaves_its_process_to_the_one_that_took_over() {
    let Some(server) = Postgres::start() else { return };
    let mut grid = Grid::new();
    let [one, two] = two_coordinators(&mut grid, &server);
    let lines = Lines::new(&mut grid, 20, 10);
    let process = lines.submit(&grid, &one);
    lines.wait_for(12);
    grid.freeze("a/one");
    until("the second coordinator has the process", LONG, || {
        (grid.status(&two, &process)["node"] == "two").then_some(())
    });
    grid.thaw("a/one");
    until("the first coordinator knows", LONG, || (grid.status(&one, &process)["node"] == "two").then_some(()));
    lines.open_gate();
    lines.assert_end(&grid, &two, &process, 0);
    assert_eq!(grid.status(&one, &process)["state"], "completed");
    // It coordinates other processes again.
    let lines = Lines::new(&mut grid, 4, 4);
    let process = lines.submit(&grid, &one);
    lines.assert_end(&grid, &one, &process, 0);
}
