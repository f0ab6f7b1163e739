//! How much the answers take that coordinators have not acknowledged. They are kept, in memory and on the disk, until their
//! coordinator has recorded them. So a coordinator that never acknowledges must not get more and more of them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xavantes_proto::v1;
use xavantes_proto::v1::impairment_reason;

/// Upper bound on the bytes of the answers of one coordinator beyond which it gets nothing more to run: two of the largest
/// answers. The attempts that run then still add theirs.
pub const MAX_BYTES: u64 = 128 << 20;
/// Upper bound on the number of these answers: as many as the longest queue of a worker.
pub const MAX_ANSWERS: u64 = 65_536;

/// The answers of one coordinator.
#[derive(Debug, Clone, Default)]
struct CoordinatorShare {
    answers: u64,
    bytes: u64,
    is_full: bool,
}

/// Unacknowledged answers by coordinator.
#[derive(Debug, Clone, Default)]
pub(super) struct Unacknowledged {
    shares: BTreeMap<Arc<str>, CoordinatorShare>,
    /// Coordinators that have become full or have room again.
    changed: BTreeSet<Arc<str>>,
}

impl Unacknowledged {
    /// A coordinator has one more answer to acknowledge.
    pub fn add(&mut self, coordinator: &Arc<str>, bytes: usize) {
        let share = self.shares.entry(coordinator.clone()).or_default();
        share.answers += 1;
        share.bytes += bytes as u64;
        if !share.is_full && (share.bytes > MAX_BYTES || share.answers > MAX_ANSWERS) {
            share.is_full = true;
            self.changed.insert(coordinator.clone());
        }
    }

    /// A coordinator has acknowledged an answer, or nobody wants it any more.
    pub fn remove(&mut self, coordinator: &Arc<str>, bytes: usize) {
        let Some(share) = self.shares.get_mut(coordinator) else { return };
        share.answers = share.answers.saturating_sub(1);
        share.bytes = share.bytes.saturating_sub(bytes as u64);
        // Half of the room, so that a coordinator does not change between the two with every answer.
        if share.is_full && share.bytes <= MAX_BYTES / 2 && share.answers <= MAX_ANSWERS / 2 {
            share.is_full = false;
            self.changed.insert(coordinator.clone());
        }
        if share.answers == 0 {
            self.shares.remove(coordinator);
        }
    }

    /// Why a coordinator gets nothing more to run.
    pub fn reason(&self, coordinator: &Arc<str>) -> Option<v1::ImpairmentReason> {
        let share = self.shares.get(coordinator).filter(|share| share.is_full)?;
        let backlog = v1::AnswerBacklog { answers: share.answers, bytes: share.bytes };
        Some(impairment_reason::Kind::AnswersUnacknowledged(backlog).into())
    }

    /// The coordinators that have become full or have room again since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_is_full_beyond_the_bound_until_half_is_acknowledged() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut answers = Unacknowledged::default();
        let quarter = MAX_BYTES as usize / 4;
        (0..4).for_each(|_| answers.add(&a, quarter));
        assert!(answers.reason(&a).is_none() && answers.take_changed().is_empty());
        answers.add(&a, 1);
        answers.add(&b, 1);
        assert!(answers.reason(&a).is_some() && answers.reason(&b).is_none());
        assert_eq!(answers.take_changed(), [a.clone()].into());
        answers.remove(&a, quarter);
        answers.remove(&a, quarter);
        assert!(answers.reason(&a).is_some() && answers.take_changed().is_empty());
        answers.remove(&a, 1);
        assert!(answers.reason(&a).is_none());
        assert_eq!(answers.take_changed(), [a.clone()].into());
        answers.remove(&a, quarter);
        answers.remove(&a, quarter);
        answers.remove(&b, 1);
        assert!(answers.shares.is_empty(), "nothing is left of coordinators that come no more");
    }

    #[test]
    fn many_small_answers_count_too() {
        let mut answers = Unacknowledged::default();
        let a: Arc<str> = "a".into();
        (0..MAX_ANSWERS).for_each(|_| answers.add(&a, 1));
        assert!(answers.reason(&a).is_none());
        answers.add(&a, 1);
        assert!(answers.reason(&a).is_some());
    }
}
