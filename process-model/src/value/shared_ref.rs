//! References to shared objects; the objects themselves are in [`shared`](crate::shared_objects).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A kind of shared objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SharedKind {
    /// A set of values, sorted.
    Set,
    /// A list of values.
    List,
    /// A map from simple values to values.
    Map,
    /// A number that calls add to.
    Counter,
}

impl SharedKind {
    /// All kinds.
    pub const ALL: [SharedKind; 4] = [SharedKind::Set, SharedKind::List, SharedKind::Map, SharedKind::Counter];

    /// Returns the name of the type in definitions and code.
    pub fn type_name(self) -> &'static str {
        match self {
            SharedKind::Set => "RemoteSet",
            SharedKind::List => "RemoteList",
            SharedKind::Map => "RemoteMap",
            SharedKind::Counter => "RemoteCounter",
        }
    }
}

/// A reference to a shared object, valid anywhere in the grid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedRef {
    /// Kind of the object.
    pub kind: SharedKind,
    /// Process that the object belongs to; the coordinator of that process holds the object.
    pub home: Arc<str>,
    /// Number of the object in that process.
    pub id: u64,
}
