//! The process coordinator: interprets processes and hands their activities to workers.
//!
//! | file | is about |
//! |---|---|
//! | `process` | the driver of one process: its engine, its mail, its clock |
//! | `pool` | the workers: who has room, who has which attempt, who is gone |
//! | `link` | the stream to one worker, or to another coordinator |
//! | `foster` | subtrees that run here for other coordinators |
//! | `convert` | the engine's words to and from the wire |
//! | `service` | submit, list, show, watch, steer |

mod convert;
mod foster;
mod link;
mod pool;
mod process;
mod service;

pub use service::{Options, Printed, Service};
