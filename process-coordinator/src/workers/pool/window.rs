//! How much a worker may have at once: no more than it has shown to do. The window starts small, and grows with the worker's
//! answers and with the attempts that it confirms to run. A worker that leaves attempts lying gets nothing for a while, and
//! then one attempt at a time until it answers again.

use std::time::Duration;

/// Slots' worth of attempts that a worker gets before it has answered or confirmed anything.
const INITIAL_SLOTS: u32 = 64;
/// Upper bound on the window of a worker that confirms attempts but answers none.
const MAX_CONFIRMED_SLOTS: u32 = 1024;
/// Upper bound on the doublings of the time for which a worker gets nothing.
const MAX_DOUBLINGS: u32 = 4;

/// The window of one worker.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    slots: u32,
    /// How often in a row the pool took attempts back without an answer between.
    failures: u32,
    /// The worker gets nothing before this time.
    closed_until: Option<Duration>,
}

impl Default for Window {
    fn default() -> Self {
        Self { slots: INITIAL_SLOTS, failures: 0, closed_until: None }
    }
}

impl Window {
    /// How many slots' worth of attempts the worker may have.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Whether the worker may get attempts now.
    pub fn is_open(&self, now: Duration) -> bool {
        self.closed_until.is_none_or(|until| until <= now)
    }

    /// The worker answered attempts.
    pub fn on_answers(&mut self, count: usize) {
        if count > 0 {
            self.slots = self.slots.saturating_add(count.try_into().unwrap_or(u32::MAX));
            (self.failures, self.closed_until) = (0, None);
        }
    }

    /// The worker confirmed that it runs attempts on this number of slots.
    pub fn on_running(&mut self, slots: u32) {
        // A worker that left attempts lying must answer first.
        if self.failures == 0 {
            self.slots = self.slots.max(slots.saturating_mul(2).min(MAX_CONFIRMED_SLOTS));
        }
    }

    /// The pool took attempts back that did not move. Returns for how long the worker gets nothing.
    pub fn on_taken_back(&mut self, now: Duration, patience: Duration) -> Duration {
        let pause = patience * 2_u32.pow(self.failures.min(MAX_DOUBLINGS));
        *self = Self { slots: 1, failures: self.failures.saturating_add(1), closed_until: Some(now + pause) };
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn a_window_grows_with_answers_and_with_running_attempts() {
        let mut window = Window::default();
        window.on_answers(36);
        assert_eq!(window.slots(), INITIAL_SLOTS + 36);
        window.on_running(100);
        assert_eq!(window.slots(), 200);
        window.on_running(u32::MAX);
        assert_eq!(window.slots(), MAX_CONFIRMED_SLOTS);
        window.on_running(1);
        assert_eq!(window.slots(), MAX_CONFIRMED_SLOTS, "it does not shrink");
        window.on_answers(usize::MAX);
        assert_eq!(window.slots(), u32::MAX);
    }

    #[test]
    fn a_worker_that_leaves_attempts_lying_waits_longer_and_longer_until_it_answers() {
        let mut window = Window::default();
        let mut now = Duration::ZERO;
        for expected in [1, 2, 4, 8, 16, 16] {
            assert!(window.is_open(now));
            assert_eq!(window.on_taken_back(now, PATIENCE), PATIENCE * expected);
            assert!(!window.is_open(now + PATIENCE * expected / 2));
            window.on_running(8);
            assert_eq!(window.slots(), 1, "confirmations are not enough");
            now += PATIENCE * expected;
        }
        window.on_answers(1);
        assert_eq!(window.slots(), 2);
        assert_eq!(window.on_taken_back(now, PATIENCE), PATIENCE);
    }
}
