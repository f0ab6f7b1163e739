//! Limits of programs, and the messages for programs that exceed them. Pure.

/// Upper bounds on the usage of a program; 0 means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsageLimits {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes on disk.
    pub scratch: u64,
    pub processes: u64,
}

/// The usage of a program at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ObservedUsage {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes on disk.
    pub scratch: u64,
    pub processes: u64,
}

impl UsageLimits {
    /// Describes the first limit that the usage exceeds.
    pub fn exceeded(&self, used: ObservedUsage) -> Option<String> {
        let over = |used: u64, limit: u64| limit > 0 && used > limit;
        if over(used.memory, self.memory) {
            let [used, limit] = format_like(used.memory, self.memory);
            Some(format!("used {used} of memory, its limit is {limit}"))
        } else if over(used.scratch, self.scratch) {
            let [used, limit] = format_like(used.scratch, self.scratch);
            Some(format!("used {used} of disk, its limit is {limit}"))
        } else if over(used.processes, self.processes) {
            Some(format!("had {} processes at once, its limit is {}", used.processes, self.processes))
        } else {
            None
        }
    }
}

/// The peak memory of a program, from the observed peak (`seen`) and the kernel's count for its largest process.
///
/// The kernel starts to count before the program replaces the memory of this process. So a count up to this process's `own`
/// peak is only an upper bound, which is used if nothing was observed.
pub(crate) fn peak_memory(seen: u64, counted: u64, own: impl FnOnce() -> u64) -> u64 {
    match seen < counted && (seen == 0 || counted > own()) {
        true => counted,
        false => seen,
    }
}

/// Units of sizes, the largest first.
type SizeUnits = [(&'static str, u64); 4];
const BINARY_UNITS: SizeUnits = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const DECIMAL_UNITS: SizeUnits = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

/// A number of bytes with a unit, for messages.
pub(crate) fn format_bytes(bytes: u64) -> String {
    format_in(bytes, &BINARY_UNITS)
}

/// A used and a limiting number of bytes, both in the units in which the limit was written: those that divide it best.
fn format_like(used: u64, limit: u64) -> [String; 2] {
    let count = |units: &SizeUnits| {
        units.iter().find(|(_, unit)| limit.is_multiple_of(*unit)).map_or(limit, |(_, unit)| limit / unit)
    };
    let units = if count(&DECIMAL_UNITS) < count(&BINARY_UNITS) { DECIMAL_UNITS } else { BINARY_UNITS };
    [format_in(used, &units), format_in(limit, &units)]
}

/// A limit in the units in which it was written.
pub(crate) fn format_limit(limit: u64) -> String {
    let [_, limit] = format_like(0, limit);
    limit
}

fn format_in(bytes: u64, units: &SizeUnits) -> String {
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        None => format!("{bytes} bytes"),
        Some((name, unit)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_usage_and_the_limit() {
        let limits = UsageLimits { memory: 256 << 20, scratch: 1 << 30, processes: 4 };
        assert_eq!(limits.exceeded(ObservedUsage { memory: 256 << 20, scratch: 1 << 30, processes: 4 }), None);
        let message = |used| limits.exceeded(used).unwrap_or_default();
        let memory = message(ObservedUsage { memory: 512 << 20, ..ObservedUsage::default() });
        assert_eq!(memory, "used 512 MiB of memory, its limit is 256 MiB");
        let asked = UsageLimits { memory: 500_000_000, ..UsageLimits::default() };
        let memory = asked.exceeded(ObservedUsage { memory: 512 << 20, ..ObservedUsage::default() });
        assert_eq!(memory.as_deref(), Some("used 536.9 MB of memory, its limit is 500 MB"));
        assert_eq!(format_like(1, 2_000_000_000_000), ["1 bytes", "2 TB"]);
        let scratch = message(ObservedUsage { scratch: 3 << 29, ..ObservedUsage::default() });
        assert_eq!(scratch, "used 1.5 GiB of disk, its limit is 1 GiB");
        assert_eq!(
            message(ObservedUsage { processes: 5, ..ObservedUsage::default() }),
            "had 5 processes at once, its limit is 4"
        );
        assert_eq!(
            UsageLimits::default().exceeded(ObservedUsage { memory: u64::MAX, ..ObservedUsage::default() }),
            None
        );
        // Observed, counted, own peak of this process.
        for (numbers, expected) in
            [([0, 50, 70], 50), ([10, 70, 70], 10), ([10, 90, 70], 90), ([95, 90, 70], 95), ([10, 10, 0], 10)]
        {
            let [seen, counted, own] = numbers;
            assert_eq!(peak_memory(seen, counted, || own), expected, "{numbers:?}");
        }
        assert_eq!([format_bytes(0), format_bytes(1023), format_bytes(1 << 50)], ["0 bytes", "1023 bytes", "1024 TiB"]);
    }
}
