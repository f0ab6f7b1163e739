//! The nodes of a group. What they say of themselves is soft state: a node that is silent for a lease is gone, and
//! one that speaks again is back.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::v1;

use crate::placement::Own;

/// A node that is silent for so long is gone.
pub const LEASE: Duration = Duration::from_secs(3);

/// The nodes of one group. Times count from some beginning that the caller chose.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    nodes: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    heartbeat: v1::Heartbeat,
    heard: Duration,
    /// An administrator wants it to drain.
    drain: bool,
}

impl Entry {
    fn drains(&self) -> bool {
        self.drain || self.heartbeat.draining
    }
}

impl Registry {
    /// A node beats; true if that changes what others must know.
    pub fn beat(&mut self, heartbeat: v1::Heartbeat, now: Duration) -> bool {
        let Some(node) = heartbeat.node.as_ref().filter(|node| !node.name.is_empty()) else { return false };
        match self.nodes.get_mut(&node.name) {
            Some(entry) => {
                let changed = entry.heartbeat.node != heartbeat.node || entry.heartbeat.draining != heartbeat.draining;
                entry.heartbeat = heartbeat;
                entry.heard = now;
                changed
            }
            None => {
                self.nodes.insert(node.name.clone(), Entry { heartbeat, heard: now, drain: false });
                true
            }
        }
    }

    /// Forgets the nodes that were silent for a lease, and tells their names.
    pub fn expire(&mut self, now: Duration) -> Vec<String> {
        let mut gone = Vec::new();
        self.nodes.retain(|name, entry| {
            let alive = now.saturating_sub(entry.heard) < LEASE;
            if !alive {
                gone.push(name.clone());
            }
            alive
        });
        gone
    }

    /// A node is to drain; false if there is no such node.
    pub fn drain(&mut self, name: &str) -> bool {
        self.nodes.get_mut(name).map(|entry| entry.drain = true).is_some()
    }

    /// Is this node to drain?
    pub fn wants_drain(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|entry| entry.drain)
    }

    /// The workers that take work.
    pub fn workers(&self) -> Vec<v1::NodeDescription> {
        self.taking(v1::Role::ActivityManager).map(|(node, _)| node.clone()).collect()
    }

    /// The workers that finish what they have.
    pub fn draining(&self) -> Vec<v1::NodeDescription> {
        self.having(v1::Role::ActivityManager)
            .filter(|(_, entry)| entry.drains())
            .map(|(node, _)| node.clone())
            .collect()
    }

    /// What is free here, as `asker` sees it.
    pub fn own(&self, asker: &str) -> Own {
        let coordinators = self.coordinators().filter(|(node, _)| node.name != asker).count();
        Own { free_slots: self.free_slots(), coordinators: coordinators as u32 }
    }

    /// Slots without work.
    pub fn free_slots(&self) -> u32 {
        let workers = self.taking(v1::Role::ActivityManager);
        workers.map(|(node, entry)| node.slots.saturating_sub(entry.heartbeat.busy)).sum()
    }

    /// The coordinators that take work, with the number of their processes.
    pub fn coordinators(&self) -> impl Iterator<Item = (&v1::NodeDescription, u32)> {
        self.taking(v1::Role::ProcessCoordinator).map(|(node, entry)| (node, entry.heartbeat.processes))
    }

    /// The worker with the most free slots, and how many.
    pub fn freest_worker(&self) -> Option<(&v1::NodeDescription, u32)> {
        let workers = self.taking(v1::Role::ActivityManager);
        let free = workers.map(|(node, entry)| (node, node.slots.saturating_sub(entry.heartbeat.busy)));
        free.max_by_key(|(_, free)| *free).filter(|(_, free)| *free > 0)
    }

    fn taking(&self, role: v1::Role) -> impl Iterator<Item = (&v1::NodeDescription, &Entry)> {
        self.having(role).filter(|(_, entry)| !entry.drains())
    }

    fn having(&self, role: v1::Role) -> impl Iterator<Item = (&v1::NodeDescription, &Entry)> {
        self.nodes
            .values()
            .filter_map(|entry| Some((entry.heartbeat.node.as_ref()?, entry)))
            .filter(move |(node, _)| node.roles.contains(&(role as i32)))
    }

    /// All nodes.
    pub fn nodes(&self, now: Duration) -> Vec<v1::NodeStatus> {
        self.nodes
            .values()
            .map(|entry| v1::NodeStatus {
                node: entry.heartbeat.node.clone(),
                busy: entry.heartbeat.busy,
                processes: entry.heartbeat.processes,
                draining: entry.drains(),
                silent_ms: now.saturating_sub(entry.heard).as_millis() as u64,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(name: &str, roles: &[v1::Role]) -> v1::Heartbeat {
        let roles = roles.iter().map(|role| *role as i32).collect();
        let node = v1::NodeDescription { name: name.into(), address: format!("{name}:1"), roles, ..Default::default() };
        v1::Heartbeat { node: Some(node), ..Default::default() }
    }

    fn names(registry: &Registry) -> Vec<String> {
        registry.workers().into_iter().map(|node| node.name).collect()
    }

    #[test]
    fn nodes_come_go_and_come_back() {
        let second = Duration::from_secs;
        let mut registry = Registry::default();
        assert!(registry.beat(heartbeat("a", &[v1::Role::ActivityManager]), second(0)));
        assert!(registry.beat(heartbeat("b", &[v1::Role::ProcessCoordinator]), second(1)));
        assert!(!registry.beat(heartbeat("b", &[v1::Role::ProcessCoordinator]), second(2)));
        assert_eq!(names(&registry), ["a"]);
        assert_eq!(registry.expire(second(3)), ["a"]);
        assert!(names(&registry).is_empty());
        assert!(registry.beat(heartbeat("a", &[v1::Role::ActivityManager]), second(4)));
        assert_eq!(names(&registry), ["a"]);
    }

    #[test]
    fn draining_workers_take_no_work_but_stay_in_sight() {
        let mut registry = Registry::default();
        registry.beat(heartbeat("a", &[v1::Role::ActivityManager]), Duration::ZERO);
        assert!(registry.drain("a"));
        assert!(!registry.drain("x"));
        assert!(registry.wants_drain("a"));
        assert!(names(&registry).is_empty());
        assert_eq!(registry.draining()[0].name, "a");
        assert!(registry.nodes(Duration::ZERO)[0].draining);
    }

    #[test]
    fn a_heartbeat_of_nobody_changes_nothing() {
        let mut registry = Registry::default();
        assert!(!registry.beat(v1::Heartbeat::default(), Duration::ZERO));
        assert!(!registry.beat(heartbeat("", &[]), Duration::ZERO));
        assert!(registry.nodes(Duration::ZERO).is_empty());
    }
}
