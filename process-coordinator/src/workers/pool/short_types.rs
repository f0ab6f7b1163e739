//! Which activity types are short. Workers get only activities of short types ahead of their slots: such an activity waits for a
//! moment, and no slot waits for the network. All others are taken for long ones, and go to free slots.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use xavantes_proto::v1;

use crate::task::Task;

/// A type is short when an activity of it is answered within this time: as long as a short activity waits ahead of the slots, and as
/// much for the network and the batches.
const SHORT_WITHIN: Duration = Duration::from_millis(250);
/// A type is not short any more when an activity of it is answered after a longer time. It exceeds [`SHORT_WITHIN`] by far, so that
/// a moment in which a node stands still does not empty the queues of all workers.
const LONG_AFTER: Duration = Duration::from_secs(1);
/// Upper bound on the known types.
const MAX_TYPES: usize = 4096;

/// An activity type: address of its program, and its number in the program.
type TypeKey = (*const v1::Program, u32);

/// The short activity types. An entry keeps the address of its program from being used for another one, but not the program.
#[derive(Debug, Default)]
pub struct ShortTypes(HashMap<(usize, u32), Weak<v1::Program>>);

/// The type of a task.
pub fn type_of(task: &Task) -> TypeKey {
    (Arc::as_ptr(&task.program), task.job.activity)
}

impl ShortTypes {
    /// Whether activities of this type are known to be short.
    pub fn contains(&self, (program, activity): TypeKey) -> bool {
        self.0.contains_key(&(program.addr(), activity))
    }

    /// A worker answered a task this long after it got it.
    pub fn on_answered(&mut self, task: &Task, took: Duration) {
        let (program, activity) = type_of(task);
        let key = (program.addr(), activity);
        if took > LONG_AFTER {
            self.0.remove(&key);
        } else if took <= SHORT_WITHIN && !self.0.contains_key(&key) {
            if self.0.len() >= MAX_TYPES {
                self.0.retain(|_, program| program.strong_count() > 0);
            }
            if self.0.len() < MAX_TYPES {
                self.0.insert(key, Arc::downgrade(&task.program));
            }
        }
    }
}
