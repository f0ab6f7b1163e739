//! How an element ends, and why it stops before its own end.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How an element ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// All its work is done and its results are there.
    Completed,
    /// A failure ended it, and no retry is left.
    Failed(Box<Failure>),
    /// A user, or an element around it, cancelled it.
    Cancelled,
    /// It begins anew after `FINALLY`. Only the phase `Finishing` uses this value; no element ends with it.
    Restart,
}

/// Why an element stops before its own end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StopReason {
    /// Its exit condition holds.
    Exit,
    /// A user, or an element around it, cancelled it.
    Cancelled,
    /// It failed.
    Failed(Box<Failure>),
    /// A user asked for a new try.
    Restart,
}
