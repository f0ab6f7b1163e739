//! What users change in a running process: pauses and their effect on time-outs, and the values of `set`.

use crate::apply::ApplyError;
use crate::element_id::ElementId;
use crate::event::ElementChange;
use crate::state::EngineState;
use crate::state::body::{Body, Range};
use crate::state::size::bytes_of;
use crate::time::Time;

impl EngineState {
    pub(super) fn on_resumed(&mut self, id: ElementId, shift: u64) -> Result<(), ApplyError> {
        let since = self.instance(id)?.paused.take().ok_or_else(|| ApplyError::new("resumed but not paused"))?;
        self.counts.paused -= 1;
        self.shift_deadlines(id, since, shift);
        Ok(())
    }

    /// Moves the time-outs in an element by the time of a pause that began at `since`. An element in it that is paused
    /// itself moves only by the time before its own pause; its own resume adds the rest.
    fn shift_deadlines(&mut self, id: ElementId, since: Time, shift: u64) {
        let mut pending = vec![(id, shift)];
        while let Some((id, mut shift)) = pending.pop() {
            let Some(instance) = self.instances.get_mut(id) else { continue };
            if let Some(paused) = instance.paused {
                shift = shift.min(paused.0.saturating_sub(since.0));
            }
            if shift == 0 {
                continue;
            }
            if instance.is_pausable() {
                instance.deadline = instance.deadline.map(|deadline| Time(deadline.0.saturating_add(shift)));
            }
            pending.extend(instance.children().map(|child| (child, shift)));
        }
    }

    pub(super) fn on_changed(&mut self, id: ElementId, change: &ElementChange) -> Result<(), ApplyError> {
        if let ElementChange::Parameter(element, slot, value) = change {
            let old = self.instance(id)?.inputs.insert((*element, *slot), value.clone());
            self.resize(value.bytes(), bytes_of(&old));
            return Ok(());
        }
        let instance = self.instance(id)?;
        let no_controller = || ApplyError::new("a change of an element that is no loop or parallel controller");
        match change {
            ElementChange::Parameter(..) => {}
            ElementChange::Total(total) => {
                if let Body::Loop(body) = &mut instance.body
                    && let Range::Count { total: old, .. } = &mut body.range
                {
                    *old = *total;
                }
            }
            ElementChange::MaxParallel(max) => {
                instance.body.join_mut().ok_or_else(no_controller)?.max = Some(*max);
            }
            ElementChange::Join(count) => {
                instance.body.join_mut().ok_or_else(no_controller)?.at_least = Some(*count);
            }
            ElementChange::ExitCondition(text) => {
                instance.body.join_mut().ok_or_else(no_controller)?.exit = Some(text.clone());
            }
        }
        Ok(())
    }
}
