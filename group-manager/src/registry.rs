//! The nodes of a group. A node that is silent for a lease is gone, and one that speaks again is back. Whoever begins
//! to lead with what it was told, or remembers, gives each node a lease to speak.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::v1;

use crate::lending::Candidate;
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
    /// When it was heard, or when it was learned of that it had been silent for some time.
    learned: Duration,
    silent: Duration,
    /// It is gone if nothing is heard of it until then.
    until: Duration,
    /// An administrator wants it to drain.
    drain: bool,
    /// It spoke to this manager, in this life.
    heard: bool,
}

impl Entry {
    fn silent(&self, now: Duration) -> Duration {
        self.silent.saturating_add(now.saturating_sub(self.learned))
    }

    fn drains(&self) -> bool {
        self.drain || self.heartbeat.draining
    }
}

impl Registry {
    /// A node beats; true if that changes what others must know.
    pub fn beat(&mut self, heartbeat: v1::Heartbeat, now: Duration) -> bool {
        let Some(node) = heartbeat.node.as_ref().filter(|node| !node.name.is_empty()) else { return false };
        let name = node.name.clone();
        let old = self.nodes.get(&name);
        // One that was started again is not the one that was to drain.
        let drain = old.is_some_and(|old| old.drain && old.heartbeat.life == heartbeat.life);
        let changed = old.is_none_or(|old| {
            old.heartbeat.node != heartbeat.node || old.heartbeat.draining != heartbeat.draining || old.drain != drain
        });
        let entry = Entry { heartbeat, learned: now, silent: Duration::ZERO, until: now + LEASE, drain, heard: true };
        self.nodes.insert(name, entry);
        changed
    }

    /// Where another node is that has this name, and spoke here within a lease.
    pub fn taken(&self, node: &v1::NodeDescription, now: Duration) -> Option<&str> {
        let entry = self.nodes.get(&node.name).filter(|entry| entry.heard && entry.silent(now) < LEASE)?;
        let other = entry.heartbeat.node.as_ref().map(|other| other.address.as_str());
        other.filter(|address| *address != node.address)
    }

    /// The nodes that another manager knows, or this one knew before it started; all have a lease to speak.
    pub fn learn(nodes: Vec<v1::KnownNode>, now: Duration) -> Self {
        let mut registry = Self::default();
        for known in nodes {
            let Some(heartbeat) = known.heartbeat else { continue };
            let Some(name) = heartbeat.node.as_ref().map(|node| node.name.clone()) else { continue };
            let silent = Duration::from_millis(known.silent_ms);
            let entry = Entry { heartbeat, learned: now, silent, until: now + LEASE, drain: known.drain, heard: false };
            registry.nodes.insert(name, entry);
        }
        registry
    }

    /// All nodes, for another manager or for later.
    pub fn tell(&self, now: Duration) -> Vec<v1::KnownNode> {
        let known = self.nodes.values().map(|entry| v1::KnownNode {
            heartbeat: Some(entry.heartbeat.clone()),
            drain: entry.drain,
            silent_ms: entry.silent(now).as_millis() as u64,
        });
        known.collect()
    }

    /// Gives everybody a lease to speak.
    pub fn grace(&mut self, now: Duration) {
        self.nodes.values_mut().for_each(|entry| entry.until = now + LEASE);
    }

    /// Forgets the nodes that were silent for a lease, and tells their names.
    pub fn expire(&mut self, now: Duration) -> Vec<String> {
        let mut gone = Vec::new();
        self.nodes.retain(|name, entry| {
            let alive = now < entry.until;
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

    /// The workers that take work, with what they have to do.
    pub fn candidates(&self) -> Vec<Candidate> {
        let workers = self.taking(v1::Role::ActivityManager);
        let candidate = |(node, entry): (&v1::NodeDescription, &Entry)| Candidate {
            worker: node.name.clone(),
            slots: node.slots,
            busy: entry.heartbeat.busy,
        };
        workers.map(candidate).collect()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&v1::NodeDescription> {
        self.nodes.get(name)?.heartbeat.node.as_ref()
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
                silent_ms: entry.silent(now).as_millis() as u64,
                waiting: entry.heartbeat.waiting,
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
    fn a_name_is_taken_while_another_node_has_it() {
        let node =
            |address: &str| v1::NodeDescription { name: "a".into(), address: address.into(), ..Default::default() };
        let beat = v1::Heartbeat { node: Some(node("here:1")), ..Default::default() };
        let mut registry = Registry::default();
        assert_eq!(registry.taken(&node("there:1"), Duration::ZERO), None);
        registry.beat(beat, Duration::ZERO);
        assert_eq!(registry.taken(&node("there:1"), LEASE / 2), Some("here:1"));
        // It is the same node, or the other one is gone.
        assert_eq!(registry.taken(&node("here:1"), LEASE / 2), None);
        assert_eq!(registry.taken(&node("there:1"), LEASE), None);
        // Of what was only heard of nobody knows whether it is still there.
        let learned = Registry::learn(registry.tell(Duration::ZERO), Duration::ZERO);
        assert_eq!(learned.taken(&node("there:1"), Duration::ZERO), None);
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
        // Started again, it is not to drain any more.
        let again = v1::Heartbeat { life: 1, ..heartbeat("a", &[v1::Role::ActivityManager]) };
        assert!(registry.beat(again, Duration::ZERO) && !registry.wants_drain("a"));
        assert_eq!(names(&registry), ["a"]);
    }

    #[test]
    fn another_manager_gives_the_nodes_that_it_learned_of_a_lease_to_speak() {
        let second = Duration::from_secs;
        let mut here = Registry::default();
        here.beat(heartbeat("a", &[v1::Role::ActivityManager]), second(10));
        here.beat(heartbeat("b", &[v1::Role::ActivityManager]), second(11));
        here.drain("b");
        let mut there = Registry::learn(here.tell(second(12)), second(1));
        assert_eq!(names(&there), ["a"]);
        assert!(there.wants_drain("b"));
        let silent: Vec<u64> = there.nodes(second(2)).iter().map(|node| node.silent_ms).collect();
        assert_eq!(silent, [3000, 2000]);
        // It begins to lead later; one speaks, the other does not.
        there.grace(second(20));
        assert!(!there.beat(heartbeat("b", &[v1::Role::ActivityManager]), second(22)), "nothing new");
        assert!(there.wants_drain("b"), "what the administrator wanted is not forgotten");
        assert!(there.expire(second(22)).is_empty());
        assert_eq!(there.expire(second(23)), ["a"]);
        assert!(Registry::learn(vec![v1::KnownNode::default()], second(1)).nodes(second(1)).is_empty());
    }

    #[test]
    fn a_heartbeat_of_nobody_changes_nothing() {
        let mut registry = Registry::default();
        assert!(!registry.beat(v1::Heartbeat::default(), Duration::ZERO));
        assert!(!registry.beat(heartbeat("", &[]), Duration::ZERO));
        assert!(registry.nodes(Duration::ZERO).is_empty());
    }
}
