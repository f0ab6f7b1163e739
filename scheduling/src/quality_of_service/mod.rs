//! Planners that keep a budget or a deadline. Aguilar 2014, A.2, names them and leaves them open; the rules come from
//! the cited papers, and where these need a service market or a history, from us.
//!
//! | module | planner |
//! |---|---|
//! | [`loss`] | from the fastest schedule towards a budget |
//! | [`gain`] | from the cheapest schedule towards more speed, within a budget |
//! | [`back_tracking`] | from the cheapest schedule towards a deadline, critical tasks first |
//! | [`deadline_distribution`] | a deadline for each task, the cheapest machine that keeps it |
//! | [`deadline_mdp`] | deadlines for chains of tasks, the cheapest machines for each chain |
//! | [`ctc`] | the cheapest compromise of time and money that keeps the deadline |

pub mod back_tracking;
mod common;
pub mod ctc;
pub mod deadline_distribution;
pub mod deadline_mdp;
pub mod gain;
pub mod loss;

pub use back_tracking::BackTracking;
pub use ctc::Ctc;
pub use deadline_distribution::DeadlineDistribution;
pub use deadline_mdp::DeadlineMdp;
pub use gain::Gain;
pub use loss::Loss;
