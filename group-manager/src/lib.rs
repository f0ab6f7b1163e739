//! The group manager: knows the available machines of its group and the offers of other groups.
//!
//! Pure modules, with the time passed in:
//!
//! | module | is about |
//! |---|---|
//! | `registry` | the nodes of the group, their roles and load |
//! | `federation` | the summaries of other groups |
//! | `placement` | the rule that chooses where work runs |
//! | `lending` | slots that other groups borrow for a while |
//! | `succession` | which of the managers leads, in which epoch |
//! | `state` | all of it together, as one manager knows it |
//!
//! Tasks and services around them:
//!
//! | module | is about |
//! |---|---|
//! | `service` | the gRPC calls of nodes, coordinators, clients and other managers |
//! | `sources` | which data sources may be added |
//! | `manager` | the state of a running manager, shared by calls and tasks |
//! | `timers` | the periodic work of a manager |
//! | `replication` | the other managers of the group, which replicate the state of the leader |
//! | `neighbours` | the managers of adjacent groups |
//! | `persistence` | the document of the group in the repository |
//! | `options` | the settings of a manager |

mod federation;
mod lending;
mod manager;
mod neighbours;
mod options;
mod persistence;
mod placement;
mod registry;
mod replication;
mod service;
mod sources;
mod state;
mod succession;
mod timers;

pub use options::Options;
pub use service::Service;
