//! Why a description is no scheduling problem.

use thiserror::Error;

use crate::id::MachineId;

/// Why a description is no scheduling problem.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProblemError {
    /// There is nothing to run on.
    #[error("the platform has no machine")]
    NoMachines,
    /// A table over pairs of machines would be too large.
    #[error("the platform has {found} machines; the limit is {limit}")]
    TooManyMachines {
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Indices have 32 bits.
    #[error("the workflow has too many {what}: the limit is {limit}")]
    TooMany {
        /// Tasks, files, edges or uses of files.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// The tasks wait for each other.
    #[error("task {task} waits for itself, through {length} tasks")]
    Cycle {
        /// A task of the cycle.
        task: String,
        /// How many tasks the cycle has.
        length: usize,
    },
    /// A number is negative, not finite, or zero where it must not be.
    #[error("{what} is {value}")]
    BadNumber {
        /// The quantity.
        what: String,
        /// Its value.
        value: f64,
    },
    /// Something names a machine that does not exist.
    #[error("{what} names machine {}, which does not exist", machine.0)]
    UnknownMachine {
        /// What names it.
        what: String,
        /// The machine.
        machine: MachineId,
    },
    /// Something names a task that does not exist.
    #[error("{what} names task {task}, which does not exist")]
    UnknownTask {
        /// What names it.
        what: &'static str,
        /// The task.
        task: u32,
    },
    /// A table has a wrong number of entries.
    #[error("the table must have {expected} entries and has {found}")]
    WrongTable {
        /// How many entries it must have.
        expected: usize,
        /// How many it has.
        found: usize,
    },
}
