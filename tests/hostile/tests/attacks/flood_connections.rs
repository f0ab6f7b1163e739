//! Connections that are opened and not used.

use std::time::Duration;

use xavantes_hostile::{block_on, raw};
use xavantes_tests::{Grid, until};

#[test]
fn silent_connections_do_not_shut_out_commands_and_workers() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &["--max-connections", "32"]);
    block_on(async {
        let mut open = raw::connections(&address, 100, b"").await;
        // A connection that has just been opened does not give way.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        open.extend(raw::connections(&address, 100, &[raw::PREFACE, raw::SETTINGS].concat()).await);
        tokio::time::sleep(Duration::from_millis(1200)).await;
        assert_eq!(grid.cli(&address, &["list"]).ok().json()["processes"].as_array().map(Vec::len), Some(0));
        assert_eq!(grid.nodes(&address).len(), 2, "the worker is still there");
        drop(open);
    });
    assert!(grid.log("a/main").contains("refused connections: too many are in use"));
}

#[test]
fn a_connection_must_begin_with_http2_soon() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    block_on(async {
        for bytes in [&b""[..], &raw::PREFACE[..10]] {
            let mut silent = raw::connections(&address, 1, bytes).await.remove(0);
            let closed = tokio::time::timeout(Duration::from_secs(30), raw::wait_for_end(&mut silent)).await;
            assert!(closed.is_ok(), "the node closes the connection");
        }
    });
    until("the node answers", 10, || (grid.cli(&address, &["list"]).code == 0).then_some(()));
}
