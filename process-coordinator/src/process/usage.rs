//! Resource usage of external programs, summed up by activity type.

use serde::{Deserialize, Serialize};
use xavantes_proto::v1;

/// Resource usage of several attempts of external programs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    attempts: u64,
    wall_ms: u64,
    longest_ms: u64,
    user_ms: u64,
    system_ms: u64,
    peak_memory: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl UsageTotals {
    /// Usage of one attempt.
    pub fn of_attempt(usage: &v1::Usage) -> Self {
        Self {
            attempts: 1,
            wall_ms: usage.wall_ms,
            longest_ms: usage.wall_ms,
            user_ms: usage.user_ms,
            system_ms: usage.system_ms,
            peak_memory: usage.peak_memory,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }
    }

    /// Adds the usage of other attempts.
    pub fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.attempts, other.attempts),
            (&mut self.wall_ms, other.wall_ms),
            (&mut self.user_ms, other.user_ms),
            (&mut self.system_ms, other.system_ms),
            (&mut self.read_bytes, other.read_bytes),
            (&mut self.written_bytes, other.written_bytes),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }

    /// The totals of an activity type, without its name.
    pub(crate) fn to_wire(&self, activity: u32) -> v1::UsageTotals {
        v1::UsageTotals {
            activity,
            r#type: String::new(),
            attempts: self.attempts,
            wall_ms: self.wall_ms,
            longest_ms: self.longest_ms,
            user_ms: self.user_ms,
            system_ms: self.system_ms,
            peak_memory: self.peak_memory,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
        }
    }

    /// The totals that a message reports.
    pub(crate) fn from_wire(wire: &v1::UsageTotals) -> Self {
        Self {
            attempts: wire.attempts,
            wall_ms: wire.wall_ms,
            longest_ms: wire.longest_ms,
            user_ms: wire.user_ms,
            system_ms: wire.system_ms,
            peak_memory: wire.peak_memory,
            read_bytes: wire.read_bytes,
            written_bytes: wire.written_bytes,
        }
    }
}
