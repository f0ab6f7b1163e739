//! Numbers with a total order, for heaps and sorting.

use std::cmp::Ordering;

/// A number with the order of [`f64::total_cmp`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ordered(pub(crate) f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
