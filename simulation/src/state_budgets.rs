//! Budgets of the state of processes.

use std::sync::Arc;

use xavantes_engine::HANDLER_RESERVE;
use xavantes_process_coordinator::process::memory_budget::Memory;

/// Budget of all processes of a coordinator.
const COORDINATOR_BYTES: u64 = 80_000;
/// A process that takes less than this never waits once it has begun.
const SMALL_PROCESS_BYTES: u64 = 20_000;

/// The budgets of a coordinator.
#[derive(Debug)]
pub struct Budgets {
    /// Bytes of one process.
    pub process: u64,
    /// Bytes of all processes together.
    pub coordinator: u64,
    pub memory: Arc<Memory>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { process: u64::MAX, coordinator: u64::MAX, memory: Memory::new(u64::MAX).into() }
    }
}

impl Budgets {
    pub fn new(process: u64) -> Self {
        let memory = Memory::with_small_processes(COORDINATOR_BYTES, SMALL_PROCESS_BYTES);
        Self { process, coordinator: COORDINATOR_BYTES, memory: memory.into() }
    }

    /// How many bytes a process may take, with those of its handlers.
    pub fn most(&self) -> u64 {
        self.process.saturating_add(self.process / HANDLER_RESERVE)
    }
}

/// May, or must, a `Large` process with this many iterations exceed its budget?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    No,
    Maybe,
    Yes,
}
