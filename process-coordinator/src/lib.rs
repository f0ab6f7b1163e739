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

pub mod attempt;
pub mod cache;
mod convert;
mod coordinator;
pub mod data;
mod definitions;
pub mod process;
mod rpc;
pub mod subtrees;
pub mod workers;

pub use rpc::service::{Options, Printed, Service};
