//! What happens to a process: the inputs of its driver.

use xavantes_engine::Action;
use xavantes_proto::v1;

use crate::cache::cache_entry::{CacheHit, MissReason};
use crate::handover::SubtreePlace;
use crate::process::process_notes::SubtreeTotals;
use crate::workers::worker_messages::PoolNotice;
use xavantes_proto::AttemptKey;

/// An input of a process. `C` is the connection that it arrived by, `A` the asker that waits for a decision.
#[derive(Debug)]
pub enum ProcessInput<C, A> {
    /// An attempt has an answer.
    Answered {
        /// The attempt.
        key: AttemptKey,
        /// How the attempt ended.
        outcome: v1::answer::Outcome,
        /// What the answer reports beside the outcome.
        extras: Option<Box<AnswerExtras>>,
        /// Connection that waits for the acknowledgement.
        from: Option<C>,
    },
    /// A peer answered an attempt that it does not have. The answer counts for nothing.
    Doubted {
        /// The attempt.
        key: AttemptKey,
        /// Connection of the peer.
        from: Option<C>,
    },
    /// A search of the result cache has ended.
    CacheSearched(AttemptKey, Result<Box<CacheHit>, MissReason>),
    /// No worker has the attempt any more.
    Lost(AttemptKey),
    /// The pool found a coordinator for a delegated attempt.
    Placed(AttemptKey, SubtreePlace),
    /// The coordinator of a delegated attempt reports what the subtree is doing.
    SubtreeReported(AttemptKey, Box<v1::SubtreeStatus>),
    /// An attempt calls a shared object of this process.
    Called(v1::SharedCall, C),
    /// A user steers an element.
    Steered {
        /// Path of the element.
        path: String,
        /// What the user wants.
        steering: Steering,
        /// The user, as the client says it.
        by: String,
        /// The user, who waits for the decision.
        asker: A,
    },
    /// Does the process still wait for an attempt? The process says no only after it has recorded why.
    StillWanted {
        /// The attempt.
        key: AttemptKey,
        /// Waits for the decision.
        asker: A,
    },
    /// The parent cancels this subtree, perhaps not for the first time.
    ParentCancelled,
    /// The parent pauses (true) or resumes (false) this subtree.
    ParentPaused(bool),
    /// A deadline was reached.
    TimePassed,
    /// The process has more to do by itself, or more capacity to do it.
    Continued,
}

impl<C, A> ProcessInput<C, A> {
    /// Takes the outcome out of an answer to one of these attempts.
    pub fn doubt(self, attempts: &[AttemptKey]) -> Self {
        match self {
            Self::Answered { key, from, .. } if attempts.contains(&key) => Self::Doubted { key, from },
            input => input,
        }
    }

    /// The attempt of an answer that no process takes any more, and the connection that waits for the acknowledgement.
    pub fn into_unacknowledged(self) -> Option<(C, AttemptKey)> {
        match self {
            Self::Answered { key, from, .. } | Self::Doubted { key, from } => from.map(|from| (from, key)),
            _ => None,
        }
    }

    /// The input that a notice of the pool about an attempt is.
    pub fn of_notice(key: AttemptKey, notice: PoolNotice) -> Self {
        match notice {
            PoolNotice::Answered(outcome) => Self::Answered { key, outcome, extras: None, from: None },
            PoolNotice::Lost(_) => Self::Lost(key),
            PoolNotice::Placed(place) => Self::Placed(key, place),
            PoolNotice::Subtree(status) => Self::SubtreeReported(key, status),
        }
    }
}

/// What an answer reports beside its outcome.
#[derive(Debug, Default)]
pub struct AnswerExtras {
    /// What became of everything in the subtree (subtrees only).
    pub totals: Option<SubtreeTotals>,
    /// Recipes of the files among the results (subtrees only).
    pub recipes: Vec<v1::Recipe>,
    /// Resource usage of the attempt (external programs only).
    pub usage: Option<v1::Usage>,
    /// Completed activities of the subtree, for the memo, and the number of those that are missing (subtrees only).
    pub memo: (Vec<u8>, u64),
}

impl AnswerExtras {
    /// Moves the extras out of an answer; nothing if it has none.
    pub fn extract(answer: &mut v1::Answer) -> Option<Box<Self>> {
        if answer.counts.is_none() && answer.usage.is_none() {
            return None;
        }
        let history = answer.history.take().unwrap_or_default();
        let totals = answer.counts.take().map(|counts| SubtreeTotals::from_wire(counts, *history));
        let (recipes, usage) = (std::mem::take(&mut answer.recipes), answer.usage.take().map(|usage| *usage));
        let memo = (std::mem::take(&mut answer.memo), answer.memo_left_out);
        Some(Box::new(Self { totals, recipes, usage, memo }))
    }
}

/// What a user wants of an element.
#[derive(Debug, Clone)]
pub enum Steering {
    /// An action of the engine.
    Engine(Action),
    /// Give up the outstanding attempt without waiting for its answer, and retry the element.
    RetryElsewhere,
}
