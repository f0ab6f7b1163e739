//! How a coordinator is configured.

use std::time::Duration;

use tokio::sync::mpsc;

/// Settings of one coordinator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// Group of the node.
    pub group: String,
    /// Address at which other nodes reach this coordinator.
    pub address: String,
    /// Addresses of the group's managers.
    pub managers: Vec<String>,
    /// Groups whose subtrees this coordinator accepts; an empty list accepts all.
    pub foreign_groups: Vec<String>,
    /// Upper bound on the outstanding activities of one foreign subtree.
    pub foreign_slots: u32,
    /// How long an attempt may stay at a worker that neither runs nor answers it.
    pub worker_patience: Duration,
    /// Ended processes older than this are removed.
    pub retention_age: Option<Duration>,
    /// When ended processes need more bytes than this, the oldest are removed.
    pub retention_size: Option<u64>,
    /// Upper bound on the bytes of the result cache.
    pub reuse_size: u64,
    /// Upper bound on the bytes of the state of one process.
    pub process_bytes: u64,
    /// Bytes of all processes together from which on no further process begins.
    pub processes_bytes: u64,
    /// Other coordinators use the same repository.
    pub shared: bool,
    /// File store of this node: files that users bring for their processes, and results.
    pub files: Option<xavantes_files::Fetcher>,
    /// Receives the lines that activities print; without it the coordinator logs them.
    pub printed: Option<Printed>,
}

/// Receives `(element path, line)` for every line that an activity prints. A program that runs a grid for one user shows
/// them.
pub type Printed = mpsc::UnboundedSender<(String, String)>;
