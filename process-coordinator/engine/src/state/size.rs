//! The size of a state: the bytes of all values in it, which the budget of a process bounds.
//!
//! `apply` adds what an event brings into the state and subtracts what it takes out. So the size follows without counting
//! everything again, at a cost that follows the size of the event.

use xavantes_model::value::Value;

use crate::state::EngineState;
use crate::state::body::{Body, Range};
use crate::state::instance::{Instance, Phase};

/// Bytes of a live element beside its values.
pub(crate) const INSTANCE_BYTES: u64 = size_of::<Instance>() as u64;

/// Bytes of values.
#[inline]
pub(crate) fn bytes_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> u64 {
    values.into_iter().map(Value::bytes).sum()
}

impl EngineState {
    /// The bytes of all values in the state, approximately. The same for a state and its snapshot.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.objects.bytes()
    }

    /// The bytes of all values outside of shared objects, counted anew.
    pub(crate) fn count_bytes(&self) -> u64 {
        let instances = self.instances.ids().filter_map(|id| self.instances.get(id)).map(Instance::bytes).sum::<u64>();
        let instances = instances + self.unfinished.values().map(|it| it.instance.bytes()).sum::<u64>();
        let results = self.ended.iter().flat_map(|(_, results)| results.values());
        instances + bytes_of(&self.initial) + bytes_of(self.captured.values()) + bytes_of(results)
    }

    /// Corrects the size by what came into the state and what left it.
    #[inline]
    pub(crate) fn resize(&mut self, added: u64, removed: u64) {
        self.bytes = (self.bytes + added).saturating_sub(removed);
    }
}

impl Instance {
    /// The bytes of the element and its values.
    pub fn bytes(&self) -> u64 {
        let kept = self.kept.values().flatten();
        INSTANCE_BYTES
            + bytes_of(self.variables.iter().chain(self.inputs.values()).chain(kept))
            + self.body.bytes()
            + self.phase.bytes()
    }
}

impl Body {
    /// The bytes of the values that a loop iterates over, and of those that it collected.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Body::Loop(body) => body.range.bytes() + bytes_of(&body.join.results),
            _ => 0,
        }
    }
}

impl Range {
    /// The bytes of the values that a loop iterates over.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Range::List(items) => bytes_of(&**items),
            Range::Grid(axes, _) => axes.iter().map(|axis| bytes_of(&**axis)).sum(),
            Range::Count { .. } | Range::Open => 0,
        }
    }
}

impl Phase {
    /// The bytes of the values that belong to the phase.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Phase::Finishing { collected, .. } => bytes_of(collected),
            Phase::Outstanding(attempt) if !attempt.calls.is_empty() => {
                let answers = attempt.calls.values().flat_map(|window| &window.answers);
                answers.map(|(_, answer)| answer_bytes(answer)).sum()
            }
            _ => 0,
        }
    }
}

/// The bytes of an answer to a call of a shared object.
pub(crate) fn answer_bytes(answer: &Result<Value, String>) -> u64 {
    match answer {
        Ok(value) => value.bytes(),
        Err(message) => message.len() as u64,
    }
}
