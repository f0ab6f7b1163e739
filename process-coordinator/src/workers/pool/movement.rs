//! The progress of an attempt at a worker, and how long the pool waits for more.
//!
//! An activity may run for days. It moves as long as the worker reports that it runs. An activity with a `TIMEOUT` moves until
//! the worker should have stopped it.

use std::time::Duration;

use crate::workers::worker_messages::LossReason;

/// A report of a worker may have left it this long before the pool sees it.
const REPORT_LAG: Duration = Duration::from_millis(500);

/// What the pool knows of the progress of an attempt at a worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Movement {
    /// When the pool sent the attempt, or found the worker that has it.
    sent: Duration,
    /// When the pool sent the attempt, or the worker last reported that it runs.
    last: Duration,
    /// When the worker first reported that it runs.
    running_since: Option<Duration>,
    /// For how long it had run at that time.
    ran_before: Duration,
    /// When the pool sent it to a free slot of the worker, if no report has contradicted since. People see it as running
    /// before the first report.
    sent_to_slot: Option<Duration>,
    /// When the pool recalled it, because it did not move.
    recalled: Option<Duration>,
    /// When the pool ordered the worker to stop it.
    stopped: Option<Duration>,
}

/// What to do about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovementVerdict {
    /// It moves, or has still time.
    Wait,
    /// It has not moved for too long: the worker gives back what it has not started.
    Recall,
    /// It is lost.
    TakeBack(LossReason),
}

/// How long workers may take.
#[derive(Debug, Clone, Copy)]
pub struct MovementLimits {
    /// Time without a sign that an attempt moves.
    pub patience: Duration,
    /// Time that the worker gives programs to end.
    pub grace: Duration,
}

impl Movement {
    /// The pool sent the attempt, or found the worker that has it.
    pub fn begin(now: Duration) -> Self {
        Self { sent: now, last: now, ..Self::default() }
    }

    /// For how long the worker has had the attempt.
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.sent)
    }

    /// Whether the worker has had the attempt for longer than this time and has not reported that it runs.
    pub fn has_waited(&self, time: Duration, now: Duration) -> bool {
        self.running_since.is_none() && self.age(now) > time
    }

    /// The pool sent the attempt to a free slot of the worker.
    pub fn begin_in_slot(now: Duration) -> Self {
        Self { sent_to_slot: Some(now), ..Self::begin(now) }
    }

    /// For how long the attempt has run, as far as the pool knows; nothing if it waits for a slot of the worker.
    pub fn runs_for(&self, now: Duration) -> Option<Duration> {
        let seen = self.running_since.or(self.sent_to_slot)?;
        Some(now.saturating_sub(seen).saturating_add(self.ran_before))
    }

    /// The worker has reported that the attempt runs.
    pub fn is_reported(&self) -> bool {
        self.running_since.is_some()
    }

    /// A report of the worker does not list the attempt as running. `room` says that it may have begun since.
    pub fn on_not_running(&mut self, room: bool, now: Duration) {
        if !room || self.sent_to_slot.is_some_and(|since| now.saturating_sub(since) > REPORT_LAG) {
            self.sent_to_slot = None;
        }
    }

    /// The pool ordered the worker to stop the attempt.
    pub fn on_stopped(&mut self, now: Duration) {
        self.stopped.get_or_insert(now);
    }

    /// The worker reports that the attempt has run for this time.
    pub fn on_running(&mut self, age: Duration, now: Duration) {
        self.last = now;
        if self.running_since.is_none() {
            (self.running_since, self.ran_before) = (Some(now), age);
        }
        self.recalled = None;
    }

    /// This coordinator heard nothing for this time, through no fault of the worker.
    pub fn discount(&mut self, time: Duration, now: Duration) {
        let Self { sent, last, running_since, recalled, stopped, sent_to_slot: _, ran_before: _ } = self;
        for since in [running_since, recalled, stopped].into_iter().flatten().chain([sent, last]) {
            *since = (*since + time).min(now);
        }
    }

    /// The pool recalled the attempt.
    pub fn on_recalled(&mut self, now: Duration) {
        self.recalled = Some(now);
    }

    /// Whether the pool recalled the attempt because it did not move.
    pub fn is_recalled(&self) -> bool {
        self.recalled.is_some()
    }

    /// What to do about an attempt with this `TIMEOUT`.
    pub fn judge(&self, timeout: Option<Duration>, limits: MovementLimits, now: Duration) -> MovementVerdict {
        let MovementLimits { patience, grace } = limits;
        let passed = |since: Duration, limit: Duration| now.saturating_sub(since) > limit;
        let stop_within = grace.saturating_add(patience);
        let timed_out = match (self.running_since, timeout) {
            (Some(since), Some(timeout)) => passed(since, timeout.saturating_add(stop_within)),
            _ => false,
        };
        match self.recalled {
            _ if timed_out || self.stopped.is_some_and(|since| passed(since, stop_within)) => {
                MovementVerdict::TakeBack(LossReason::Overdue)
            }
            _ if !passed(self.last, patience) => MovementVerdict::Wait,
            None => MovementVerdict::Recall,
            Some(recalled) if passed(recalled, patience) => MovementVerdict::TakeBack(LossReason::NotMoving),
            Some(_) => MovementVerdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MovementLimits = MovementLimits { patience: Duration::from_secs(30), grace: Duration::from_secs(5) };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_silent_attempt_is_recalled_and_then_taken_back() {
        let mut movement = Movement::begin(seconds(100));
        assert_eq!(movement.judge(None, LIMITS, seconds(130)), MovementVerdict::Wait);
        assert_eq!(movement.judge(None, LIMITS, seconds(131)), MovementVerdict::Recall);
        movement.on_recalled(seconds(131));
        assert_eq!(movement.judge(None, LIMITS, seconds(161)), MovementVerdict::Wait);
        assert_eq!(movement.judge(None, LIMITS, seconds(162)), MovementVerdict::TakeBack(LossReason::NotMoving));
        // A sign of life is enough.
        movement.on_running(Duration::ZERO, seconds(162));
        assert_eq!(movement.judge(None, LIMITS, seconds(190)), MovementVerdict::Wait);
        assert_eq!(movement.judge(None, LIMITS, seconds(193)), MovementVerdict::Recall);
    }

    #[test]
    fn an_activity_may_run_for_days_but_not_beyond_its_timeout() {
        let mut movement = Movement::begin(Duration::ZERO);
        let day = 86_400;
        (1..day).for_each(|second| movement.on_running(Duration::ZERO, seconds(second)));
        assert_eq!(movement.judge(None, LIMITS, seconds(day)), MovementVerdict::Wait);
        let timeout = Some(seconds(day));
        assert_eq!(movement.judge(timeout, LIMITS, seconds(day)), MovementVerdict::Wait);
        movement.on_running(Duration::ZERO, seconds(day + 37));
        assert_eq!(
            movement.judge(timeout, LIMITS, seconds(day + 36)),
            MovementVerdict::Wait,
            "the worker may take its grace"
        );
        assert_eq!(movement.judge(timeout, LIMITS, seconds(day + 37)), MovementVerdict::TakeBack(LossReason::Overdue));
        assert_eq!(movement.judge(Some(Duration::MAX), LIMITS, seconds(day + 37)), MovementVerdict::Wait);
    }

    #[test]
    fn an_attempt_that_should_stop_is_not_waited_for_without_end() {
        let mut movement = Movement::begin(Duration::ZERO);
        movement.on_stopped(seconds(10));
        movement.on_running(Duration::ZERO, seconds(46));
        movement.on_stopped(seconds(40));
        assert_eq!(movement.judge(None, LIMITS, seconds(45)), MovementVerdict::Wait);
        assert_eq!(movement.judge(None, LIMITS, seconds(46)), MovementVerdict::TakeBack(LossReason::Overdue));
        movement.discount(seconds(10), seconds(46));
        assert_eq!(
            movement.judge(None, LIMITS, seconds(55)),
            MovementVerdict::Wait,
            "time without ears does not count"
        );
    }
}
