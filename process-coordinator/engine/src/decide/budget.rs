//! The budget of a process: an element fails that would make the state larger than that.
//!
//! The check comes before the event, and its outcome is in the journal: as the failure of the element, or as a refused call.

use xavantes_model::definition::DefinitionNodeId;
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::event::ScriptOutputs;
use crate::failure::{Failure, FailureKind};

/// Elements that handle a failure or clean up may use this part of the budget in addition: one divided by this number.
pub const HANDLER_RESERVE: u64 = 4;
const MIB: f64 = (1 << 20) as f64;

impl Engine {
    /// Fails if `added` more bytes exceed the budget. They belong to `id`, or to an element at `site` in it.
    pub(crate) fn check_budget(
        &self,
        id: ElementId,
        site: Option<DefinitionNodeId>,
        added: u64,
    ) -> Result<(), Box<Failure>> {
        let size = self.state.bytes().saturating_add(added);
        if size <= self.max_bytes || added == 0 {
            return Ok(());
        }
        if size <= self.max_bytes + self.max_bytes / HANDLER_RESERVE && self.is_in_handler(id, site) {
            return Ok(());
        }
        Err(Box::new(Failure::new(FailureKind::Limit, self.over_budget(size))))
    }

    /// The message of a failure or refusal because of the budget.
    pub(crate) fn over_budget(&self, size: u64) -> String {
        format!(
            "the state of the process would take {:.1} MiB; its coordinator allows {:.1} MiB (--process-mib)",
            size as f64 / MIB,
            self.max_bytes as f64 / MIB
        )
    }

    /// The outputs of code in `id` fit into the budget.
    pub(crate) fn check_outputs(&self, id: ElementId, outputs: &ScriptOutputs) -> Result<(), Box<Failure>> {
        let sets: u64 = outputs
            .sets
            .iter()
            .map(|(target, value)| value.bytes().saturating_sub(self.assigned_value(*target).map_or(0, Value::bytes)))
            .sum();
        let calls: u64 = outputs.effects.calls.iter().map(|call| call.max_growth()).sum();
        self.check_budget(id, None, sets + calls)
    }

    /// The element, or an element at `site` in it, is part of a `CATCH` or `FINALLY`.
    fn is_in_handler(&self, id: ElementId, site: Option<DefinitionNodeId>) -> bool {
        let (mut next, mut site) = (Some(id), site);
        while let Some(instance) = next.and_then(|id| self.state.instances.get(id)) {
            let node = self.state.node(&self.program, instance);
            if site.is_some() && (site == node.catch || site == node.finally) {
                return true;
            }
            // A called process type has its own nodes.
            (next, site) = (instance.parent, Some(instance.site));
        }
        false
    }
}
