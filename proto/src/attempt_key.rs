//! The name of an attempt, the same on the wire, in tables and in journals.

use std::fmt;
use std::sync::Arc;

use crate::v1;

/// Names one numbered try to run an element.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptKey {
    /// The process that the element belongs to.
    pub process: Arc<str>,
    /// The element, by its number in the process.
    pub element: u64,
    /// Which try of the element this is, from 1.
    pub attempt: u32,
}

impl AttemptKey {
    /// The name of one try of an element.
    pub fn new(process: impl Into<Arc<str>>, element: u64, attempt: u32) -> Self {
        Self { process: process.into(), element, attempt }
    }

    /// The name as the wire carries it.
    pub fn to_wire(&self) -> v1::AttemptId {
        v1::AttemptId { process: self.process.to_string(), element: self.element, attempt: self.attempt }
    }
}

impl From<&v1::AttemptId> for AttemptKey {
    fn from(id: &v1::AttemptId) -> Self {
        Self { process: id.process.as_str().into(), element: id.element, attempt: id.attempt }
    }
}

impl fmt::Display for AttemptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:x}#{}", self.process, self.element, self.attempt)
    }
}
