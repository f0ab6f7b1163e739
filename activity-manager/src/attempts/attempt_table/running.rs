//! What a coordinator learns about the slots of this worker: which of its attempts have one, and how many others use.

use std::sync::Arc;

use xavantes_proto::v1;

use super::{AttemptState, AttemptTable};
use crate::attempts::realm_attempt::{CoordinatorStream, RealmAttempt};

impl<J: Clone> AttemptTable<J> {
    /// The attempts that wait for a slot, each with the coordinator that owns it.
    pub fn waiting(&self) -> impl Iterator<Item = (&RealmAttempt, &Arc<str>)> {
        let waiting = self.attempts.iter().filter(|(_, attempt)| matches!(attempt.state, AttemptState::Queued(_)));
        waiting.map(|(key, attempt)| (key, &attempt.owner))
    }

    /// The attempts of a coordinator that have slots of this worker, and the slots that others have. `None` if the coordinator has
    /// none and knows about the others. `running_ms` says for how long a job has run.
    pub fn running(&mut self, stream: &CoordinatorStream, running_ms: impl Fn(&J) -> u64) -> Option<v1::Running> {
        if !self.is_current(stream) {
            return None;
        }
        let (mut running, mut own_slots) = (v1::Running::default(), 0_u32);
        for (key, attempt) in self.attempts.iter().filter(|(_, it)| it.owner == stream.coordinator) {
            if let AttemptState::Running(job) = &attempt.state {
                running.attempts.push(key.key.to_wire());
                running.running_ms.push(running_ms(job));
                own_slots = own_slots.saturating_add(attempt.needs.at_least_one_slot().cpus);
            }
        }
        let slots_of_others = self.admission.load().slots.saturating_sub(own_slots);
        let known = match slots_of_others {
            0 => self.reported_slots.remove(&stream.coordinator),
            slots => self.reported_slots.insert(stream.coordinator.clone(), slots),
        };
        let news = !running.attempts.is_empty() || known.unwrap_or_default() != slots_of_others;
        news.then_some(v1::Running { slots_of_others, ..running })
    }
}
