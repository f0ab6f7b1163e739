//! The rosters for nodes, and the summaries for other groups.

use std::time::Duration;

use xavantes_proto::v1;

use super::ManagerState;
use crate::node_registry::NODE_LEASE;

/// For this long after it began to lead, a manager expects heartbeats of further nodes.
const SETTLING_TIME: Duration = Duration::from_secs(2 * NODE_LEASE.as_secs());

impl ManagerState {
    /// The roster for a node.
    pub fn roster(&self, node: &str, now: Duration) -> v1::Roster {
        let capacity = self.registry.capacity_for(node);
        let groups = self.federation.groups(now);
        v1::Roster {
            group: self.options.group.clone(),
            workers: self.registry.workers(),
            draining: self.registry.draining(),
            drain: self.registry.wants_drain(node),
            settling: self.is_settling(now),
            free_slots: capacity.free_slots,
            other_coordinators: capacity.other_coordinators,
            foreign_free_slots: groups.iter().map(|group| group.free_slots).fold(0, u32::saturating_add),
            foreign_coordinators: groups
                .iter()
                .map(|group| group.coordinators.len() as u32)
                .fold(0, u32::saturating_add),
            epoch: self.succession.epoch(),
        }
    }

    /// A node that the roster lacks may still be there: this manager began to lead a short time ago, and does not know that
    /// all nodes have sent it a heartbeat. It knows that if it began with the nodes of its predecessor.
    fn is_settling(&self, now: Duration) -> bool {
        let has_heard_all = self.knew_nodes && self.registry.has_heard_all();
        now.saturating_sub(self.leading_since) < SETTLING_TIME && !has_heard_all
    }

    /// The summary of this group. Its number follows the clock, so that numbers grow across leaders and restarts.
    pub(crate) fn local_summary(&mut self, clock_ms: u64) -> v1::GroupSummary {
        self.summary_number = clock_ms.max(self.summary_number.saturating_add(1));
        let workers = self.registry.workers();
        let lendable = self.options.foreign_slots.saturating_sub(self.lending.total());
        let offer = |(node, processes): (&v1::NodeDescription, u32)| v1::CoordinatorOffer {
            node: node.name.clone(),
            address: node.address.clone(),
            processes,
        };
        let lendable_workers = self.registry.lendable_workers();
        let free = lendable_workers.iter().map(|worker| self.lending.free_slots(worker)).fold(0, u32::saturating_add);
        let others = self.options.other_managers().map(|(_, manager)| manager);
        v1::GroupSummary {
            group: self.options.group.clone(),
            managers: std::iter::once(&self.options.address).chain(others).cloned().collect(),
            workers: workers.len() as u32,
            slots: workers.iter().map(|worker| worker.slots).fold(0, u32::saturating_add),
            free_slots: free.min(lendable),
            coordinators: self.registry.coordinators().map(offer).collect(),
            number: self.summary_number,
            ..Default::default()
        }
    }

    /// The summaries for an adjacent group. Empty if this manager does not lead.
    pub fn summaries_for(&mut self, neighbour: &str, clock_ms: u64, now: Duration) -> v1::GroupSummaries {
        if !self.succession.leads() {
            return v1::GroupSummaries { group: self.options.group.clone(), summaries: Vec::new() };
        }
        let mut local = self.local_summary(clock_ms);
        if !self.options.accepts_work_of(neighbour) {
            local.free_slots = 0;
            local.coordinators.clear();
        }
        self.federation.summaries_for(neighbour, local, now)
    }
}
