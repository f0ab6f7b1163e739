//! The wall clock, and a clock for decisions that a wrong wall clock must not cause.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

const HOUR_MS: u64 = 3600 * 1000;
/// A difference between the wall clock and the monotonic clock up to this is no jump.
const MAX_DRIFT_MS: u64 = HOUR_MS;
/// A coordinator that was off for no longer than this trusts the wall clock at once.
const MAX_DOWNTIME_MS: u64 = 24 * HOUR_MS;
/// After a jump forward, the wall clock counts when it has been steady for this long.
const TRUST_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A clock that follows the wall clock, except that it ignores a jump forward until the wall clock has been steady for a day.
/// It is made for decisions that remove something: a clock that is late only delays them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CautiousClock {
    trusted_ms: u64,
    wall_ms: u64,
    /// How long the wall clock has gone like the monotonic clock.
    steady: Duration,
}

impl CautiousClock {
    /// A clock that starts when the wall clock shows `wall_ms`. `known_ms` is a time that has passed for certain.
    pub fn new(known_ms: u64, wall_ms: u64) -> Self {
        let is_near = wall_ms <= known_ms.saturating_add(MAX_DOWNTIME_MS);
        Self { trusted_ms: if is_near { wall_ms } else { known_ms }, wall_ms, steady: Duration::ZERO }
    }

    /// The wall clock shows `wall_ms`, and `elapsed` has passed on the monotonic clock since the last call. Returns the time
    /// that decisions are based on.
    pub fn advance(&mut self, wall_ms: u64, elapsed: Duration) -> u64 {
        let elapsed_ms = elapsed.as_millis() as u64;
        let jumped = wall_ms.abs_diff(self.wall_ms.saturating_add(elapsed_ms)) > MAX_DRIFT_MS;
        self.steady = if jumped { Duration::ZERO } else { self.steady.saturating_add(elapsed) };
        self.wall_ms = wall_ms;
        self.trusted_ms = self.trusted_ms.saturating_add(elapsed_ms);
        if wall_ms <= self.trusted_ms.saturating_add(MAX_DRIFT_MS) || self.steady >= TRUST_AFTER {
            self.trusted_ms = wall_ms;
        }
        self.trusted_ms
    }

    /// Whether the clock ignores a jump of the wall clock at present.
    pub fn ignores_jump(&self) -> bool {
        self.wall_ms > self.trusted_ms.saturating_add(MAX_DRIFT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * HOUR_MS;
    const NOW: u64 = 1_000 * DAY_MS;
    const MINUTE: Duration = Duration::from_secs(60);
    const MINUTE_MS: u64 = 60_000;

    #[test]
    fn a_jump_forward_counts_after_a_steady_day() {
        let mut clock = CautiousClock::new(NOW, NOW);
        assert_eq!(clock.advance(NOW + MINUTE_MS, MINUTE), NOW + MINUTE_MS);
        let mut wall = NOW + 40 * DAY_MS;
        for minutes in 2..24 * 60 {
            wall += MINUTE_MS;
            assert_eq!(clock.advance(wall, MINUTE), NOW + minutes * MINUTE_MS);
            assert!(clock.ignores_jump());
        }
        for _ in 0..5 {
            wall += MINUTE_MS;
            clock.advance(wall, MINUTE);
        }
        assert_eq!(clock.advance(wall + MINUTE_MS, MINUTE), wall + MINUTE_MS);
        assert!(!clock.ignores_jump());
    }

    #[test]
    fn a_clock_that_jumps_again_and_again_is_never_trusted() {
        let mut clock = CautiousClock::new(NOW, NOW);
        let mut wall = NOW;
        for minutes in 1..3 * 24 * 60 {
            wall += if minutes % 600 == 1 { 2 * DAY_MS } else { MINUTE_MS };
            assert_eq!(clock.advance(wall, MINUTE), NOW + minutes * MINUTE_MS);
        }
    }

    #[test]
    fn a_correction_counts_at_once() {
        let mut clock = CautiousClock::new(NOW, NOW);
        clock.advance(NOW + 40 * DAY_MS, MINUTE);
        assert!(clock.ignores_jump());
        assert_eq!(clock.advance(NOW + 2 * MINUTE_MS, MINUTE), NOW + 2 * MINUTE_MS);
        assert!(!clock.ignores_jump());
        assert_eq!(clock.advance(NOW - 40 * DAY_MS, MINUTE), NOW - 40 * DAY_MS);
    }

    #[test]
    fn a_start_long_after_the_last_known_time_is_a_jump() {
        assert_eq!(CautiousClock::new(NOW, NOW + DAY_MS).advance(NOW + DAY_MS, Duration::ZERO), NOW + DAY_MS);
        let mut clock = CautiousClock::new(NOW, NOW + 40 * DAY_MS);
        assert_eq!(clock.advance(NOW + 40 * DAY_MS, Duration::ZERO), NOW);
        let later = NOW + 41 * DAY_MS;
        assert_eq!(clock.advance(later, TRUST_AFTER), later);
    }
}
