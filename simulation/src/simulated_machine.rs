//! The machines of a world: names, lives, and clocks that run at different speeds.

use std::sync::Arc;
use std::time::Duration;

use crate::random::Random;

/// A node, by its role and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRef {
    Coordinator(usize),
    Worker(usize),
}

impl NodeRef {
    /// The node at an address. Addresses are names: `c` or `w`, and the number.
    pub fn at_address(address: &str) -> Self {
        let number = address[1..].parse().unwrap_or_default();
        if address.starts_with('w') { Self::Worker(number) } else { Self::Coordinator(number) }
    }
}

/// What coordinators and workers have in common. Times are milliseconds of the world.
#[derive(Debug)]
pub struct SimulatedNode {
    pub name: Arc<str>,
    pub group: usize,
    pub alive: bool,
    /// Number of the current life. A crash ends a life.
    pub life: u32,
    /// Begin of this life.
    pub began: u64,
    /// End of the last life.
    pub died: u64,
    pub frozen_until: u64,
    /// For how long the clock stood still in this life.
    pub lag: u64,
    /// Speed of the clock, as a factor.
    rate: f64,
    /// Milliseconds by which the wall clock is ahead.
    ahead: u64,
}

impl SimulatedNode {
    pub fn new(name: String, group: usize, random: &mut Random) -> Self {
        let rate = 0.92 + random.below(17) as f64 / 100.0;
        let ahead = random.below(20_000);
        let (alive, life, began, died, frozen_until, lag) = (false, 0, 0, 0, 0, 0);
        Self { name: name.into(), group, alive, life, began, died, frozen_until, lag, rate, ahead }
    }

    /// The monotonic clock: time since this life began.
    pub fn clock(&self, now: u64) -> Duration {
        let passed = now.saturating_sub(self.began + self.lag);
        Duration::from_millis((passed as f64 * self.rate) as u64)
    }

    /// The wall clock: milliseconds since 1970.
    pub fn wall(&self, now: u64) -> u64 {
        1_000_000 + self.ahead + (now.saturating_sub(self.lag) as f64 * self.rate) as u64
    }
}
