//! Planners that prove what they find: branch and bound.
//!
//! | module | is about |
//! |---|---|
//! | [`ppsa`] | the planner of Monge and others, with and without pre-assignment, and in parts for large workflows |
//! | [`branch`] | the search over orders, machines and places of files |

pub mod branch;
pub mod ppsa;

pub use ppsa::{Ppsa, Solved};
