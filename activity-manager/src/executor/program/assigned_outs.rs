//! The results that code assigns to variables.

use std::collections::BTreeMap;

use xavantes_model::definition::ActivityType;
use xavantes_model::value::{Type, Value};

/// What the code assigned to the results, by name: a value, or why it is none.
pub(super) type Assigned = BTreeMap<String, Result<Value, String>>;

/// A result that the code assigns.
pub(super) struct AssignedOut<'a> {
    pub name: &'a str,
    pub ty: Type,
    slot: usize,
    is_in: bool,
}

impl AssignedOut<'_> {
    /// The value that the variable had at the beginning, as the program saw it.
    pub fn before<'a>(&self, staged: &'a [Value]) -> Option<&'a Value> {
        staged.get(self.slot).filter(|_| self.is_in)
    }
}

/// The results that the code assigns.
pub(super) fn assigned_outs(activity: &ActivityType) -> impl Iterator<Item = AssignedOut<'_>> {
    let outs = activity.parameters.iter().enumerate().filter(|(slot, _)| activity.is_assigned(*slot));
    // Parameters of activity types have types.
    outs.filter_map(|(slot, variable)| {
        Some(AssignedOut { name: &variable.name, ty: variable.ty?, slot, is_in: variable.direction.is_in() })
    })
}
