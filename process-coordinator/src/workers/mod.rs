//! The workers, and other coordinators, that run attempts for this coordinator.
//!
//! The pool decides and does no I/O; `dispatcher` and `worker_link` carry its commands out.
//!
//! | module | subject |
//! |---|---|
//! | `pool` | the pool: the table of attempts, the peers, and every decision about them; pure |
//! | `worker_messages` | commands, orders, notices and answers of the pool |
//! | `dispatcher` | the task that owns the pool: its mail, its clock, its connections |
//! | `handle` | the pool, as other tasks use it |
//! | `lease_documents` | borrowed workers in the repository |
//! | `worker_link` | the stream to one peer |
//! | `link_state` | what the reader and the writer of a stream share |
//! | `order_batch` | the messages that carry orders; pure |
//! | `peer_report` | reports of peers, sorted by who gets what; pure |

pub(crate) mod dispatcher;
pub(crate) mod handle;
pub(crate) mod lease_documents;
mod link_state;
pub mod order_batch;
pub mod peer_report;
pub mod pool;
pub(crate) mod worker_link;
pub mod worker_messages;
