//! Files of processes.
//!
//! | file | is about |
//! |---|---|
//! | `locations` | which objects a worker holds |
//! | `lineage` | how files were made |
//! | `repair` | making lost files again |
//! | `pinning` | keeping files on nodes for as long as a process needs them |

pub mod lineage;
pub(crate) mod locations;
pub(crate) mod pinning;
pub mod repair;
#[cfg(test)]
mod test_lineage;
