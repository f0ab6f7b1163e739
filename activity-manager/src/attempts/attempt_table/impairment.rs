//! Why a worker takes no attempts for now: from nobody, because it cannot write, or from a coordinator that does not acknowledge
//! its answers.

use std::sync::Arc;

use xavantes_proto::v1;
use xavantes_proto::v1::refusal_reason;

use super::{Attempt, AttemptState, AttemptTable, Withdrawal};
use crate::attempts::action::{TableAction, WorkerReport};

impl<J: Clone> AttemptTable<J> {
    /// This worker takes no attempts for this reason, or takes them again (`None`). Coordinators get their queued attempts
    /// back.
    pub fn set_impaired(&mut self, reason: Option<v1::ImpairmentReason>) -> Vec<TableAction<J>> {
        let was_impaired = self.admission.impaired().is_some();
        if !self.admission.set_impaired(reason.clone()) {
            return Vec::new();
        }
        let mut actions: Vec<_> = self.streams.keys().map(|it| inform(it, self.impairment_for(it))).collect();
        if let Some(reason) = reason.filter(|_| !was_impaired) {
            let queued = self.attempts.iter().filter(|(_, it)| matches!(it.state, AttemptState::Queued(_)));
            let queued: Vec<_> = queued.map(|(key, _)| key.clone()).collect();
            actions.extend(self.withdraw(&queued, &Withdrawal::HandBack(refusal_reason::Kind::Impaired(reason))));
        }
        actions
    }

    /// Why this worker takes no attempts for now.
    pub fn impaired(&self) -> Option<&v1::ImpairmentReason> {
        self.admission.impaired()
    }

    /// Why a coordinator gets nothing to run: a reason of the worker, or its own.
    pub(super) fn impairment_for(&self, coordinator: &Arc<str>) -> Option<v1::ImpairmentReason> {
        self.admission.impaired().cloned().or_else(|| self.unacknowledged.reason(coordinator))
    }

    /// Tells coordinators that they have too many unacknowledged answers, or no longer. They get their queued attempts back.
    pub(in crate::attempts) fn inform_of_backlogs(&mut self) -> Vec<TableAction<J>> {
        let mut actions = Vec::new();
        for coordinator in self.unacknowledged.take_changed() {
            if let Some(reason) = self.unacknowledged.reason(&coordinator) {
                let queued = |it: &Attempt<J>| it.owner == coordinator && matches!(it.state, AttemptState::Queued(_));
                let keys: Vec<_> =
                    self.attempts.iter().filter(|(_, it)| queued(it)).map(|(key, _)| key.clone()).collect();
                actions.extend(self.withdraw(&keys, &Withdrawal::HandBack(refusal_reason::Kind::Impaired(reason))));
                actions.extend(self.start_admitted());
            }
            if self.streams.contains_key(&coordinator) {
                actions.push(inform(&coordinator, self.impairment_for(&coordinator)));
            }
        }
        actions
    }
}

/// Tells a coordinator why it gets nothing to run, or that it gets attempts again.
pub(super) fn inform<J>(coordinator: &Arc<str>, reason: Option<v1::ImpairmentReason>) -> TableAction<J> {
    TableAction::Send(coordinator.clone(), WorkerReport::Impairment(v1::Impairment { reason }))
}
