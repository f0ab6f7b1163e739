//! One word for each state and kind of the wire, as people and JSON read them.

use crate::v1::{Counts, FailureKind, State, TypeKind};

impl State {
    /// The word for this state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unknown",
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Held => "held",
            Self::Stopping => "stopping",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Ended => "ended",
        }
    }

    /// The state that a word stands for.
    pub fn from_word(word: &str) -> Self {
        let all = [
            Self::Waiting,
            Self::Queued,
            Self::Running,
            Self::Paused,
            Self::Held,
            Self::Stopping,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
            Self::Ended,
        ];
        all.into_iter().find(|state| state.word() == word).unwrap_or_default()
    }

    /// What is in this state has ended.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Ended)
    }

    /// What is in this state has begun or will begin, and has not ended.
    pub fn is_live(self) -> bool {
        !self.is_ended() && self != Self::Unspecified
    }
}

impl FailureKind {
    /// The word for this kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unknown",
            Self::Code => "code",
            Self::Exit => "exit",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Parameter => "parameter",
            Self::Limit => "limit",
            Self::Worker => "worker",
        }
    }
}

impl TypeKind {
    /// The word for this kind of type.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unknown",
            Self::Process => "process",
            Self::Activity => "activity",
        }
    }
}

impl Counts {
    /// Adds counts of another coordinator, which may report any numbers.
    pub fn add(&mut self, other: &Counts) {
        let Counts { completed, failed, attempts, running, reused, queued, waiting, held } = self;
        let sums = [
            (completed, other.completed),
            (failed, other.failed),
            (attempts, other.attempts),
            (running, other.running),
            (reused, other.reused),
            (queued, other.queued),
            (waiting, other.waiting),
            (held, other.held),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }

    /// These counts when their coordinator is silent: nobody knows what runs there.
    pub fn unheard(self) -> Counts {
        let waiting = self.waiting.saturating_add(self.running).saturating_add(self.queued);
        Counts { running: 0, queued: 0, waiting, ..self }
    }

    /// The state of what has activities in these states, if any of them has begun and not ended.
    pub fn state(&self) -> Option<State> {
        match self {
            Counts { running: 1.., .. } => Some(State::Running),
            Counts { queued: 1.., .. } => Some(State::Queued),
            Counts { waiting: 1.., .. } => Some(State::Waiting),
            Counts { held: 1.., .. } => Some(State::Held),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_of_its_own() {
        for number in 1..=10 {
            let state = State::try_from(number).unwrap();
            assert_eq!(State::from_word(state.word()), state);
            assert_ne!(state.is_live(), state.is_ended());
        }
        assert_eq!(State::from_word("ready"), State::Unspecified);
    }

    #[test]
    fn what_has_come_furthest_decides() {
        let counts = |running, queued, waiting, held| Counts { running, queued, waiting, held, ..Counts::default() };
        assert_eq!(counts(1, 1, 1, 1).state(), Some(State::Running));
        assert_eq!(counts(0, 1, 1, 1).state(), Some(State::Queued));
        assert_eq!(counts(0, 0, 1, 1).state(), Some(State::Waiting));
        assert_eq!(counts(0, 0, 0, 1).state(), Some(State::Held));
        assert_eq!(counts(0, 0, 0, 0).state(), None);
        assert_eq!(counts(2, 3, 4, 5).unheard(), counts(0, 0, 9, 5));
    }
}
