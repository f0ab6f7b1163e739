//! A small seeded generator of pseudo-random numbers (SplitMix64): equal seeds give equal plans on every machine.
//!
//! The crate has its own, because published tables name seeds: a generator of another crate may change its numbers with
//! its version, and then no table could be repeated.

/// The generator.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// A generator whose numbers follow from the seed alone.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 up to the bound, which is excluded. A bound of 0 yields 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of a product is uniform enough for bounds far below 2^64, and faster than a division.
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number between 0 and 1; 1 is excluded.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number between both bounds; the upper bound is excluded.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number of the normal distribution with mean 0 and standard deviation 1 (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Brings the items into a random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_within_the_bounds() {
        let (mut one, mut two) = (SeededRandom::new(7), SeededRandom::new(7));
        for bound in 1..1000 {
            let number = one.below(bound);
            assert_eq!(number, two.below(bound));
            assert!(number < bound);
        }
        assert_eq!(one.below(0), 0);
        let mean = (0..10_000).map(|_| one.between(2.0, 4.0)).sum::<f64>() / 10_000.0;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn shuffling_keeps_all_items() {
        let mut items: Vec<_> = (0..50).collect();
        SeededRandom::new(1).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
