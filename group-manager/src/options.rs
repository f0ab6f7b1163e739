//! The settings of a group manager.

use std::collections::BTreeMap;

/// The settings of a group manager.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Name of the group.
    pub group: String,
    /// Address of this manager.
    pub address: String,
    /// Addresses of all managers of the group, this one included, in the order of succession. May be empty if the group
    /// has only this manager.
    pub managers: Vec<String>,
    /// Addresses of managers of adjacent groups.
    pub adjacent: Vec<String>,
    /// Configured data sources: URIs by name.
    pub sources: BTreeMap<String, String>,
    /// Groups from which this group accepts work. Empty means all groups.
    pub foreign_groups: Vec<String>,
    /// Upper bound on slots that other groups may use at the same time.
    pub foreign_slots: u32,
}

impl Options {
    /// Position of this manager in the order of succession.
    pub(crate) fn position(&self) -> usize {
        self.managers.iter().position(|manager| *manager == self.address).unwrap_or(self.managers.len())
    }

    /// The other managers of the group with their positions.
    pub(crate) fn other_managers(&self) -> impl Iterator<Item = (usize, &String)> {
        self.managers.iter().enumerate().filter(|(_, manager)| **manager != self.address)
    }

    /// This group accepts work from that group. An empty `foreign_groups` accepts work from all groups, even from one
    /// that has not sent its name yet.
    pub(crate) fn accepts_work_of(&self, group: &str) -> bool {
        self.foreign_groups.is_empty() || self.foreign_groups.iter().any(|accepted| accepted == group)
    }
}
