//! The process coordinator: interprets processes and dispatches their activities to workers.
//!
//! Pure cores decide and tasks act: `process::driver` and `workers::pool` do no I/O, have no clock and start no threads;
//! `process::runner` and `workers::dispatcher` feed them with mail and time and carry out what they want.
//!
//! | module | is about |
//! |---|---|
//! | [`process`] | processes, from their start to their removal |
//! | [`workers`] | the pool of workers and other coordinators that run attempts |
//! | [`subtrees`] | subtrees that run here for other coordinators |
//! | [`data`] | files: where they are, how they were made, how they are made again |
//! | [`cache`] | results of activities that later processes reuse |
//! | [`memo`] | completed activities of a process, which a rerun takes over |
//! | `rpc` | the gRPC service, a file per call |
//! | `coordinator` | what all tasks share, its opening, background tasks |
//! | `options` | settings |
//! | [`task`] | the order to run an attempt, and what it needs |
//! | [`handover`] | what processes and the pool hand each other |
//! | `definitions` | programs: submitted documents, loaded and stored |
//! | `engine_messages` | the engine's types to and from the wire |
//! | [`record_codec`] | the encoding of what the repository stores |
//! | `repository_calls`, `clock` | repository calls in order; the wall clock |

pub mod cache;
mod clock;
mod coordinator;
pub mod data;
mod definitions;
mod engine_messages;
pub mod handover;
pub mod memo;
mod options;
pub mod process;
pub mod record_codec;
mod repository_calls;
mod rpc;
pub mod subtrees;
pub mod task;
pub mod workers;

pub use options::{Options, Printed};
pub use rpc::service::Service;
