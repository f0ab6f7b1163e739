//! The memory of all processes of a coordinator together, and which of them wait when it is used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use xavantes_proto::v1;

/// A process that takes less than this never waits for memory once it has begun.
const SMALL_PROCESS_BYTES: u64 = 1 << 20;

/// The memory of all processes of a coordinator.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    used: AtomicU64,
    /// A large process has the turn to go on beyond the limit. One at a time can: it ends, or exceeds its own budget, and
    /// makes room for the others.
    turn: AtomicBool,
}

impl Memory {
    /// Memory for processes that take this many bytes together.
    pub fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), turn: AtomicBool::new(false) }
    }
}

/// The memory of one process, which ends with it.
#[derive(Debug)]
pub(crate) struct ProcessMemory {
    memory: Arc<Memory>,
    /// Bytes of the process that are counted.
    counted: u64,
    /// The process has run, here or before.
    begun: bool,
    /// The process has the turn.
    has_turn: bool,
}

impl ProcessMemory {
    /// The memory of a process, which has begun elsewhere or before, or not.
    pub fn new(memory: Arc<Memory>, begun: bool) -> Self {
        Self { memory, counted: 0, begun, has_turn: false }
    }

    /// The process takes this many bytes now.
    pub fn set(&mut self, bytes: u64) {
        if bytes > self.counted {
            self.memory.used.fetch_add(bytes - self.counted, Ordering::Relaxed);
        } else if bytes < self.counted {
            self.memory.used.fetch_sub(self.counted - bytes, Ordering::Relaxed);
        }
        self.counted = bytes;
    }

    /// Why the process must wait before it does more; nothing if it may go on.
    pub fn must_wait(&mut self) -> Option<v1::SizeOverLimit> {
        let used = self.memory.used.load(Ordering::Relaxed);
        if used <= self.memory.limit {
            self.begun = true;
            self.give_back_turn();
            return None;
        }
        let may_go_on = self.begun && (self.counted < SMALL_PROCESS_BYTES || self.take_turn());
        (!may_go_on).then_some(v1::SizeOverLimit { bytes: used, limit_bytes: self.memory.limit })
    }

    fn take_turn(&mut self) -> bool {
        if !self.has_turn {
            let taken = self.memory.turn.compare_exchange(false, true, Ordering::Relaxed, Ordering::Relaxed);
            self.has_turn = taken.is_ok();
        }
        self.has_turn
    }

    fn give_back_turn(&mut self) {
        if std::mem::take(&mut self.has_turn) {
            self.memory.turn.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for ProcessMemory {
    fn drop(&mut self) {
        self.set(0);
        self.give_back_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn beyond_the_limit_new_processes_wait_and_large_ones_take_turns() {
        let memory = Arc::new(Memory::new(10 * MIB));
        let process = || ProcessMemory::new(memory.clone(), false);
        let (mut small, mut first, mut second) = (process(), process(), process());
        for process in [&mut small, &mut first, &mut second] {
            assert_eq!(process.must_wait(), None);
        }
        small.set(1000);
        first.set(6 * MIB);
        second.set(6 * MIB);
        let mut new = process();
        let full = v1::SizeOverLimit { bytes: 12 * MIB + 1000, limit_bytes: 10 * MIB };
        assert_eq!(new.must_wait(), Some(full));
        assert_eq!((small.must_wait(), first.must_wait(), second.must_wait()), (None, None, Some(full)));
        // The one that has the turn keeps it while it grows.
        first.set(8 * MIB);
        assert_eq!((first.must_wait(), second.must_wait().is_some()), (None, true));
        drop(first);
        assert_eq!((second.must_wait(), new.must_wait()), (None, None));
        drop((small, second));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }
}
