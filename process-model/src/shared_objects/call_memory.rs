//! The calls that elements made in their current try. If the worker of an attempt is lost, the next attempt of the same try makes
//! its calls again: calls that are the same as before get the same answers and change nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object_calls::Call;
use crate::value::Value;

/// Upper bound on the calls that are remembered of one element.
const MAX_CALLS: usize = 1024;
/// Upper bound on the bytes of these calls, their arguments and answers.
const MAX_BYTES: u64 = 256 << 10;

/// The answer to a call.
pub type CallAnswer = Result<Value, String>;

/// The calls of one element, the first one first. Later calls than the bounds allow are not among them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ElementCalls {
    calls: Vec<(Call, CallAnswer)>,
    bytes: u64,
    /// A call was left out, so no later one may follow.
    full: bool,
}

/// The calls of all elements, by element.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CallMemory(BTreeMap<u64, ElementCalls>);

impl CallMemory {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The call of an element with this number, from 1, and its answer.
    pub fn get(&self, element: u64, sequence: u64) -> Option<&(Call, CallAnswer)> {
        let index = usize::try_from(sequence).ok()?.checked_sub(1)?;
        self.0.get(&element)?.calls.get(index)
    }

    /// Adds the call of an element with this number, from 1. Calls with this number or a later one are forgotten: the element
    /// does something else this time. Returns by how many bytes the memory grew.
    pub fn add(&mut self, element: u64, sequence: u64, call: &Call, answer: &CallAnswer) -> i64 {
        let element = self.0.entry(element).or_default();
        let before = element.bytes;
        let earlier = usize::try_from(sequence).unwrap_or(usize::MAX).saturating_sub(1);
        if element.calls.len() > earlier {
            element.calls.truncate(earlier);
            element.bytes = element.calls.iter().map(|(call, answer)| bytes_of(call, answer)).sum();
            element.full = false;
        }
        let bytes = bytes_of(call, answer);
        let fits = element.calls.len() < MAX_CALLS && element.bytes + bytes <= MAX_BYTES;
        if element.full || element.calls.len() != earlier || !fits {
            element.full = true;
        } else {
            element.bytes += bytes;
            element.calls.push((call.clone(), answer.clone()));
        }
        element.bytes as i64 - before as i64
    }

    /// Forgets the calls of an element. Returns their bytes.
    pub fn remove(&mut self, element: u64) -> u64 {
        self.0.remove(&element).map_or(0, |calls| calls.bytes)
    }

    /// The bytes of all calls.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|calls| calls.bytes).sum()
    }
}

/// The bytes of a call and its answer, approximately.
fn bytes_of(call: &Call, answer: &CallAnswer) -> u64 {
    let answer = match answer {
        Ok(value) => value.bytes(),
        Err(message) => message.len() as u64,
    };
    size_of::<(Call, CallAnswer)>() as u64 + answer + call.arguments.iter().map(Value::bytes).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_objects::object_calls::Method;

    fn call(number: i64) -> Call {
        Call { object: 0, method: Method::Add, arguments: vec![Value::Int(number)] }
    }

    fn answer(number: i64) -> CallAnswer {
        Ok(Value::Int(number))
    }

    #[test]
    fn calls_are_remembered_in_order_until_the_element_does_something_else() {
        let mut memory = CallMemory::default();
        for number in 1..=3 {
            memory.add(7, number as u64, &call(number), &answer(number));
        }
        assert_eq!(memory.get(7, 2), Some(&(call(2), answer(2))));
        assert_eq!((memory.get(7, 0), memory.get(7, 4), memory.get(8, 1)), (None, None, None));
        memory.add(7, 2, &call(20), &answer(20));
        assert_eq!((memory.get(7, 2), memory.get(7, 3)), (Some(&(call(20), answer(20))), None));
        memory.remove(7);
        assert!(memory.is_empty());
    }

    #[test]
    fn what_is_remembered_of_an_element_is_bounded() {
        let mut memory = CallMemory::default();
        for number in 1..=2000 {
            memory.add(1, number as u64, &call(number), &answer(number));
        }
        assert!(memory.get(1, MAX_CALLS as u64).is_some() && memory.get(1, MAX_CALLS as u64 + 1).is_none());
        let large = Call { arguments: vec![Value::Str("x".repeat(MAX_BYTES as usize).into())], ..call(1) };
        memory.add(2, 1, &call(1), &answer(1));
        memory.add(2, 2, &large, &answer(2));
        memory.add(2, 3, &call(3), &answer(3));
        assert!(memory.get(2, 1).is_some() && memory.get(2, 2).is_none() && memory.get(2, 3).is_none());
    }
}
