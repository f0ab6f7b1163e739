//! Grids of real, separate processes for tests: starts nodes on free ports of this machine, runs commands, kills, freezes
//! and restarts nodes, and cleans up. Only one grid exists at a time, so that tests do not compete for processors.
//!
//! | module | contents |
//! |---|---|
//! | `program` | the `xavantes` program and its commands |
//! | `grid` | nodes, with their ports, logs and data |
//! | `link` | a connection between nodes that can be cut |
//! | `network_namespace` | separate networks for nodes |
//! | `xml` | pieces of process definitions |

mod grid;
mod link;
mod network_namespace;
mod program;
pub mod xml;

use std::time::{Duration, Instant};

use serde_json::Value as Json;

pub use grid::{Grid, free_address};
pub use link::TestLink;
pub use network_namespace::Networks;
pub use program::{Ended, Running, program, workspace, xavantes};

/// Interval at which conditions are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether a process or element that a command printed has not ended, whatever it waits for.
pub fn is_live(printed: &Json) -> bool {
    let live = ["waiting", "queued", "running", "paused", "held", "stopping"];
    printed["state"].as_str().is_some_and(|state| live.contains(&state))
}

/// Calls `check` until it returns something. Panics with `what` after a number of seconds.
pub fn until<T>(what: &str, seconds: u64, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} seconds: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Asserts for a number of milliseconds that a condition holds.
pub fn stays(what: &str, milliseconds: u64, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < deadline {
        assert!(check(), "{what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
