//! How many answers a worker gives in a second while it has work. The pool sends a worker as many attempts ahead of its
//! slots as the worker answers in a moment, so that fast workers never wait for the network and slow ones leave work
//! for others.

use std::time::Duration;

/// Shortest working time over which the pool computes a rate.
const MIN_MEASURED: Duration = Duration::from_millis(5);
/// Fewest answers for each slot over which the pool computes a rate, because all slots may answer at the same time.
const MIN_ANSWERS_PER_SLOT: u32 = 4;
/// A worker that gives fewer answers in this working time is slow: the pool computes its rate from what there is, and
/// recalls queued attempts at this interval.
pub const SLOW_AFTER: Duration = Duration::from_secs(1);

/// A measurement of the answers of one worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Start of the working time that `busy` does not include yet; `None` while the worker is idle.
    since: Option<Duration>,
    /// Working time of the current measurement.
    busy: Duration,
    /// Answers in the current measurement.
    answers: u32,
    /// Answers per second in the last complete measurement.
    rate: Option<f64>,
}

impl Pace {
    /// Records whether the worker has work from now on.
    pub fn set_working(&mut self, works: bool, now: Duration) {
        self.busy += self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.since = works.then_some(now);
    }

    /// Counts answers of a worker with this number of slots, and completes the measurement when it is long enough.
    pub fn count(&mut self, answers: usize, slots: u32) {
        self.answers = self.answers.saturating_add(answers as u32);
        let enough = self.answers >= slots.saturating_mul(MIN_ANSWERS_PER_SLOT) && self.busy >= MIN_MEASURED;
        if enough || self.is_slow() {
            self.rate = Some(f64::from(self.answers) / self.busy.as_secs_f64());
            (self.busy, self.answers) = (Duration::ZERO, 0);
        }
    }

    /// Whether the current measurement exceeds the time after which the pool treats the worker as slow.
    pub fn is_slow(&self) -> bool {
        self.busy >= SLOW_AFTER
    }

    /// Answers to expect in this time, once a measurement is complete.
    pub fn expected_in(&self, time: Duration) -> Option<u32> {
        self.rate.map(|rate| (rate * time.as_secs_f64()) as u32)
    }
}
