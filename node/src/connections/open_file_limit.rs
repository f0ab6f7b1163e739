//! How many files and sockets the node may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Connections that a node accepts at most, however many files it may open.
const MAX_CONNECTIONS: u64 = 10_000;
/// A node with fewer descriptors than this does not work well.
const FEW_DESCRIPTORS: u64 = 1024;

/// Lets the node open as many files as the system allows it. Returns that number.
fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let unlimited = u64::MAX;
    let (soft, hard) = (limit.current.unwrap_or(unlimited), limit.maximum.unwrap_or(unlimited));
    if soft >= hard {
        return soft;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        Ok(()) => hard,
        Err(error) => {
            warn!(%error, soft, hard, "cannot raise the limit on open files");
            soft
        }
    }
}

/// Raises the limit on open files. Returns how many connections the node may accept: half of the files that it may open,
/// because its programs, stores and own connections need the others.
pub(crate) fn connection_limit(wanted: Option<u32>) -> usize {
    let files = raise_limit();
    if files < FEW_DESCRIPTORS {
        warn!(files, "this node may open few files; raise its limit (ulimit -n)");
    }
    let most = (files / 2).clamp(16, MAX_CONNECTIONS);
    wanted.map_or(most, |wanted| most.min(wanted.into())) as usize
}
