//! Names of attempts and of coordinator streams, as one worker tells them apart.

use std::sync::Arc;

use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::{AttemptKey, v1};

/// Names an attempt on a worker. Two realms may use the same process name, so only the pair is unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealmAttempt {
    /// The repository that holds the process.
    pub realm: Arc<str>,
    /// The attempt within the realm.
    pub key: AttemptKey,
}

impl RealmAttempt {
    /// The attempt that a coordinator of this realm names on the wire.
    pub fn new(realm: &Arc<str>, id: &v1::AttemptId) -> Self {
        Self { realm: realm.clone(), key: id.into() }
    }

    /// An answer to this attempt.
    pub fn answer(&self, outcome: Outcome) -> v1::Answer {
        v1::Answer { id: Some(self.key.to_wire()), outcome: Some(outcome), ..v1::Answer::default() }
    }
}

/// One connection of a coordinator. When the coordinator connects again, orders on the older stream no longer count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorStream {
    /// The coordinator: its group and node.
    pub coordinator: Arc<str>,
    /// The repository that holds the coordinator's processes.
    pub realm: Arc<str>,
    /// Streams of this worker count from 1.
    pub(super) number: u64,
}

impl CoordinatorStream {
    /// The attempt that the coordinator names on this stream.
    pub fn attempt(&self, id: &v1::AttemptId) -> RealmAttempt {
        RealmAttempt::new(&self.realm, id)
    }
}
