//! What a program may use, and what is told when it uses more. Pure.

/// What a program may use at most; 0 where there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub memory: u64,
    pub scratch: u64,
    pub processes: u64,
}

/// What it was seen to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub memory: u64,
    pub scratch: u64,
    pub processes: u64,
}

impl Limits {
    /// What is too much, in words.
    pub fn exceeded(&self, used: Used) -> Option<String> {
        let over = |used: u64, limit: u64| limit > 0 && used > limit;
        if over(used.memory, self.memory) {
            Some(format!("used {} of memory, its limit is {}", size(used.memory), size(self.memory)))
        } else if over(used.scratch, self.scratch) {
            Some(format!("used {} of disk, its limit is {}", size(used.scratch), size(self.scratch)))
        } else if over(used.processes, self.processes) {
            Some(format!("had {} processes at once, its limit is {}", used.processes, self.processes))
        } else {
            None
        }
    }
}

/// The most memory that a program took, from what was seen of it and what the system counted for its largest process.
/// The system begins to count before the program does, while it still has the memory of this one: so up to this one's own
/// peak its count tells only what the program did not exceed. That is taken if nothing was seen.
pub(crate) fn peak(seen: u64, counted: u64, own: impl FnOnce() -> u64) -> u64 {
    match seen < counted && (seen == 0 || counted > own()) {
        true => counted,
        false => seen,
    }
}

/// A number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        None => format!("{bytes} bytes"),
        Some((unit, shift)) if bytes.is_multiple_of(1 << shift) => format!("{} {unit}", bytes >> shift),
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_told_with_its_limit() {
        let limits = Limits { memory: 256 << 20, scratch: 1 << 30, processes: 4 };
        assert_eq!(limits.exceeded(Used { memory: 256 << 20, scratch: 1 << 30, processes: 4 }), None);
        let told = |used| limits.exceeded(used).unwrap_or_default();
        let memory = told(Used { memory: 512 << 20, ..Used::default() });
        assert_eq!(memory, "used 512 MiB of memory, its limit is 256 MiB");
        let scratch = told(Used { scratch: 3 << 29, ..Used::default() });
        assert_eq!(scratch, "used 1.5 GiB of disk, its limit is 1 GiB");
        assert_eq!(told(Used { processes: 5, ..Used::default() }), "had 5 processes at once, its limit is 4");
        assert_eq!(Limits::default().exceeded(Used { memory: u64::MAX, ..Used::default() }), None);
        // Seen, counted, this program's own.
        for (numbers, expected) in
            [([0, 50, 70], 50), ([10, 70, 70], 10), ([10, 90, 70], 90), ([95, 90, 70], 95), ([10, 10, 0], 10)]
        {
            let [seen, counted, own] = numbers;
            assert_eq!(peak(seen, counted, || own), expected, "{numbers:?}");
        }
        assert_eq!([size(0), size(1023), size(1 << 50)], ["0 bytes", "1023 bytes", "1024 TiB"]);
    }
}
