//! Time as the driver passes it in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since an origin that the driver chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// The time when `duration` has passed since this one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}
