//! One word for each state and kind of the wire, as people and JSON read them.

use crate::v1::{AttemptState, Condition, FailureKind, ProcessState, TypeKind};

impl ProcessState {
    /// The word for this state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unknown",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
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

impl Condition {
    /// The word for this condition.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unknown",
            Self::Absent => "absent",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Reused => "reused",
            Self::Ended => "ended",
        }
    }

    /// The element may still run or be tried again.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Ready | Self::Running | Self::Stopping | Self::Waiting)
    }
}

impl AttemptState {
    /// The word for this state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unknown",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state that a word stands for.
    pub fn from_word(word: &str) -> Self {
        let all = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];
        all.into_iter().find(|state| state.word() == word).unwrap_or_default()
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
