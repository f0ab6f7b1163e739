//! Planners that order all tasks first and then place one after the other.
//!
//! | module | planner |
//! |---|---|
//! | [`heft`] | by upward rank, each on the machine where it ends first |
//! | [`cpop`] | the critical path on one machine |
//! | [`peft`] | by a table of optimistic costs, which looks ahead |
//! | [`hybrid`] | by upward rank, in groups of independent tasks |
//! | [`tanh`] | clusters of tasks, with duplicates |
//! | [`moheft`] | many schedules at once: trade-offs of time and money |

pub mod cpop;
pub mod heft;
pub mod hybrid;
pub mod moheft;
pub mod peft;
pub mod tanh;

pub use cpop::Cpop;
pub use heft::Heft;
pub use hybrid::Hybrid;
pub use moheft::Moheft;
pub use peft::Peft;
pub use tanh::Tanh;
