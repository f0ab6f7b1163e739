//! The nodes of a group. A node without a heartbeat for the duration of a lease is lost; its next heartbeat brings it
//! back. A manager that begins to lead gives each node that it knows from elsewhere a lease for its first heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::message_limits::{self, InvalidField};
use xavantes_proto::{Message, v1};

use crate::lending::LendableWorker;
use crate::placement::LocalCapacity;

/// Upper bound on the nodes of a group.
const MAX_NODES: usize = 10_000;
/// Upper bound on the description of one node, and of all nodes together: every roster fits into one message.
const MAX_DESCRIPTION_BYTES: usize = 4 << 10;
const MAX_DESCRIPTIONS_BYTES: usize = 3 << 20;

/// Why a node cannot be in the group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// A field of the description is not valid.
    #[error("{0}")]
    Invalid(InvalidField),
    /// The description is too long.
    #[error("the description of the node has {0} bytes; at most {MAX_DESCRIPTION_BYTES} are allowed: use fewer tags")]
    TooLong(usize),
    /// The group is full.
    #[error("the group has {0} nodes; it can have at most {MAX_NODES}")]
    TooManyNodes(usize),
    /// The descriptions of all nodes together would be too long.
    #[error("the nodes of the group describe themselves with {0} bytes; at most {MAX_DESCRIPTIONS_BYTES} are allowed")]
    TooManyBytes(usize),
}

impl From<JoinRefusal> for tonic::Status {
    fn from(refusal: JoinRefusal) -> Self {
        match refusal {
            JoinRefusal::Invalid(_) | JoinRefusal::TooLong(_) => Self::invalid_argument(refusal.to_string()),
            _ => Self::resource_exhausted(refusal.to_string()),
        }
    }
}

/// A node without a heartbeat for this long is lost. So is a manager of the group without a message.
pub(crate) const NODE_LEASE: Duration = Duration::from_secs(3);

/// The nodes of one group. Times count from a beginning that the caller chose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    /// By name.
    nodes: BTreeMap<String, RegisteredNode>,
    /// Encoded size of the descriptions.
    bytes: usize,
}

#[derive(Debug, Clone)]
struct RegisteredNode {
    /// Last heartbeat.
    heartbeat: v1::Heartbeat,
    /// Time at which this manager received the heartbeat, from the node or from another manager.
    received: Duration,
    /// Age of the heartbeat when this manager received it.
    age_when_received: Duration,
    /// The node is lost if its next heartbeat does not arrive before this time.
    lease_until: Duration,
    /// An administrator wants the node to drain.
    drain: bool,
    /// The node itself sent the heartbeat to this manager.
    direct: bool,
}

impl RegisteredNode {
    /// Time since the last heartbeat.
    fn silent(&self, now: Duration) -> Duration {
        self.age_when_received.saturating_add(now.saturating_sub(self.received))
    }

    fn is_draining(&self) -> bool {
        self.drain || self.heartbeat.draining
    }

    fn bytes(&self) -> usize {
        self.heartbeat.node.as_ref().map_or(0, Message::encoded_len)
    }

    /// Slots in use. A worker that takes no work for now has no free slot.
    fn busy(&self) -> u32 {
        if self.heartbeat.impaired.is_some() { u32::MAX } else { self.heartbeat.busy }
    }
}

impl Registry {
    /// Registers a heartbeat. Returns whether all nodes must learn about a change. A refused heartbeat changes nothing.
    pub(crate) fn on_heartbeat(&mut self, heartbeat: v1::Heartbeat, now: Duration) -> Result<bool, JoinRefusal> {
        let heartbeat = bounded(heartbeat);
        let unnamed = v1::NodeDescription::default();
        let node = heartbeat.node.as_ref().unwrap_or(&unnamed);
        let name = node.name.clone();
        let old = self.nodes.get(&name);
        let former_bytes = match old {
            Some(old) if old.heartbeat.node == heartbeat.node => None,
            Some(old) => Some(old.bytes()),
            None if self.nodes.len() >= MAX_NODES => return Err(JoinRefusal::TooManyNodes(self.nodes.len())),
            None => Some(0),
        };
        if let Some(former_bytes) = former_bytes {
            let total = self.bytes - former_bytes + check_description(node)?;
            if total > MAX_DESCRIPTIONS_BYTES {
                return Err(JoinRefusal::TooManyBytes(total));
            }
            self.bytes = total;
        }
        // A restart ends the wish to drain.
        let drain = old.is_some_and(|old| old.drain && old.heartbeat.life == heartbeat.life);
        let changed = old.is_none_or(|old| {
            old.heartbeat.node != heartbeat.node
                || old.heartbeat.draining != heartbeat.draining
                || old.heartbeat.impaired != heartbeat.impaired
                || old.drain != drain
        });
        let entry = RegisteredNode {
            heartbeat,
            received: now,
            age_when_received: Duration::ZERO,
            lease_until: now + NODE_LEASE,
            drain,
            direct: true,
        };
        self.nodes.insert(name, entry);
        Ok(changed)
    }

    /// Address of another node that has the name of this node and sent a heartbeat to this manager within a lease.
    pub(crate) fn conflicting_address(&self, node: &v1::NodeDescription, now: Duration) -> Option<&str> {
        let entry = self.nodes.get(&node.name).filter(|entry| entry.direct && entry.silent(now) < NODE_LEASE)?;
        let other = entry.heartbeat.node.as_ref().map(|other| other.address.as_str());
        other.filter(|address| *address != node.address)
    }

    /// The nodes that another manager sent or the repository holds. All get a lease for their first heartbeat. Leaves out
    /// nodes that could not have joined.
    pub(crate) fn from_wire(nodes: Vec<v1::KnownNode>, now: Duration) -> Self {
        let mut registry = Self::default();
        for known in nodes.into_iter().take(MAX_NODES) {
            let Some(heartbeat) = known.heartbeat.map(bounded) else { continue };
            let Some(node) = &heartbeat.node else { continue };
            let Ok(bytes) = check_description(node) else { continue };
            if registry.bytes + bytes > MAX_DESCRIPTIONS_BYTES || registry.nodes.contains_key(&node.name) {
                continue;
            }
            registry.bytes += bytes;
            let name = node.name.clone();
            let entry = RegisteredNode {
                heartbeat,
                received: now,
                age_when_received: Duration::from_millis(known.silent_ms),
                lease_until: now + NODE_LEASE,
                drain: known.drain,
                direct: false,
            };
            registry.nodes.insert(name, entry);
        }
        registry
    }

    /// The group has no nodes.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every node has sent a heartbeat to this manager.
    pub(crate) fn has_heard_all(&self) -> bool {
        self.nodes.values().all(|node| node.direct)
    }

    /// All nodes, for other managers and for the repository.
    pub(crate) fn to_wire(&self, now: Duration) -> Vec<v1::KnownNode> {
        let known = self.nodes.values().map(|entry| v1::KnownNode {
            heartbeat: Some(entry.heartbeat.clone()),
            drain: entry.drain,
            silent_ms: entry.silent(now).as_millis() as u64,
        });
        known.collect()
    }

    /// Gives all nodes a new lease.
    pub(crate) fn extend_leases(&mut self, now: Duration) {
        self.nodes.values_mut().for_each(|entry| entry.lease_until = now + NODE_LEASE);
    }

    /// Removes the nodes whose lease has expired. Returns their names.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<String> {
        let mut lost = Vec::new();
        self.nodes.retain(|name, entry| {
            let alive = now < entry.lease_until;
            if !alive {
                lost.push(name.clone());
            }
            alive
        });
        if !lost.is_empty() {
            self.bytes = self.nodes.values().map(RegisteredNode::bytes).sum();
        }
        lost
    }

    /// Notes that an administrator wants a node to drain. Returns whether the node exists.
    pub(crate) fn drain(&mut self, name: &str) -> bool {
        self.nodes.get_mut(name).map(|entry| entry.drain = true).is_some()
    }

    /// An administrator wants this node to drain.
    pub(crate) fn wants_drain(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|entry| entry.drain)
    }

    /// Workers that accept work.
    pub(crate) fn workers(&self) -> Vec<v1::NodeDescription> {
        self.accepting(v1::Role::ActivityManager).map(|(node, _)| node.clone()).collect()
    }

    /// Workers that finish their work and accept no more.
    pub(crate) fn draining(&self) -> Vec<v1::NodeDescription> {
        self.with_role(v1::Role::ActivityManager)
            .filter(|(_, entry)| entry.is_draining())
            .map(|(node, _)| node.clone())
            .collect()
    }

    /// Free capacity of the group, without the node that asks.
    pub(crate) fn capacity_for(&self, asker: &str) -> LocalCapacity {
        let coordinators = self.coordinators().filter(|(node, _)| node.name != asker).count();
        LocalCapacity { free_slots: self.free_slots(), other_coordinators: coordinators as u32 }
    }

    /// Slots without work on workers that accept work.
    pub(crate) fn free_slots(&self) -> u32 {
        let workers = self.accepting(v1::Role::ActivityManager);
        workers.map(|(node, entry)| node.slots.saturating_sub(entry.busy())).fold(0, u32::saturating_add)
    }

    /// Coordinators that accept work, each with the number of its processes.
    pub(crate) fn coordinators(&self) -> impl Iterator<Item = (&v1::NodeDescription, u32)> {
        self.accepting(v1::Role::ProcessCoordinator).map(|(node, entry)| (node, entry.heartbeat.processes))
    }

    /// Workers that accept work, with their load.
    pub(crate) fn lendable_workers(&self) -> Vec<LendableWorker> {
        let workers = self.accepting(v1::Role::ActivityManager);
        let lendable = |(node, entry): (&v1::NodeDescription, &RegisteredNode)| LendableWorker {
            worker: node.name.clone(),
            slots: node.slots,
            busy: entry.busy(),
        };
        workers.map(lendable).collect()
    }

    /// The description of a node.
    pub(crate) fn node(&self, name: &str) -> Option<&v1::NodeDescription> {
        self.nodes.get(name)?.heartbeat.node.as_ref()
    }

    /// Nodes with a role that accept work.
    fn accepting(&self, role: v1::Role) -> impl Iterator<Item = (&v1::NodeDescription, &RegisteredNode)> {
        self.with_role(role).filter(|(_, entry)| !entry.is_draining())
    }

    /// Nodes with a role.
    fn with_role(&self, role: v1::Role) -> impl Iterator<Item = (&v1::NodeDescription, &RegisteredNode)> {
        self.nodes
            .values()
            .filter_map(|entry| Some((entry.heartbeat.node.as_ref()?, entry)))
            .filter(move |(node, _)| node.roles.contains(&(role as i32)))
    }

    /// The status of all nodes.
    pub(crate) fn statuses(&self, now: Duration) -> Vec<v1::NodeStatus> {
        self.nodes
            .values()
            .map(|entry| v1::NodeStatus {
                node: entry.heartbeat.node.clone(),
                busy: entry.heartbeat.busy,
                processes: entry.heartbeat.processes,
                draining: entry.is_draining(),
                silent_ms: entry.silent(now).as_millis() as u64,
                waiting: entry.heartbeat.waiting,
                impaired: entry.heartbeat.impaired.clone(),
            })
            .collect()
    }
}

/// Checks the description of a node. Returns its size.
fn check_description(node: &v1::NodeDescription) -> Result<usize, JoinRefusal> {
    message_limits::check_node(node).map_err(JoinRefusal::Invalid)?;
    match node.encoded_len() {
        bytes if bytes > MAX_DESCRIPTION_BYTES => Err(JoinRefusal::TooLong(bytes)),
        bytes => Ok(bytes),
    }
}

/// A heartbeat without a long text: lists and other managers get it with those of all nodes.
fn bounded(mut heartbeat: v1::Heartbeat) -> v1::Heartbeat {
    heartbeat.impaired.iter_mut().for_each(message_limits::bound_impairment);
    // The group is the same for all nodes.
    heartbeat.group.clear();
    heartbeat
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
    fn a_name_conflicts_while_another_node_has_it() {
        let node =
            |address: &str| v1::NodeDescription { name: "a".into(), address: address.into(), ..Default::default() };
        let beat = v1::Heartbeat { node: Some(node("here:1")), ..Default::default() };
        let mut registry = Registry::default();
        assert_eq!(registry.conflicting_address(&node("there:1"), Duration::ZERO), None);
        registry.on_heartbeat(beat, Duration::ZERO).unwrap();
        assert_eq!(registry.conflicting_address(&node("there:1"), NODE_LEASE / 2), Some("here:1"));
        // The same node, or the lease of the other node has expired.
        assert_eq!(registry.conflicting_address(&node("here:1"), NODE_LEASE / 2), None);
        assert_eq!(registry.conflicting_address(&node("there:1"), NODE_LEASE), None);
        // Nodes that another manager sent do not conflict, because they may be lost.
        let learned = Registry::from_wire(registry.to_wire(Duration::ZERO), Duration::ZERO);
        assert_eq!(learned.conflicting_address(&node("there:1"), Duration::ZERO), None);
    }

    #[test]
    fn a_lost_node_comes_back_with_its_next_heartbeat() {
        let second = Duration::from_secs;
        let mut registry = Registry::default();
        let beat =
            |registry: &mut Registry, name, role, at| registry.on_heartbeat(heartbeat(name, &[role]), second(at));
        assert_eq!(beat(&mut registry, "a", v1::Role::ActivityManager, 0), Ok(true));
        assert_eq!(beat(&mut registry, "b", v1::Role::ProcessCoordinator, 1), Ok(true));
        assert_eq!(beat(&mut registry, "b", v1::Role::ProcessCoordinator, 2), Ok(false));
        assert_eq!(names(&registry), ["a"]);
        assert_eq!(registry.expire(second(3)), ["a"]);
        assert!(names(&registry).is_empty());
        assert_eq!(beat(&mut registry, "a", v1::Role::ActivityManager, 4), Ok(true));
        assert_eq!(names(&registry), ["a"]);
    }

    #[test]
    fn draining_workers_accept_no_work_but_stay_listed() {
        let mut registry = Registry::default();
        registry.on_heartbeat(heartbeat("a", &[v1::Role::ActivityManager]), Duration::ZERO).unwrap();
        assert!(registry.drain("a"));
        assert!(!registry.drain("x"));
        assert!(registry.wants_drain("a"));
        assert!(names(&registry).is_empty());
        assert_eq!(registry.draining()[0].name, "a");
        assert!(registry.statuses(Duration::ZERO)[0].draining);
        // A restart ends the wish to drain.
        let again = v1::Heartbeat { life: 1, ..heartbeat("a", &[v1::Role::ActivityManager]) };
        assert!(registry.on_heartbeat(again, Duration::ZERO) == Ok(true) && !registry.wants_drain("a"));
        assert_eq!(names(&registry), ["a"]);
    }

    #[test]
    fn another_manager_gives_replicated_nodes_a_lease() {
        let second = Duration::from_secs;
        let mut here = Registry::default();
        here.on_heartbeat(heartbeat("a", &[v1::Role::ActivityManager]), second(10)).unwrap();
        here.on_heartbeat(heartbeat("b", &[v1::Role::ActivityManager]), second(11)).unwrap();
        here.drain("b");
        let mut there = Registry::from_wire(here.to_wire(second(12)), second(1));
        assert_eq!(names(&there), ["a"]);
        assert!(there.wants_drain("b"));
        let silent: Vec<u64> = there.statuses(second(2)).iter().map(|node| node.silent_ms).collect();
        assert_eq!(silent, [3000, 2000]);
        // The manager begins to lead later. Only node b sends a heartbeat.
        there.extend_leases(second(20));
        let again = there.on_heartbeat(heartbeat("b", &[v1::Role::ActivityManager]), second(22));
        assert_eq!(again, Ok(false), "nothing changed");
        assert!(there.wants_drain("b"), "the wish of the administrator stays");
        assert!(there.expire(second(22)).is_empty());
        assert_eq!(there.expire(second(23)), ["a"]);
        assert!(Registry::from_wire(vec![v1::KnownNode::default()], second(1)).statuses(second(1)).is_empty());
    }

    #[test]
    fn a_heartbeat_without_a_name_changes_nothing() {
        let mut registry = Registry::default();
        assert!(registry.on_heartbeat(v1::Heartbeat::default(), Duration::ZERO).is_err());
        assert!(registry.on_heartbeat(heartbeat("", &[]), Duration::ZERO).is_err());
        assert!(registry.statuses(Duration::ZERO).is_empty());
    }

    #[test]
    fn a_group_has_a_bounded_number_of_nodes_with_bounded_descriptions() {
        let mut registry = Registry::default();
        let with_tags = |name: &str, bytes: usize| {
            let mut beat = heartbeat(name, &[v1::Role::ActivityManager]);
            beat.node.as_mut().unwrap().tags = vec!["t".repeat(100); bytes / 102];
            beat
        };
        let mut beat = |beat| registry.on_heartbeat(beat, Duration::ZERO);
        assert!(matches!(beat(with_tags("a", 5000)), Err(JoinRefusal::TooLong(_))));
        let refused = (0..2000).find_map(|number| beat(with_tags(&number.to_string(), 4000)).err());
        assert!(matches!(refused, Some(JoinRefusal::TooManyBytes(_))), "{refused:?}");
        assert_eq!(beat(with_tags("0", 10)), Ok(true), "a known node may describe itself anew");
        let lost = registry.expire(NODE_LEASE);
        assert!(!lost.is_empty() && registry.bytes == 0);
        for number in 0..MAX_NODES {
            registry.on_heartbeat(heartbeat(&number.to_string(), &[]), Duration::ZERO).unwrap();
        }
        assert_eq!(
            registry.on_heartbeat(heartbeat("x", &[]), Duration::ZERO),
            Err(JoinRefusal::TooManyNodes(MAX_NODES))
        );
    }

    #[test]
    fn claimed_slots_do_not_overflow() {
        let mut registry = Registry::default();
        for name in ["a", "b"] {
            let mut beat = heartbeat(name, &[v1::Role::ActivityManager]);
            beat.node.as_mut().unwrap().slots = u32::MAX;
            assert!(registry.on_heartbeat(beat, Duration::ZERO).is_err(), "the claimed slots exceed the limit");
        }
        let known = |name: &str| {
            let mut beat = heartbeat(name, &[v1::Role::ActivityManager]);
            beat.node.as_mut().unwrap().slots = u32::MAX;
            v1::KnownNode { heartbeat: Some(beat), ..Default::default() }
        };
        let stored = Registry::from_wire(vec![known("a"), known("b")], Duration::ZERO);
        assert_eq!(stored.free_slots(), 0, "another manager cannot claim them either");
    }

    #[test]
    fn heartbeats_are_kept_without_long_texts() {
        let mut registry = Registry::default();
        let long = "x".repeat(1 << 20);
        let impaired = v1::impairment_reason::Kind::AnswersUnwritable(long.clone()).into();
        let beat = v1::Heartbeat { impaired: Some(impaired), group: long, ..heartbeat("n", &[]) };
        registry.on_heartbeat(beat.clone(), Duration::ZERO).unwrap();
        let known = v1::KnownNode { heartbeat: Some(beat), ..Default::default() };
        for registry in [registry, Registry::from_wire(vec![known], Duration::ZERO)] {
            let state: usize = registry.to_wire(Duration::ZERO).iter().map(Message::encoded_len).sum();
            assert!(state > 200 && state < 1000, "{state}");
        }
    }

    #[test]
    fn another_manager_cannot_send_nodes_that_could_not_join() {
        let known = |name: &str| v1::KnownNode { heartbeat: Some(heartbeat(name, &[])), ..Default::default() };
        let long = known(&"n".repeat(9999));
        let tags: Vec<String> = (0..13).map(|_| "t".repeat(256)).collect();
        let many = (0..2000).map(|number| {
            let mut known = known(&format!("n{number}"));
            known.heartbeat.iter_mut().flat_map(|beat| &mut beat.node).for_each(|node| node.tags.clone_from(&tags));
            known
        });
        let nodes = [known("a"), known("a"), known(""), long].into_iter().chain(many).collect();
        let registry = Registry::from_wire(nodes, Duration::ZERO);
        let bytes: usize = registry.nodes.values().map(RegisteredNode::bytes).sum();
        assert_eq!(registry.bytes, bytes);
        assert!(bytes <= MAX_DESCRIPTIONS_BYTES && registry.nodes.len() > 100, "{bytes}");
        assert!(
            registry.nodes.contains_key("a") && registry.nodes.keys().all(|name| !name.is_empty() && name.len() < 99)
        );
    }
}
