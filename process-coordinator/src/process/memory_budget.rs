//! The memory of all processes of a coordinator together, and which of them wait when it is used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use xavantes_proto::v1;

/// A process that takes less than this never waits for memory once it has begun.
const SMALL_PROCESS_BYTES: u64 = 1 << 20;

/// A process that waits for memory looks for it at this interval.
pub const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// A process that has the turn, and nothing to do for this long, passes it on.
pub const TURN_PATIENCE: Duration = Duration::from_secs(10);
/// A process that passed the turn on leaves it to others for this long: all others have looked for memory since.
const TURN_PAUSE: Duration = Duration::from_millis(750);

/// The memory of all processes of a coordinator.
#[derive(Debug)]
pub struct Memory {
    limit: u64,
    /// A process that takes less than this never waits once it has begun.
    small: u64,
    used: AtomicU64,
    /// A large process has the turn to go on beyond the limit. One at a time can: it ends, or exceeds its own budget, and
    /// makes room for the others.
    turn: AtomicBool,
}

impl Memory {
    /// Memory for processes that take this many bytes together.
    pub fn new(limit: u64) -> Self {
        Self::with_small_processes(limit, SMALL_PROCESS_BYTES)
    }

    /// As [`Self::new`]; processes that take less than `small` bytes never wait for memory once they have begun.
    pub fn with_small_processes(limit: u64, small: u64) -> Self {
        Self { limit, small, used: AtomicU64::new(0), turn: AtomicBool::new(false) }
    }
}

/// The memory of one process, which ends with it.
#[derive(Debug)]
pub struct ProcessMemory {
    memory: Arc<Memory>,
    /// Bytes of the process that are counted.
    counted: u64,
    /// The process has run, here or before.
    begun: bool,
    /// The process has the turn.
    has_turn: bool,
    /// Until when the process leaves the turn to others.
    leaves_turn_until: Duration,
}

impl ProcessMemory {
    /// The memory of a process, which has begun elsewhere or before, or not.
    pub fn new(memory: Arc<Memory>, begun: bool) -> Self {
        Self { memory, counted: 0, begun, has_turn: false, leaves_turn_until: Duration::ZERO }
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

    /// Why the process must wait before it does more; nothing if it may go on. The clock, any clock, shows `now`.
    pub fn must_wait(&mut self, now: Duration) -> Option<v1::SizeOverLimit> {
        let used = self.memory.used.load(Ordering::Relaxed);
        if used <= self.memory.limit {
            self.begun = true;
            self.give_back_turn();
            return None;
        }
        let may_go_on = self.begun && (self.counted < self.memory.small || self.take_turn(now));
        (!may_go_on).then_some(v1::SizeOverLimit { bytes: used, limit_bytes: self.memory.limit })
    }

    /// Whether the process goes on beyond the limit because it has the turn.
    pub fn has_turn(&self) -> bool {
        self.has_turn
    }

    /// The process has the turn and nothing to do: it may wait for a user, or for a worker that waits for another process.
    /// Others get the turn.
    pub fn pass_turn(&mut self, now: Duration) {
        self.give_back_turn();
        self.leaves_turn_until = now + TURN_PAUSE;
    }

    fn take_turn(&mut self, now: Duration) -> bool {
        if !self.has_turn && self.leaves_turn_until <= now {
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
    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn beyond_the_limit_new_processes_wait_and_large_ones_take_turns() {
        let memory = Arc::new(Memory::new(10 * MIB));
        let process = || ProcessMemory::new(memory.clone(), false);
        let (mut small, mut first, mut second) = (process(), process(), process());
        for process in [&mut small, &mut first, &mut second] {
            assert_eq!(process.must_wait(NOW), None);
        }
        small.set(1000);
        first.set(6 * MIB);
        second.set(6 * MIB);
        let mut new = process();
        let full = v1::SizeOverLimit { bytes: 12 * MIB + 1000, limit_bytes: 10 * MIB };
        assert_eq!(new.must_wait(NOW), Some(full));
        assert_eq!((small.must_wait(NOW), first.must_wait(NOW), second.must_wait(NOW)), (None, None, Some(full)));
        // The one that has the turn keeps it while it grows.
        first.set(8 * MIB);
        assert_eq!((first.must_wait(NOW), second.must_wait(NOW).is_some()), (None, true));
        drop(first);
        assert_eq!((second.must_wait(NOW), new.must_wait(NOW)), (None, None));
        drop((small, second));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_process_with_nothing_to_do_passes_its_turn_on() {
        let memory = Arc::new(Memory::new(10 * MIB));
        let process = || ProcessMemory::new(memory.clone(), true);
        let (mut first, mut second) = (process(), process());
        first.set(6 * MIB);
        second.set(6 * MIB);
        assert_eq!((first.must_wait(NOW).is_some(), second.must_wait(NOW).is_some()), (false, true));
        assert!(first.has_turn());
        first.pass_turn(NOW);
        assert_eq!((first.must_wait(NOW).is_some(), second.must_wait(NOW).is_some()), (true, false));
        second.pass_turn(NOW);
        assert!(first.must_wait(NOW).is_some(), "it leaves the turn to others for a while");
        assert_eq!(first.must_wait(NOW + TURN_PAUSE), None);
    }
}
