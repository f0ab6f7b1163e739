//! How a group manager is set up.

use std::collections::BTreeMap;

/// How a group manager is set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The group.
    pub group: String,
    /// Where this manager is reached.
    pub address: String,
    /// All managers of the group in the order in which they lead, this one among them; one that is alone needs none.
    pub managers: Vec<String>,
    /// Managers of adjacent groups.
    pub adjacent: Vec<String>,
    /// External data by name.
    pub sources: BTreeMap<String, String>,
    /// Groups whose work is taken; none means all.
    pub foreign_groups: Vec<String>,
    /// Slots that foreign work may use at once.
    pub foreign_slots: u32,
}

impl Options {
    /// The position of this manager among those of the group.
    pub(crate) fn place(&self) -> usize {
        self.managers.iter().position(|manager| *manager == self.address).unwrap_or(self.managers.len())
    }

    /// The other managers of the group, with their positions.
    pub(crate) fn others(&self) -> impl Iterator<Item = (usize, &String)> {
        self.managers.iter().enumerate().filter(|(_, manager)| **manager != self.address)
    }
}
