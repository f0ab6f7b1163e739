//! Times and sizes for people.

use std::time::{Duration, UNIX_EPOCH};

/// A length of time, in its two largest units.
pub(crate) fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes:02}m"),
        (days, hours, ..) => format!("{days}d {hours:02}h"),
    }
}

/// A point in time, given in milliseconds since 1970.
pub(crate) fn timestamp(ms: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    time.map_or_else(String::new, |time| humantime::format_rfc3339_seconds(time).to_string())
}

pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, shown) in [(0, "0s"), (59, "59s"), (65, "1m 05s"), (7380, "2h 03m"), (90_000, "1d 01h")] {
            assert_eq!(duration(Duration::from_secs(seconds)), shown);
        }
    }
}
