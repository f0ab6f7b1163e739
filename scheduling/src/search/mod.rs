//! Planners that search: they change solutions and keep what is better, until they are stopped.
//!
//! | module | planner |
//! |---|---|
//! | [`grasp_ils`] | randomised construction and iterated local search with places of files, Stockinger 2020 |
//! | [`hea`] | the hybrid evolutionary algorithm of Teylo 2016 |
//! | [`grasp`] | randomised construction and local search, Aguilar 2014 |
//! | [`annealing`] | simulated annealing |
//! | [`genetic`] | a genetic algorithm |
//! | [`particle_swarm`] | particle swarm optimisation |
//! | [`relay`] | ours: descents from all list planners and constructions, then annealing in turns |
//! | [`parallel`] | any of them, on several cores with different seeds |
//!
//! | module | what they share |
//! |---|---|
//! | [`solution`] | order, machines and places of files, and the schedule that they mean |
//! | [`evaluator`] | changes of solutions, evaluated incrementally |
//! | `model`, `tables` | durations of a problem, and times of a solution, for incremental evaluation |
//! | `construct`, `local_search`, `keeper` | randomised construction, neighbourhoods, the best so far |

pub mod annealing;
mod construct;
pub mod evaluator;
pub mod genetic;
pub mod grasp;
pub mod grasp_ils;
pub mod hea;
mod keeper;
mod local_search;
mod model;
pub mod parallel;
pub mod particle_swarm;
pub mod relay;
pub mod solution;
mod tables;

pub use annealing::Annealing;
pub use genetic::Genetic;
pub use grasp::Grasp;
pub use grasp_ils::{Acceptance, GraspIls};
pub use hea::Hea;
pub use parallel::ParallelSearch;
pub use particle_swarm::ParticleSwarm;
pub use relay::Relay;
