//! The effects of `PRE_CODE` and `POST_CODE`: assignments, new shared objects, and calls of shared objects.

use xavantes_model::value::Value;

use crate::apply::ApplyError;
use crate::element_id::ElementId;
use crate::event::{AssignmentTarget, ScriptOutputs};
use crate::state::EngineState;
use crate::state::size::bytes_of;

impl EngineState {
    /// Applies the effects of code that ran in `id`. A shared object belongs to the scope that created it, until an
    /// assignment stores it in a variable of another scope: then it belongs to that scope.
    pub(super) fn apply_outputs(&mut self, id: ElementId, outputs: &ScriptOutputs) -> Result<(), ApplyError> {
        for created in &outputs.effects.created {
            let object = self.objects.create(created.kind);
            if object != *created {
                return Err(ApplyError::new("another shared object was created"));
            }
        }
        for call in &outputs.effects.calls {
            // The call succeeded when the code ran, on the same content.
            self.objects.call(call).map_err(ApplyError::new)?;
        }
        self.instance(id)?.owned.extend(outputs.effects.created.iter().map(|created| created.id));
        for (target, value) in &outputs.sets {
            let old = match target {
                AssignmentTarget::Variable { owner, slot } => {
                    if *owner != id {
                        self.move_objects(id, *owner, value)?;
                    }
                    let variables = &mut self.instance(*owner)?.variables;
                    let (slot, before) = (*slot as usize, variables.len());
                    if slot >= before {
                        variables.resize(slot + 1, Value::Null);
                    }
                    let new = (variables.len() - before) as u64 * Value::Null.bytes();
                    let old = std::mem::replace(&mut variables[slot], value.clone());
                    self.resize(new, 0);
                    Some(old)
                }
                AssignmentTarget::Parameter { owner, element, slot } => {
                    self.instance(*owner)?.inputs.insert((*element, *slot), value.clone())
                }
            };
            self.resize(value.bytes(), bytes_of(&old));
        }
        Ok(())
    }

    /// Makes `to` the owner of those objects in `value` that `from` owns.
    fn move_objects(&mut self, from: ElementId, to: ElementId, value: &Value) -> Result<(), ApplyError> {
        let mut given = Vec::new();
        value.each_shared(&mut |object| given.push(object.id));
        let moved: Vec<u64> = self.instance(from)?.owned.extract_if(.., |object| given.contains(object)).collect();
        self.instance(to)?.owned.extend(moved);
        Ok(())
    }
}
