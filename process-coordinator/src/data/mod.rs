//! Files of processes: where they are, how they were made, and for whom they are kept.

pub mod lineage;
pub(crate) mod locations;
pub(crate) mod pinning;
