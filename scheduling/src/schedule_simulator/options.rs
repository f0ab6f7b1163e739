//! Disturbances of a simulated run, and its outcome.

use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// Disturbances. By default there are none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Where random numbers come from. Each run of each task has its own numbers, whatever happens before it.
    pub seed: u64,
    /// The standard deviation of computing times relative to their mean; the distribution is log-normal.
    pub compute_noise: f64,
    /// The standard deviation of transfer times relative to their mean.
    pub transfer_noise: f64,
    /// Whether a machine serves one transfer at a time (the one-port model). Later transfers wait in order of arrival.
    pub contention: bool,
    /// Failures per busy second. A failed attempt starts again from its beginning.
    pub failures_per_second: f64,
    /// Seconds from a failure to the next attempt.
    pub repair_seconds: f64,
}

/// More attempts of one task are not simulated: the last one succeeds.
pub(super) const MAX_ATTEMPTS: u32 = 1000;

impl Options {
    pub(super) fn random(&self, run: usize, attempt: u32) -> SeededRandom {
        SeededRandom::new(self.seed ^ (run as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(attempt) << 48))
    }
}

/// A number with mean 1 and this standard deviation.
pub(super) fn noise(deviation: f64, random: &mut SeededRandom) -> f64 {
    if deviation <= 0.0 {
        return 1.0;
    }
    let variance = (1.0 + deviation * deviation).ln();
    (variance.sqrt() * random.normal() - variance / 2.0).exp()
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedRun {
    /// When tasks really ran. With failures a task occupies its machine from its first attempt on.
    pub schedule: Schedule,
    /// When the last task ended.
    pub makespan: f64,
    /// What the machines cost.
    pub money: f64,
    /// Failed attempts.
    pub failures: u64,
    /// Events that the simulator handled.
    pub events: u64,
}
