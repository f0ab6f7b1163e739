//! The state of one manager. Pure: the time is passed in, as the time since a beginning that the caller chose.
//!
//! | module | is about |
//! |---|---|
//! | (this one) | the state, its replication and the passing of time |
//! | `offers` | rosters for nodes, and summaries for other groups |
//! | `place_request` | the answers to requests for a worker or a coordinator |

mod offers;
pub(crate) mod place_request;
#[cfg(test)]
mod tests;

pub use place_request::PlaceAnswer;

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::{message_limits, v1};

use crate::federation::{Federation, MAX_MANAGERS, Merged};
use crate::group_sources;
use crate::lending::Lending;
use crate::node_registry::{JoinRefusal, Registry};
use crate::options::Options;
use crate::succession::Succession;

/// The state of a manager.
pub struct ManagerState {
    options: Options,
    pub(crate) succession: Succession,
    pub(crate) registry: Registry,
    pub(crate) federation: Federation,
    pub(crate) lending: Lending,
    /// Sources that an administrator added to the configured ones: URIs by name.
    pub(crate) sources: BTreeMap<String, String>,
    /// The other managers of adjacent groups, by the configured address of each group.
    pub(crate) adjacent: BTreeMap<String, Vec<String>>,
    /// Time at which this manager began to lead.
    leading_since: Duration,
    /// This manager knew nodes of the group when it began to lead.
    knew_nodes: bool,
    /// Number of the last summary.
    summary_number: u64,
}

/// Result of a [`tick`](ManagerState::tick).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Names of nodes whose lease expired.
    pub lost_nodes: Vec<String>,
    /// Whether this manager leads, if that changed.
    pub leads: Option<bool>,
}

impl ManagerState {
    /// Starts with a stored state of the given age.
    pub fn new(options: Options, stored: v1::GroupState, age: Duration, now: Duration) -> Self {
        let age_ms = age.as_millis() as u64;
        let aged = |known: v1::KnownNode| v1::KnownNode { silent_ms: known.silent_ms.saturating_add(age_ms), ..known };
        let mut federation = Federation::new(options.group.clone());
        let groups = stored.groups.into_iter();
        let groups = groups.map(|it| v1::GroupSummary { age_ms: it.age_ms.saturating_add(age_ms), ..it });
        federation.restore(groups.collect(), now);
        let adjacent = adjacent_from_wire(stored.adjacent, &options);
        Self {
            succession: Succession::new(options.position(), options.managers.len(), stored.epoch, now),
            knew_nodes: !stored.nodes.is_empty(),
            registry: Registry::from_wire(stored.nodes.into_iter().map(aged).collect(), now),
            federation,
            lending: Lending::default(),
            sources: group_sources::from_wire(stored.sources),
            adjacent,
            leading_since: now,
            summary_number: stored.number,
            options,
        }
    }

    /// The state for other managers of the group, and for the repository.
    pub fn to_wire(&self, now: Duration) -> v1::GroupState {
        let adjacent = self.adjacent.iter();
        let adjacent = adjacent
            .map(|(address, managers)| v1::AdjacentGroup { address: address.clone(), managers: managers.clone() });
        v1::GroupState {
            leads: self.succession.leads(),
            epoch: self.succession.epoch(),
            number: self.summary_number,
            nodes: self.registry.to_wire(now),
            lent: self.lending.to_wire(now),
            groups: self.federation.groups(now),
            sources: self.sources.clone().into_iter().collect(),
            adjacent: adjacent.collect(),
            kept_at_ms: 0,
        }
    }

    /// A node sent a heartbeat. Returns whether all nodes must learn about a change.
    pub fn on_heartbeat(&mut self, heartbeat: v1::Heartbeat, now: Duration) -> Result<bool, JoinRefusal> {
        self.registry.on_heartbeat(heartbeat, now)
    }

    /// An adjacent group sent its summaries.
    pub fn on_summaries(&mut self, summaries: v1::GroupSummaries, now: Duration) -> Merged {
        self.federation.on_summaries(summaries, now)
    }

    /// Notes that an administrator wants a node to drain. Returns whether the node exists.
    pub fn drain(&mut self, node: &str) -> bool {
        self.registry.drain(node)
    }

    /// Another manager of the group sent its state. Takes the state over if that manager leads.
    pub fn on_replica_state(&mut self, position: usize, state: v1::GroupState, now: Duration) {
        self.succession.on_message(position, state.leads, state.epoch, now);
        if self.succession.leads() || self.succession.leader(now) != Some(position) {
            return;
        }
        self.summary_number = self.summary_number.max(state.number);
        self.registry = Registry::from_wire(state.nodes, now);
        self.lending = Lending::from_wire(state.lent, now);
        self.federation.restore(state.groups, now);
        self.sources = group_sources::from_wire(state.sources);
        self.adjacent.extend(adjacent_from_wire(state.adjacent, &self.options));
    }

    /// Removes expired nodes, summaries and loans, and decides whether this manager leads.
    pub fn tick(&mut self, now: Duration) -> Tick {
        self.federation.expire(now);
        self.lending.expire(now);
        let leads = self.succession.decide(now);
        if leads == Some(true) {
            self.leading_since = now;
            self.knew_nodes = !self.registry.is_empty();
            self.registry.extend_leases(now);
        }
        // Nodes send heartbeats only to the leader, so another manager does not notice lost nodes.
        let lost_nodes = if self.succession.leads() { self.registry.expire(now) } else { Vec::new() };
        Tick { lost_nodes, leads }
    }

    /// Address of the leader, if another manager leads.
    pub(crate) fn leader(&self, now: Duration) -> Option<&str> {
        self.succession.leader(now).and_then(|position| self.options.managers.get(position)).map(String::as_str)
    }
}

/// The managers of adjacent groups that another manager sent or the repository holds.
fn adjacent_from_wire(adjacent: Vec<v1::AdjacentGroup>, options: &Options) -> BTreeMap<String, Vec<String>> {
    let valid = |address: &String| message_limits::check_address("the address of a manager", address).is_ok();
    let known = adjacent.into_iter().filter(|it| options.adjacent.contains(&it.address));
    let managers = known.map(|it| (it.address, it.managers.into_iter().filter(valid).take(MAX_MANAGERS).collect()));
    managers.collect()
}
