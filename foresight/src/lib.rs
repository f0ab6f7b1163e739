//! What a process will do, as far as its definition and its parameters tell: the task graph that planners need.
//!
//! This crate stands between `process-model`, which knows definitions, and `scheduling`, which knows task graphs, so that
//! neither needs the other. Commands use it, and coordinators can. Pure: no clock, no I/O.
//!
//! [`unfold`](unfold::unfold) walks through a process as the engine would. Code runs when all values that it reads are
//! known. What depends on results of activities is not known: then the walk assumes a number of iterations or a branch,
//! and says so in [`Assumption`]s. Whoever plans with such a graph plans again when more is known.
//!
//! | module | is about |
//! |---|---|
//! | [`unfold`] | from a process type and parameters to a task graph |
//! | [`forecast`] | the task graph, and where its tasks and numbers come from |
//! | [`assumption`] | what was assumed, and where |
//! | [`expectation`] | counts and branches that users expect |
//! | [`past_runs`] | estimates from past runs |
//! | [`stored_input`] | files that are in place before the process starts |
//! | `known_values` | values that are known before the process runs, and code that computes them |
//! | `graph` | the task graph under construction |

pub mod assumption;
pub mod expectation;
pub mod forecast;
mod graph;
mod known_values;
pub mod past_runs;
pub mod stored_input;
pub mod unfold;

pub use assumption::Assumption;
pub use expectation::Expectations;
pub use forecast::{Forecast, TaskKind};
pub use past_runs::Histories;
pub use stored_input::StoredInput;
pub use unfold::{Error, Options, unfold};
