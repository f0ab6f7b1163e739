//! The group manager: knows which machines of a group are available.
//!
//! | file | is about |
//! |---|---|
//! | `registry` | the nodes, their roles and load; pure, time is passed in |
//! | `service` | nodes join and beat; everybody hears of changes |

mod registry;
mod service;

pub use registry::{LEASE, Registry};
pub use service::Service;
