//! The ids of element instances.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of an element instance. The engine reuses an index with another generation, so an id never comes to mean
/// another element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ElementId {
    /// The element's index in the table of live elements.
    pub index: u32,
    /// The number of elements that had this index before.
    pub generation: u32,
}

impl ElementId {
    /// Generation and index in one number.
    pub fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}
