//! A group continues without its manager, and a replica takes over.

use serde_json::json;
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_tests::{Grid, free_address, until};

use crate::delegation::{Gate, PATIENCE, WAIT};
use crate::groups::WAITS;
use crate::kit::{assert_counts, document, naps, tree, workers};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("threads are available").block_on(work)
}

/// The nodes that the manager at this address knows, without lost ones; nothing if it does not answer.
fn known(address: &str) -> Option<v1::ListNodesResponse> {
    block_on(async {
        let mut client = GroupManagerClient::new(xavantes_proto::connect(address).await.ok()?);
        let list = xavantes_proto::call_with_timeout(client.list_nodes(v1::ListNodesRequest::default())).await;
        let mut known = list.ok()?;
        known.nodes.retain(|node| !node.lost);
        Some(known)
    })
}

/// Waits until this manager leads and hears `nodes` nodes. Returns the epoch.
fn leads(address: &str, nodes: usize) -> u64 {
    until(&format!("{address} leads {nodes} nodes"), PATIENCE, || {
        let known = known(address).filter(|known| known.leads)?;
        let heard = known.nodes.iter().filter(|node| node.silent_ms < 2000).count();
        (known.nodes.len() == nodes && heard == nodes).then_some(known.epoch)
    })
}

/// Waits until this manager follows another one that leads in this epoch or a later one.
fn follows(address: &str, nodes: usize, epoch: u64) {
    until(&format!("{address} follows"), PATIENCE, || {
        known(address).filter(|known| !known.leads && known.epoch >= epoch && known.nodes.len() == nodes)
    });
}

fn add_source(address: &str, name: &str, uri: &str) {
    let request = v1::AddSourceRequest { name: name.into(), uri: uri.into() };
    block_on(async {
        let mut client = GroupManagerClient::new(xavantes_proto::connect(address).await.expect("it is there"));
        xavantes_proto::call_with_timeout(client.add_source(request)).await.expect("it leads");
    });
}

#[test]
fn a_replica_leads_while_the_main_manager_is_lost_and_no_activity_is_repeated() {
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
    let before = leads(&main, 5);
    follows(&replica, 5, before);
    let refused = grid.cli(&replica, &["drain", "nobody"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("this manager is a replica; the group is led from {main}")),
        "{refused:?}"
    );
    add_source(&main, "stars", "https://example.org/stars");
    let has_source = |grid: &Grid, manager: &str| {
        let listed = grid.cli(manager, &["sources"]).ok().json();
        listed["sources"] == json!({ "stars": "https://example.org/stars" })
    };
    until("the replica knows the source", PATIENCE, || has_source(&grid, &replica).then_some(()));

    let (waits, gate) = (grid.write("waits.xml", &document(&[WAITS, WAIT].concat())), Gate::new(&mut grid));
    let process = grid.submit(&coordinator, &waits, &[&gate.parameter()]);
    until("the activities run", PATIENCE, || {
        tree(&grid, &coordinator, &process).filter(|tree| workers(tree).len() == 4)
    });
    grid.kill("a/main");
    // Activities do not need the manager, so others begin and end meanwhile.
    let file = naps(&mut grid);
    let meanwhile = grid.submit(&coordinator, &file, &["count=20", "time=0.05"]);
    let ended = grid.end(&coordinator, &meanwhile);
    assert_eq!((&ended["state"], &ended["results"]["sum"]), (&json!("completed"), &json!(210)), "{ended}");
    assert_counts(&ended, 20);

    let without = leads(&replica, 4);
    assert!(without > before, "{without} after {before}");
    assert!(has_source(&grid, &replica));

    // The main manager has lost its state, and learns it from the replica before it leads.
    grid.start("a/main", &main, &manager);
    let back = leads(&main, 5);
    assert!(back > without, "{back} after {without}");
    follows(&replica, 5, back);
    assert!(has_source(&grid, &main));

    gate.open();
    let ended = grid.end(&coordinator, &process);
    assert_eq!((&ended["state"], &ended["results"]["sum"]), (&json!("completed"), &json!(10)), "{ended}");
    assert_counts(&ended, 4);
    assert_counts(&grid.status(&coordinator, &process), 4);
}
