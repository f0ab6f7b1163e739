//! Planners that foresee where and when the tasks of a workflow run. Pure: no clock, no I/O, no threads of others.
//!
//! A [`Problem`] joins a workflow and a platform under a cost model. A planner makes a [`Schedule`] of it, `validate` checks the
//! schedule independently, and an [`Objective`] says how good it is. [`LowerBounds`] say how good any schedule can be at most.
//!
//! | module | is about |
//! |---|---|
//! | [`problem`] | tasks, files, machines, network, cost models, limits |
//! | [`schedule`] | where and when tasks run and files are stored |
//! | [`validate`] | the independent check of schedules |
//! | [`objective`] | time, money, both, and Pareto sets |
//! | [`bounds`] | lower bounds of time and money |
//! | [`formats`] | readers of workflow formats |
//! | [`random`] | the seeded generator behind everything random |
//! | [`csr`], [`id`] | compact rows, and indices as types |

pub mod bounds;
pub mod csr;
pub mod formats;
pub mod id;
pub mod objective;
pub mod problem;
pub mod random;
pub mod schedule;
pub mod validate;

pub use bounds::LowerBounds;
pub use id::{FileId, MachineId, TaskId};
pub use objective::{Objective, Score, Value};
pub use problem::{Machine, Platform, Problem, Workflow};
pub use random::Random;
pub use schedule::{Placement, Schedule};
