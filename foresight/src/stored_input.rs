//! Files that are in place before a process starts, as far as a caller knows them.

use xavantes_scheduling::MachineId;

/// A file that is in place before the process starts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredInput {
    /// Its size, if it is known.
    pub bytes: Option<f64>,
    /// Machines that have it; none if all have it.
    pub machines: Vec<MachineId>,
}
