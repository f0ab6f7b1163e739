//! The memory that messages take while they arrive. All streams of this program share a budget, and each peer has a part of
//! it: a peer that begins many large messages and ends none takes memory from nobody else.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

/// Upper bound on the bytes that all messages hold while they arrive.
pub const MAX_HELD_BYTES: usize = 512 << 20;
/// Upper bound on the bytes that the messages of one peer hold while they arrive.
pub const MAX_HELD_BYTES_PER_PEER: usize = 256 << 20;
/// Upper bound on the time that a message may take to arrive.
pub const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(120);

static BUDGET: LazyLock<Arc<HeldBudget>> = LazyLock::new(Arc::default);

/// The messages that arrive have taken all memory that they may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded {
    limit: usize,
    /// The limit of one peer, not that of all.
    of_peer: bool,
}

impl std::fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whose, limit) = (if self.of_peer { "this peer" } else { "all peers" }, self.limit >> 20);
        write!(f, "large messages of {whose} take more than {limit} MiB while they arrive; send fewer at once")
    }
}

impl From<BudgetExceeded> for tonic::Status {
    fn from(exceeded: BudgetExceeded) -> Self {
        Self::resource_exhausted(exceeded.to_string())
    }
}

#[derive(Debug, Default)]
struct HeldBudget(Mutex<HeldTotals>);

#[derive(Debug, Default)]
struct HeldTotals {
    total: usize,
    by_peer: HashMap<Arc<str>, usize>,
}

impl HeldTotals {
    fn add(&mut self, peer: &Arc<str>, bytes: usize) -> Result<(), BudgetExceeded> {
        let of_peer = self.by_peer.get(peer).copied().unwrap_or_default();
        if of_peer + bytes > MAX_HELD_BYTES_PER_PEER {
            return Err(BudgetExceeded { limit: MAX_HELD_BYTES_PER_PEER, of_peer: true });
        }
        if self.total + bytes > MAX_HELD_BYTES {
            return Err(BudgetExceeded { limit: MAX_HELD_BYTES, of_peer: false });
        }
        self.total += bytes;
        *self.by_peer.entry(peer.clone()).or_default() += bytes;
        Ok(())
    }

    fn remove(&mut self, peer: &str, bytes: usize) {
        self.total -= bytes;
        if let Some(of_peer) = self.by_peer.get_mut(peer) {
            *of_peer -= bytes;
            if *of_peer == 0 {
                self.by_peer.remove(peer);
            }
        }
    }
}

/// Bytes that one stream of a peer holds. Dropping it frees them.
#[derive(Debug)]
pub struct Held {
    budget: Arc<HeldBudget>,
    peer: Arc<str>,
    bytes: usize,
}

impl Held {
    /// Nothing, of a peer with this address.
    pub fn of(peer: impl Into<Arc<str>>) -> Self {
        Self { budget: BUDGET.clone(), peer: peer.into(), bytes: 0 }
    }

    /// Holds more bytes, if the budgets allow it.
    pub fn grow(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let added = self.budget.0.lock().add(&self.peer, bytes);
        match added {
            Ok(()) => self.bytes += bytes,
            Err(exceeded) => warn!(peer = %self.peer, %exceeded, "refused a large message"),
        }
        added
    }

    /// Holds nothing any more.
    pub fn clear(&mut self) {
        if self.bytes > 0 {
            self.budget.0.lock().remove(&self.peer, self.bytes);
            self.bytes = 0;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_takes_half_of_the_budget_and_all_peers_all_of_it() {
        let budget = Arc::new(HeldBudget::default());
        let held = |peer: &str| Held { budget: budget.clone(), peer: peer.into(), bytes: 0 };
        let (mut a, mut b, mut c, mut d) = (held("a"), held("a"), held("b"), held("c"));
        assert_eq!(a.grow(MAX_HELD_BYTES_PER_PEER - 1), Ok(()));
        assert_eq!(b.grow(1), Ok(()), "another stream of the same peer");
        assert!(b.grow(1).is_err_and(|exceeded| exceeded.of_peer));
        assert_eq!(c.grow(MAX_HELD_BYTES_PER_PEER), Ok(()));
        assert!(d.grow(1).is_err_and(|exceeded| !exceeded.of_peer));
        a.clear();
        assert_eq!(d.grow(1), Ok(()));
        drop((a, b, c, d));
        let totals = budget.0.lock();
        assert_eq!((totals.total, totals.by_peer.len()), (0, 0));
    }
}
