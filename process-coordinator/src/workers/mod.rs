//! The workers, and other coordinators, that run attempts for this coordinator.
//!
//! The pool decides and does no I/O; `dispatcher` and `connection` carry its commands out.
//!
//! | module | subject |
//! |---|---|
//! | `pool` | the pool, with its parts `delegation`, `placement`, `membership`, `leases`, `capacity`, `recovery`, `whereabouts` |
//! | `attempts` | the table of attempts: one state each, and the indices that follow from the states |
//! | `peer`, `pace` | one worker or coordinator: its offer, its files, its speed |
//! | `pool_input` | the inputs of the pool |
//! | `messages` | commands, orders, notices and answers of the pool |
//! | `dispatcher` | the task that owns the pool: its mail, its clock, its connections |
//! | `handle` | the pool, as other tasks use it |
//! | `connection` | the stream to one peer |
//! | `order_batch` | the messages that carry orders; pure |
//! | `peer_report` | reports of peers, sorted by who gets what; pure |

mod attempts;
mod capacity;
pub(crate) mod connection;
mod delegation;
pub(crate) mod dispatcher;
pub(crate) mod handle;
mod leases;
mod membership;
pub mod messages;
pub mod order_batch;
mod pace;
mod peer;
pub mod peer_report;
mod placement;
pub mod pool;
pub mod pool_input;
mod recovery;
#[cfg(test)]
mod tests;
mod whereabouts;
