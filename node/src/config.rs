//! How a node is set up. The same names serve in the TOML file, in flags and in the environment.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Knows the group.
    GroupManager,
    /// Interprets processes.
    ProcessCoordinator,
    /// Executes activities.
    ActivityManager,
}

impl Role {
    /// All roles, with their names.
    pub const ALL: [(&'static str, Role); 3] = [
        ("group-manager", Role::GroupManager),
        ("process-coordinator", Role::ProcessCoordinator),
        ("activity-manager", Role::ActivityManager),
    ];
}

/// How a node is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Its name, unique in the group.
    pub name: String,
    /// The group that it belongs to.
    pub group: String,
    /// What it does.
    pub roles: Vec<Role>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where others reach it, if that is not where it listens: host:port.
    pub advertise: Option<String>,
    /// Addresses of the group's managers, in the order in which they lead; one that is alone needs none.
    pub join: Vec<String>,
    /// Of a group manager: addresses of the managers of adjacent groups.
    pub adjacent: Vec<String>,
    /// Groups whose work is taken; none means all.
    pub foreign_groups: Vec<String>,
    /// Slots that work of other groups may use at once; none means all.
    pub foreign_slots: Option<u32>,
    /// How many activities of one CPU it runs at once.
    pub slots: u32,
    /// How many activities may wait on it for a slot.
    pub queue: u32,
    /// Words that activities may require of it.
    pub tags: Vec<String>,
    /// How many seconds running activities get to end when the node is told to stop.
    pub drain_seconds: u64,
    /// Of a group manager: external data by name.
    pub sources: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        let slots = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Self {
            name: hostname(),
            group: "default".into(),
            roles: Role::ALL.map(|(_, role)| role).to_vec(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7433)),
            advertise: None,
            join: Vec::new(),
            adjacent: Vec::new(),
            foreign_groups: Vec::new(),
            foreign_slots: None,
            sources: BTreeMap::new(),
            slots,
            queue: slots.saturating_mul(2).max(8),
            tags: Vec::new(),
            drain_seconds: 30,
        }
    }
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".into() } else { name.into() }
}
