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

/// How long ago something was, in its largest unit.
pub(crate) fn age(length: Duration) -> String {
    let seconds = length.as_secs();
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds}s ago"),
        (0, 0, minutes) => format!("{minutes}m ago"),
        (0, hours, _) => format!("{hours}h ago"),
        (days, ..) => format!("{days}d ago"),
    }
}

/// A length of time with four digits or so: seconds below two minutes, then two units.
pub(crate) fn precise(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "for ever".into();
    }
    match seconds {
        0.0 => "0 s".into(),
        0.0..0.01 => format!("{:.3} ms", seconds * 1e3),
        0.01..1.0 => format!("{seconds:.3} s"),
        1.0..120.0 => format!("{seconds:.2} s"),
        120.0..7200.0 => format!("{:.0} min {:02.0} s", (seconds.round() / 60.0).floor(), seconds.round() % 60.0),
        7200.0..172_800.0 => {
            let minutes = (seconds / 60.0).round();
            format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
        }
        _ => {
            let hours = (seconds / 3600.0).round();
            format!("{:.0} d {:02.0} h", (hours / 24.0).floor(), hours % 24.0)
        }
    }
}

/// An amount of money: four digits after the point if it is small.
pub(crate) fn money(amount: f64) -> String {
    match amount.abs() {
        0.0 => "0".into(),
        0.0..1.0 => format!("{amount:.4}"),
        _ => format!("{amount:.2}"),
    }
}

/// A part of a whole.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
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
    fn precise_times_have_about_four_digits() {
        for (seconds, shown) in [
            (0.0, "0 s"),
            (0.0012, "1.200 ms"),
            (0.5, "0.500 s"),
            (80.0, "80.00 s"),
            (3812.4, "63 min 32 s"),
            (7199.9, "120 min 00 s"),
            (14_115.0, "3 h 55 min"),
            (200_000.0, "2 d 08 h"),
        ] {
            assert_eq!(precise(seconds), shown);
        }
        assert_eq!([0.0, 0.01234, 12.345].map(money), ["0", "0.0123", "12.35"]);
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, shown) in [(0, "0s"), (59, "59s"), (65, "1m 05s"), (7380, "2h 03m"), (90_000, "1d 01h")] {
            assert_eq!(duration(Duration::from_secs(seconds)), shown);
        }
        for (seconds, shown) in [(59, "59s ago"), (65, "1m ago"), (7380, "2h ago"), (90_000, "1d ago")] {
            assert_eq!(age(Duration::from_secs(seconds)), shown);
        }
    }
}
