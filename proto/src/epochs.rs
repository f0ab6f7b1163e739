//! Which coordinator speaks for a process, when two believe that they do.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// So many processes are remembered, those that were claimed last.
const MOST: usize = 4096;

/// The epochs in which processes were claimed, as far as they are remembered.
#[derive(Debug, Clone, Default)]
pub struct Epochs {
    newest: HashMap<(Arc<str>, Arc<str>), u64>,
    /// In the order in which they were first claimed.
    order: VecDeque<(Arc<str>, Arc<str>)>,
}

impl Epochs {
    /// A coordinator of that realm claims a process: does that count?
    pub fn claim(&mut self, realm: &Arc<str>, process: &str, epoch: u64) -> bool {
        let name = (realm.clone(), Arc::from(process));
        if let Some(newest) = self.newest.get_mut(&name) {
            *newest = epoch.max(*newest);
            return *newest == epoch;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.newest.remove(&oldest);
        }
        self.order.push_back(name.clone());
        self.newest.insert(name, epoch);
        true
    }

    /// Does what is said of a process in that epoch count?
    pub fn counts(&self, realm: &Arc<str>, process: &Arc<str>, epoch: u64) -> bool {
        self.newest.is_empty()
            || self.newest.get(&(realm.clone(), process.clone())).is_none_or(|newest| *newest <= epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_claimed_last_counts() {
        let (realm, other, process) = (Arc::from("r"), Arc::from("s"), Arc::from("p"));
        let mut epochs = Epochs::default();
        assert!(epochs.counts(&realm, &process, 0));
        assert!(epochs.claim(&realm, &process, 2));
        assert!(epochs.claim(&realm, &process, 2));
        assert!(!epochs.claim(&realm, &process, 1));
        assert_eq!([1, 2, 3].map(|epoch| epochs.counts(&realm, &process, epoch)), [false, true, true]);
        assert!(epochs.counts(&other, &process, 1));
        for number in 0..MOST {
            assert!(!epochs.counts(&realm, &process, 1));
            assert!(epochs.claim(&realm, &number.to_string(), 9));
        }
        assert!(epochs.counts(&realm, &process, 1), "the oldest is forgotten");
        assert_eq!((epochs.order.len(), epochs.newest.len()), (MOST, MOST));
    }
}
