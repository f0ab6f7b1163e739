//! The process coordinator: interprets processes and hands their activities to workers.
//!
//! What decides is pure, what acts is around it:
//!
//! | pure | is about | in the world |
//! |---|---|---|
//! | `driver` | one process: what happens goes in, records and effects come out | `process` |
//! | `pool` | the workers: who has room, who has which attempt, who is gone | `dispatcher`, `link` |
//! | `holdings`, `lineage` | files: who has them; how they were made, and are made again | |
//! | `reuse` | results of activities that are used again | `shelf` |
//! | `foster` | subtrees that run here for other coordinators | `parents` |
//! | `history` | what became of everything in a process that has ended | |
//! | `journal` | what is kept of a process | the repository |
//!
//! `lifecycle` begins, recovers, takes over and removes processes; `programs` has their definitions; `convert` turns the
//! engine's words into those of the wire; `logs` finds what activities write, `outputs` has what they give for whoever
//! follows a process, `explain` tells why results were used again or not; `service` is what others ask.

mod convert;
mod dispatcher;
pub mod driver;
mod explain;
mod follow;
pub mod foster;
pub mod history;
mod holdings;
pub mod journal;
mod keeping;
mod lifecycle;
pub mod lineage;
mod link;
mod logs;
mod outputs;
mod parents;
pub mod pool;
mod process;
mod programs;
pub mod reuse;
mod service;
mod shelf;

pub use service::{Options, Printed, Service};
