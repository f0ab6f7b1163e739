//! Retries, time-outs, the meaning of failures, and delegation.

use std::time::Duration;

/// What happens when an element fails or takes too long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Number of further attempts after the first.
    pub retries: u32,
    /// Pause before the first retry.
    pub delay: Duration,
    /// Factor by which each further pause grows.
    pub backoff: f64,
    /// Longest duration of one attempt.
    pub timeout: Option<Duration>,
    /// Effect of a failure on the controller around the element.
    pub on_failure: OnFailure,
}

impl Default for Policy {
    fn default() -> Self {
        Self { retries: 0, delay: Duration::ZERO, backoff: 2.0, timeout: None, on_failure: OnFailure::Fail }
    }
}

impl Policy {
    /// Upper bound on the pause between two attempts, unless the author asks for a longer one.
    pub const MAX_DELAY: Duration = Duration::from_secs(3600);

    /// Returns the pause before the attempt that follows `failures` failed attempts.
    pub fn delay_after(&self, failures: u32) -> Duration {
        let factor = self.backoff.powi(failures.saturating_sub(1).min(1000) as i32);
        Duration::try_from_secs_f64(self.delay.as_secs_f64() * factor)
            .unwrap_or(Self::MAX_DELAY)
            .min(Self::MAX_DELAY.max(self.delay))
    }
}

/// Effect of the failure of an element on the controller around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The controller fails too.
    Fail,
    /// The controller goes on.
    Continue,
    /// The element waits until a user retries or cancels it.
    Hold,
}

/// Whether an element may run on another coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegate {
    /// If the subtree is large enough and another coordinator has capacity.
    Auto,
    /// Whenever another coordinator is connected.
    Always,
    /// Never.
    Never,
}
