//! Planners that decide task by task or batch by batch, as soon as tasks are ready.
//!
//! | module | planner |
//! |---|---|
//! | [`myopic`] | the first ready task on the machine that looks best for it |
//! | [`min_min`] | of all ready tasks the one that can end first |
//! | [`max_min`] | of all ready tasks the one whose best end is the latest |
//! | [`sufferage`] | of all ready tasks the one that would lose most without its best machine |

mod batch;
pub mod max_min;
pub mod min_min;
pub mod myopic;
pub mod sufferage;

pub(crate) use batch::{BatchRule, schedule_batch};
pub use max_min::MaxMin;
pub use min_min::MinMin;
pub use myopic::{Myopic, MyopicRule};
pub use sufferage::Sufferage;
