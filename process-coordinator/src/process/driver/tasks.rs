//! Tasks that the driver has dispatched: activities and repairs for workers, subtrees for other coordinators.

use std::time::Duration;

use xavantes_engine::{Delegation, ElementId};
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

use super::Driver;
use crate::data::locations::{Need, needs};
use crate::engine_messages::subtree;
use crate::task::{Needs, Task};

impl<C, A> Driver<C, A> {
    /// The task of an activity.
    pub(super) fn task(
        &self,
        element: ElementId,
        attempt: u32,
        activity: usize,
        parameters: &[Value],
        timeout: Option<Duration>,
    ) -> Task {
        let mut job = v1::Job {
            activity: activity as u32,
            parameters: parameters.iter().map(value).collect(),
            timeout_ms: timeout.map(|timeout| timeout.as_millis().try_into().unwrap_or(u64::MAX)),
            ..self.job(element, attempt)
        };
        let files: Vec<Need> = parameters.iter().flat_map(needs).collect();
        if !files.is_empty() {
            job.relays.clone_from(&self.relays);
        }
        Task {
            key: self.key(element, attempt),
            program: self.program.clone(),
            needs: Needs::of(&self.engine.program().activities[activity]),
            files,
            avoid: self.failed_at.get(&element.bits()).cloned(),
            job,
        }
    }

    /// The task of a subtree.
    pub(super) fn subtree(&self, delegation: &Delegation) -> Task {
        let Delegation { element, attempt, .. } = *delegation;
        let captured = delegation.captured.iter().map(|(_, value)| value);
        let job = v1::Job {
            parameters: delegation.variables.iter().map(value).collect(),
            subtree: Some(v1::Subtree { no_reuse: self.lookups.disabled, ..subtree(delegation) }),
            relays: self.relays.clone(),
            recipes: self.recipes(delegation.variables.iter().chain(captured)),
            ..self.job(element, attempt)
        };
        let (key, program) = (self.key(element, attempt), self.program.clone());
        Task { key, program, needs: Needs::default(), files: Vec::new(), avoid: None, job }
    }

    fn job(&self, element: ElementId, attempt: u32) -> v1::Job {
        v1::Job {
            id: Some(v1::AttemptId { process: self.id.to_string(), element: element.bits(), attempt }),
            program: self.program.digest.clone(),
            path: self.engine.path(element),
            ..v1::Job::default()
        }
    }
}
