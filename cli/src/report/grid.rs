//! The grid: nodes, groups, registered types and sources.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_proto::v1;

use super::reason::ImpairmentReason;

/// The nodes of a group.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NodeList {
    /// Name of the group
    pub group: String,
    /// Its nodes
    pub nodes: Vec<NodeReport>,
}

/// A node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Node"))]
pub(crate) struct NodeReport {
    /// Name of the node
    pub node: String,
    /// Address at which other nodes reach it
    pub address: String,
    /// `group-manager`, `process-coordinator`, `activity-manager`
    pub roles: Vec<&'static str>,
    /// Slots: cores that activities may use at once
    pub slots: u32,
    /// Words that activities may require
    pub tags: Vec<String>,
    /// Version of the program
    pub version: String,
    /// Bytes of memory that activities may ask for together
    pub memory: u64,
    /// Graphics processors
    pub gpus: u32,
    /// Languages that it has an interpreter for
    pub interpreters: Vec<String>,
    /// Whether it runs containers
    pub containers: bool,
    /// Cgroup controllers that limit programs
    pub cgroups: Vec<String>,
    /// `up`; `draining`: it finishes its work and accepts no more; `impaired`: it takes no work for now; `lost`: it sends no
    /// heartbeats any more, and stays listed for an hour
    #[cfg_attr(test, schemars(extend("enum" = ["up", "draining", "impaired", "lost"])))]
    pub state: &'static str,
    /// Milliseconds since its last heartbeat
    pub silent_ms: u64,
    /// Activities that run or wait on it
    pub busy: u32,
    /// Activities among the busy ones that have a slot
    pub running: u32,
    /// Activities among the busy ones that wait for a slot
    pub queued: u32,
    /// Number of processes that it coordinates
    pub processes: u32,
    /// Whether it finishes its work and accepts no more
    pub draining: bool,
    /// Why it takes no work for now
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impaired: Option<ImpairmentReason>,
}

impl From<&v1::NodeStatus> for NodeReport {
    fn from(status: &v1::NodeStatus) -> Self {
        let node = status.node.clone().unwrap_or_default();
        Self {
            roles: node.roles.iter().filter_map(|role| role_word(*role)).collect(),
            node: node.name,
            address: node.address,
            slots: node.slots,
            tags: node.tags,
            version: node.version,
            memory: node.memory,
            gpus: node.gpus,
            interpreters: node.interpreters,
            containers: node.containers,
            cgroups: node.cgroups,
            state: match status {
                _ if status.lost => "lost",
                _ if status.draining => "draining",
                _ if status.impaired.is_some() => "impaired",
                _ => "up",
            },
            silent_ms: status.silent_ms,
            busy: status.busy,
            running: status.busy.saturating_sub(status.waiting),
            queued: status.waiting.min(status.busy),
            processes: status.processes,
            draining: status.draining,
            impaired: status.impaired.as_ref().map(ImpairmentReason::from),
        }
    }
}

/// The word for a role.
pub(crate) const ACTIVITY_MANAGER: &str = "activity-manager";

/// The word for a role on the wire.
pub(crate) fn role_word(role: i32) -> Option<&'static str> {
    match v1::Role::try_from(role).ok()? {
        v1::Role::GroupManager => Some("group-manager"),
        v1::Role::ProcessCoordinator => Some("process-coordinator"),
        v1::Role::ActivityManager => Some(ACTIVITY_MANAGER),
        v1::Role::Unspecified => None,
    }
}

/// The groups that a group manager knows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct GroupList {
    /// The groups
    pub groups: Vec<Group>,
}

/// A group.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Group {
    /// Name of the group
    pub group: String,
    /// Distance: 0 is the manager's own group, 1 an adjacent one
    pub hops: u32,
    /// Number of workers
    pub workers: u32,
    /// Slots of all workers
    pub slots: u32,
    /// Free slots of all workers
    pub free_slots: u32,
    /// Number of coordinators that accept work of other groups
    pub coordinators: usize,
    /// Addresses of its managers
    pub managers: Vec<String>,
    /// Age of this information, in milliseconds
    pub age_ms: u64,
}

impl From<&v1::GroupSummary> for Group {
    fn from(group: &v1::GroupSummary) -> Self {
        Self {
            group: group.group.clone(),
            hops: group.hops,
            workers: group.workers,
            slots: group.slots,
            free_slots: group.free_slots,
            coordinators: group.coordinators.len(),
            managers: group.managers.clone(),
            age_ms: group.age_ms,
        }
    }
}

/// Process and activity types that a coordinator has.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TypeList {
    /// The types
    pub types: Vec<RegisteredType>,
}

/// A process or activity type.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RegisteredType {
    /// Name of the type
    pub name: String,
    /// Kind of the type
    #[cfg_attr(test, schemars(extend("enum" = ["process", "activity", "unknown"])))]
    pub kind: &'static str,
    /// Digest of the definition
    pub digest: String,
    /// Name of the document that defines it
    pub document: String,
    /// Hash of the document, by which other documents import the type
    pub hash: String,
}

impl From<&v1::TypeDescription> for RegisteredType {
    fn from(it: &v1::TypeDescription) -> Self {
        Self {
            name: it.name.clone(),
            kind: it.kind().word(),
            digest: it.digest.clone(),
            document: it.document.clone(),
            hash: it.hash.clone(),
        }
    }
}

/// Data sources by name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SourceList {
    /// Places by name
    pub sources: BTreeMap<String, String>,
}

/// Whether a node serves.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Health {
    /// Address of the node
    pub address: String,
    /// Whether it serves
    #[cfg_attr(test, schemars(extend("enum" = ["serving", "not serving"])))]
    pub state: &'static str,
}
