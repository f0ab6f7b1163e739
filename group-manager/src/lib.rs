//! The group manager: knows which machines of a group are available, and what other groups have to offer.
//!
//! | file | is about |
//! |---|---|
//! | `registry` | the nodes, their roles and load; pure, time is passed in |
//! | `federation` | what is heard of other groups; pure |
//! | `placement` | where something can run; pure |
//! | `service` | nodes join and beat; everybody hears of changes |
//! | `neighbours` | adjacent managers, and the managers of the own group that come first |

mod federation;
mod neighbours;
mod placement;
mod registry;
mod service;

pub use federation::{Federation, MAX_AGE, MAX_HOPS};
pub use placement::{Own, Place, What, place};
pub use registry::{LEASE, Registry};
pub use service::{Options, Service};
