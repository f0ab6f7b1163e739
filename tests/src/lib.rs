//! Grids of real, separate processes for tests: starts nodes on free ports of this machine, runs commands, kills, freezes
//! and restarts nodes, and cleans up. One grid exists at a time, so that tests do not take each other's processors.
//!
//! | file | is about |
//! |---|---|
//! | `program` | the `xavantes` program and its commands |
//! | `grid` | nodes, with their ports, logs and data |
//! | `link` | a connection between nodes that can be cut |
//! | `network` | networks that nodes are in, and see nothing of others |

mod grid;
mod link;
mod network;
mod program;

use std::time::{Duration, Instant};

pub use grid::{Grid, free_address};
pub use link::Link;
pub use network::Networks;
pub use program::{Ended, Running, program, workspace, xavantes};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Looks again and again until there is something, for so many seconds at most.
pub fn until<T>(what: &str, seconds: u64, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} seconds: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Looks again and again whether something stays as it is, for so many milliseconds.
pub fn stays(what: &str, milliseconds: u64, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < deadline {
        assert!(look(), "{what}");
        std::thread::sleep(LOOK);
    }
}
