//! The group manager: knows the available machines of its group and the offers of other groups.
//!
//! Pure modules, with the time passed in:
//!
//! | module | is about |
//! |---|---|
//! | `node_registry` | the nodes of the group, their roles and load |
//! | `federation` | the summaries of other groups |
//! | `group_placement` | the rule that chooses where work runs |
//! | `lending` | slots that other groups borrow for a while |
//! | `succession` | which of the managers leads, in which epoch |
//! | `state` | all of it together, as one manager knows it |
//!
//! Tasks and services around them:
//!
//! | module | is about |
//! |---|---|
//! | `service` | the gRPC calls of nodes, coordinators, clients and other managers |
//! | `group_sources` | which data sources may be added |
//! | `group_manager` | the state of a running manager, shared by calls and tasks |
//! | `periodic_work` | the periodic work of a manager |
//! | `replication` | the other managers of the group, which replicate the state of the leader |
//! | `neighbours` | the managers of adjacent groups |
//! | `persistence` | the document of the group in the repository |
//! | `options` | the settings of a manager |

mod federation;
mod group_manager;
mod group_placement;
mod group_sources;
mod lending;
mod neighbours;
mod node_registry;
mod options;
mod periodic_work;
mod persistence;
mod replication;
mod service;
pub mod state;
mod succession;

pub use federation::Merged;
pub use node_registry::JoinRefusal;
pub use options::Options;
pub use service::Service;
