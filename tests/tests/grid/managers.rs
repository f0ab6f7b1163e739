//! A group goes on without its manager, and another one takes over.

use serde_json::json;
use xavantes_tests::{Grid, free_address, until};

use crate::kit::{assert_counts, naps};

#[test]
fn the_loss_of_the_main_manager_costs_no_activity_and_the_replica_leads_until_it_is_back() {
    let mut grid = Grid::new();
    let (main, replica, coordinator) = (free_address(), free_address(), free_address());
    let managers = format!("{main},{replica}");
    let manager = ["--roles", "group-manager", "--join", &managers];
    grid.start("a/main", &main, &manager);
    grid.start("a/replica", &replica, &manager);
    grid.start("a/coordinator", &coordinator, &["--roles", "process-coordinator", "--join", &managers]);
    for worker in ["a/w1", "a/w2"] {
        grid.worker(worker, &managers, &["--slots", "4"]);
    }
    grid.wait_for_nodes(&main, 5);
    let refused = grid.cli(&replica, &["nodes"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("this manager is a replica; the group is led from {main}")),
        "{refused:?}"
    );

    let file = naps(&mut grid);
    let process = grid.submit(&coordinator, &file, &["count=1000", "time=0.05"]);
    let completed = |grid: &Grid| grid.status(&coordinator, &process)["activities"]["completed"].as_u64().unwrap_or(0);
    until("some activities have completed", 20, || (completed(&grid) > 100).then_some(()));
    grid.kill("a/main");
    let at_loss = completed(&grid);
    assert!(at_loss < 900, "{at_loss} activities were done before the manager was lost");
    grid.wait_for_nodes(&replica, 4);

    grid.start("a/main", &main, &manager);
    grid.wait_for_nodes(&main, 5);
    until("the replica stands back", 5, || (grid.cli(&replica, &["nodes"]).code == 2).then_some(()));

    let ended = grid.end(&coordinator, &process);
    assert_eq!((&ended["state"], &ended["results"]["sum"]), (&json!("completed"), &json!(500_500)), "{ended}");
    assert_counts(&ended, 1000);
    assert_counts(&grid.status(&coordinator, &process), 1000);
}
