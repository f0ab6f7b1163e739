//! The workers, and other coordinators, that run attempts for this coordinator.

pub(crate) mod connection;
pub(crate) mod dispatcher;
mod placement;
pub mod pool;
mod recovery;
#[cfg(test)]
mod tests;
mod worker;
