//! Settings of an activity manager.

use std::collections::BTreeSet;
use std::path::PathBuf;

use xavantes_files::{Fetcher, Sources};

use crate::executor::program::options::ProgramOptions;

/// Settings of an activity manager.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the node.
    pub node: String,
    /// Activities of one CPU that run at once.
    pub slots: u32,
    /// Activities that may wait here for a slot.
    pub queue: u32,
    /// Folder of the answers that no coordinator acknowledged. Without it, answers end with this process.
    pub folder: Option<PathBuf>,
    /// Tags that activities may require.
    pub tags: BTreeSet<String>,
    /// Fetches and stores the files of activities.
    pub files: Fetcher,
    /// Data outside the grid.
    pub sources: Sources,
    /// Address of this node for other nodes.
    pub address: String,
    /// Settings for external programs.
    pub programs: ProgramOptions,
}
