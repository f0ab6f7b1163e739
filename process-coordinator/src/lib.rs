//! The process coordinator: interprets processes and hands their activities to workers.
//!
//! What decides is pure, what acts is around it:
//!
//! | pure | is about | in the world |
//! |---|---|---|
//! | `driver` | one process: what happens goes in, records and effects come out | `process` |
//! | `pool` | the workers: who has room, who has which attempt, who is gone | `dispatcher`, `link` |
//! | `foster` | subtrees that run here for other coordinators | `parents` |
//! | `journal` | what is kept of a process | the repository |
//!
//! `lifecycle` begins, recovers, takes over and removes processes; `programs` has their definitions; `convert` turns the
//! engine's words into those of the wire; `service` is what others ask.

mod convert;
mod dispatcher;
pub mod driver;
pub mod foster;
pub mod journal;
mod lifecycle;
mod link;
mod parents;
pub mod pool;
mod process;
mod programs;
mod service;

pub use service::{Options, Printed, Service};
