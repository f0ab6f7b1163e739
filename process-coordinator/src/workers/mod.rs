//! The workers, and other coordinators, that run attempts for this coordinator.

pub(crate) mod connection;
pub(crate) mod dispatcher;
pub(crate) mod handle;
pub mod messages;
mod placement;
pub mod pool;
mod recovery;
#[cfg(test)]
mod tests;
mod worker;
