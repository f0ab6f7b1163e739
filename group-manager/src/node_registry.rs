//! The nodes of a group. A node without a heartbeat for the duration of a lease is lost; its next heartbeat brings it
//! back. Until then it stays listed for a while, and takes no part in anything else. A manager that begins to lead gives each
//! node that it knows from elsewhere a lease for its first heartbeat.

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
/// A lost node stays listed for this long after its last heartbeat.
pub(crate) const LOST_LISTED_FOR: Duration = Duration::from_secs(3600);
/// Upper bound on the lost nodes that stay listed: of more, those that were lost first are forgotten.
const MAX_LISTED_LOST: usize = 1000;

/// The nodes of one group. Times count from a beginning that the caller chose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    /// By name.
    nodes: BTreeMap<String, RegisteredNode>,
    /// Lost nodes that are still listed, by name.
    lost: BTreeMap<String, RegisteredNode>,
    /// Encoded size of the descriptions, without those of lost nodes.
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
        self.lost.remove(&name);
        self.nodes.insert(name, entry);
        Ok(changed)
    }

    /// Address of another node that has the name of this node and sent a heartbeat to this manager within a lease.
    pub(crate) fn conflicting_address(&self, node: &v1::NodeDescription, now: Duration) -> Option<&str> {
        let entry = self.nodes.get(&node.name).filter(|entry| entry.direct && entry.silent(now) < NODE_LEASE)?;
        let other = entry.heartbeat.node.as_ref().map(|other| other.address.as_str());
        other.filter(|address| *address != node.address)
    }

    /// The nodes that another manager sent or the repository holds. All but the lost ones get a lease for their first
    /// heartbeat. Leaves out nodes that could not have joined.
    pub(crate) fn from_wire(nodes: Vec<v1::KnownNode>, now: Duration) -> Self {
        let mut registry = Self::default();
        for known in nodes.into_iter().take(MAX_NODES + MAX_LISTED_LOST) {
            let Some(heartbeat) = known.heartbeat.map(bounded) else { continue };
            let Some(node) = &heartbeat.node else { continue };
            let Ok(bytes) = check_description(node) else { continue };
            if registry.nodes.contains_key(&node.name) || registry.lost.contains_key(&node.name) {
                continue;
            }
            let full = registry.bytes + bytes > MAX_DESCRIPTIONS_BYTES || registry.nodes.len() >= MAX_NODES;
            if full && !known.lost {
                continue;
            }
            let name = node.name.clone();
            let entry = RegisteredNode {
                heartbeat,
                received: now,
                age_when_received: Duration::from_millis(known.silent_ms),
                lease_until: now + NODE_LEASE,
                drain: known.drain,
                direct: false,
            };
            if known.lost {
                registry.lost.insert(name, entry);
            } else {
                registry.bytes += bytes;
                registry.nodes.insert(name, entry);
            }
        }
        registry.forget_lost(now);
        registry
    }

    /// All nodes, for other managers and for the repository.
    pub(crate) fn to_wire(&self, now: Duration) -> Vec<v1::KnownNode> {
        let known = self.listed().map(|(entry, lost)| v1::KnownNode {
            heartbeat: Some(entry.heartbeat.clone()),
            drain: entry.drain,
            silent_ms: entry.silent(now).as_millis() as u64,
            lost,
        });
        known.collect()
    }

    /// Gives all nodes a new lease.
    pub(crate) fn extend_leases(&mut self, now: Duration) {
        self.nodes.values_mut().for_each(|entry| entry.lease_until = now + NODE_LEASE);
    }

    /// Removes the nodes whose lease has expired, and returns their names. All but those that drained are lost.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<String> {
        let gone: Vec<_> = self.nodes.extract_if(.., |_, entry| entry.lease_until <= now).collect();
        if !gone.is_empty() {
            self.bytes = self.nodes.values().map(RegisteredNode::bytes).sum();
        }
        let names = gone.iter().map(|(name, _)| name.clone()).collect();
        self.lost.extend(gone.into_iter().filter(|(_, entry)| !entry.heartbeat.draining));
        self.forget_lost(now);
        names
    }

    /// Forgets the nodes that were lost long ago.
    fn forget_lost(&mut self, now: Duration) {
        self.lost.retain(|_, entry| entry.silent(now) < LOST_LISTED_FOR);
        while self.lost.len() > MAX_LISTED_LOST {
            let oldest = self.lost.iter().max_by_key(|(_, entry)| entry.silent(now)).map(|(name, _)| name.clone());
            oldest.map(|name| self.lost.remove(&name));
        }
    }

    /// All nodes, and whether each is lost.
    fn listed(&self) -> impl Iterator<Item = (&RegisteredNode, bool)> {
        let lost = self.lost.values().map(|entry| (entry, true));
        self.nodes.values().map(|entry| (entry, false)).chain(lost)
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
        self.listed()
            .map(|(entry, lost)| v1::NodeStatus {
                node: entry.heartbeat.node.clone(),
                // Nothing runs on a node that is lost.
                busy: if lost { 0 } else { entry.heartbeat.busy },
                processes: if lost { 0 } else { entry.heartbeat.processes },
                draining: entry.is_draining(),
                silent_ms: entry.silent(now).as_millis() as u64,
                waiting: if lost { 0 } else { entry.heartbeat.waiting },
                impaired: entry.heartbeat.impaired.clone(),
                lost,
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
mod tests;
