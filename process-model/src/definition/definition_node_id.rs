//! Positions of nodes, which other parts of a definition refer to.

use serde::{Deserialize, Serialize};

/// The position of a node in its process type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DefinitionNodeId(pub u32);

impl DefinitionNodeId {
    /// The `BODY` of a process type.
    pub const BODY: DefinitionNodeId = DefinitionNodeId(0);

    /// Returns the position as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
