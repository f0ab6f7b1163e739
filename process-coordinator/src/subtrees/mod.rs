//! Subtrees that this coordinator runs for other coordinators.

pub mod hosted;
pub(crate) mod parents;
