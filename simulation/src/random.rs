//! Pseudo-random numbers: the same seed gives the same world.

use fastrand::Rng;

/// The generator.
#[derive(Debug, Clone)]
pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// A number from 0 up to the bound, which is excluded.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(0..bound.max(1))
    }

    /// A number between both bounds, which are included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most)
    }

    /// True once in this many times, on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the elements, or nothing if there is none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        self.0.choice(from).cloned()
    }
}
