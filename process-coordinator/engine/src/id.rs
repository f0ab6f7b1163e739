//! Names of things in a running process, and time as it is handed in.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An element instance. Places are used again, but with another generation, so an id never comes to mean another element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ElementId {
    /// Its place in the state.
    pub index: u32,
    /// How often that place was used before.
    pub generation: u32,
}

impl ElementId {
    /// Both parts in one number.
    pub fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// Milliseconds since some beginning that the driver chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// So much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}
