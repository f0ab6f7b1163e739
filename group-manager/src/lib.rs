//! The group manager: knows which machines of a group are available, and what other groups have to offer.
//!
//! Pure, with time passed in:
//!
//! | file | is about |
//! |---|---|
//! | `registry` | the nodes, their roles and load |
//! | `federation` | what is heard of other groups |
//! | `placement` | where something can run |
//! | `lending` | slots that other groups may use for a while |
//! | `succession` | which of the managers leads, in which epoch |
//! | `books` | all of it together, as one manager knows it |
//!
//! The shell around it:
//!
//! | file | is about |
//! |---|---|
//! | `service` | nodes join and beat; everybody hears of changes |
//! | `following` | the other managers of the group, which hear all that the leader knows |
//! | `neighbours` | managers of adjacent groups |
//! | `keeping` | what is kept in the repository |

mod books;
mod federation;
mod following;
mod keeping;
mod lending;
mod neighbours;
mod options;
mod placement;
mod registry;
mod service;
mod succession;

pub use federation::{Federation, MAX_AGE, MAX_HOPS};
pub use lending::{Borrower, Candidate, LENT_FOR, Lending};
pub use options::Options;
pub use placement::{Own, Place, What, place};
pub use registry::{LEASE, Registry};
pub use service::Service;
pub use succession::Succession;
