//! The fencing of coordinators: of two coordinators that claim the same process, the one with the newer epoch counts.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Upper bound on remembered processes, which bounds the memory. The oldest claims go first.
const MAX_REMEMBERED: usize = 4096;

/// Newest epochs of claimed processes.
#[derive(Debug, Clone, Default)]
pub struct Epochs {
    /// Newest epoch by realm and process.
    newest: HashMap<(Arc<str>, Arc<str>), u64>,
    /// Realms and processes in the order of their first claims.
    order: VecDeque<(Arc<str>, Arc<str>)>,
}

impl Epochs {
    /// Registers the claim of a coordinator to a process of a realm. Returns whether no newer claim is known.
    pub fn claim(&mut self, realm: &Arc<str>, process: &str, epoch: u64) -> bool {
        let name = (realm.clone(), Arc::from(process));
        if let Some(newest) = self.newest.get_mut(&name) {
            *newest = epoch.max(*newest);
            return *newest == epoch;
        }
        if self.order.len() == MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.newest.remove(&oldest);
        }
        self.order.push_back(name.clone());
        self.newest.insert(name, epoch);
        true
    }

    /// Messages about a process in that epoch count, because no newer claim is known.
    pub fn counts(&self, realm: &Arc<str>, process: &Arc<str>, epoch: u64) -> bool {
        self.newest.is_empty()
            || self.newest.get(&(realm.clone(), process.clone())).is_none_or(|newest| *newest <= epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_claim_counts() {
        let (realm, other, process) = (Arc::from("r"), Arc::from("s"), Arc::from("p"));
        let mut epochs = Epochs::default();
        assert!(epochs.counts(&realm, &process, 0));
        assert!(epochs.claim(&realm, &process, 2));
        assert!(epochs.claim(&realm, &process, 2));
        assert!(!epochs.claim(&realm, &process, 1));
        assert_eq!([1, 2, 3].map(|epoch| epochs.counts(&realm, &process, epoch)), [false, true, true]);
        assert!(epochs.counts(&other, &process, 1));
        for number in 0..MAX_REMEMBERED {
            assert!(!epochs.counts(&realm, &process, 1));
            assert!(epochs.claim(&realm, &number.to_string(), 9));
        }
        assert!(epochs.counts(&realm, &process, 1), "the oldest claim is forgotten");
        assert_eq!((epochs.order.len(), epochs.newest.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
