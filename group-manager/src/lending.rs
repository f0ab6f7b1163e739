//! Slots that are lent to coordinators of other groups: to whom, how many, for how long.
//!
//! A lease is for one worker. Whoever holds it keeps it by renewing it before it ends; asking again without renewing is
//! for more. Workers decide on their own slots, so a lease is an expectation: it keeps groups from sending more than
//! there is room for.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::v1;

/// For how long a coordinator may count on slots.
pub const LENT_FOR: Duration = Duration::from_secs(5);

/// Who borrows: group and coordinator.
pub type Borrower = (String, String);

/// A worker that could be lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub worker: String,
    /// How many it has.
    pub slots: u32,
    /// How many of them have work, of whomever.
    pub busy: u32,
}

/// Leases. Times count from some beginning that the caller chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lending {
    lent: BTreeMap<(Borrower, String), Lease>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    slots: u32,
    until: Duration,
}

impl Lending {
    /// All slots that are lent.
    pub fn total(&self) -> u32 {
        self.lent.values().map(|lease| lease.slots).fold(0, u32::saturating_add)
    }

    fn held(&self, borrower: &Borrower, worker: &str) -> u32 {
        self.lent.get(&(borrower.clone(), worker.to_owned())).map_or(0, |lease| lease.slots)
    }

    /// Slots of a worker that others hold.
    fn held_by_others(&self, borrower: &Borrower, worker: &str) -> u32 {
        let leases = self.lent.iter().filter(|((other, lent), _)| lent == worker && other != borrower);
        leases.map(|(_, lease)| lease.slots).fold(0, u32::saturating_add)
    }

    /// Lends slots of the candidate that has most to give, but not more than `most` to everybody together. Gives the
    /// worker, and how many of its slots the borrower holds now.
    pub fn lend(
        &mut self,
        borrower: &Borrower,
        candidates: &[Candidate],
        most: u32,
        now: Duration,
    ) -> Option<(String, u32)> {
        let free = |it: &Candidate| it.slots.saturating_sub(it.busy.max(self.held_by_others(borrower, &it.worker)));
        let best = candidates.iter().max_by_key(|it| free(it)).filter(|it| free(it) > 0)?;
        let own = best.slots.saturating_sub(self.held_by_others(borrower, &best.worker));
        let slots = (self.held(borrower, &best.worker) + free(best)).min(own);
        self.grant(borrower, &best.worker, slots, most, now)
    }

    /// Keeps what the borrower holds of this worker for longer; if it holds nothing of it, lends some of it.
    pub fn renew(
        &mut self,
        borrower: &Borrower,
        worker: &Candidate,
        most: u32,
        now: Duration,
    ) -> Option<(String, u32)> {
        match self.held(borrower, &worker.worker).min(worker.slots) {
            0 => self.lend(borrower, std::slice::from_ref(worker), most, now),
            held => self.grant(borrower, &worker.worker, held, most, now),
        }
    }

    fn grant(
        &mut self,
        borrower: &Borrower,
        worker: &str,
        slots: u32,
        most: u32,
        now: Duration,
    ) -> Option<(String, u32)> {
        let elsewhere = self.total() - self.held(borrower, worker);
        let slots = slots.min(most.saturating_sub(elsewhere));
        if slots == 0 {
            return None;
        }
        let lease = Lease { slots, until: now + LENT_FOR };
        self.lent.insert((borrower.clone(), worker.to_owned()), lease);
        Some((worker.to_owned(), slots))
    }

    /// Forgets what has ended.
    pub fn expire(&mut self, now: Duration) {
        self.lent.retain(|_, lease| lease.until > now);
    }

    /// All leases, for another manager.
    pub fn tell(&self, now: Duration) -> Vec<v1::Lent> {
        let leases = self.lent.iter().map(|(((group, coordinator), worker), lease)| v1::Lent {
            group: group.clone(),
            coordinator: coordinator.clone(),
            worker: worker.clone(),
            slots: lease.slots,
            left_ms: lease.until.saturating_sub(now).as_millis() as u64,
        });
        leases.collect()
    }

    /// The leases that another manager told of.
    pub fn learn(lent: Vec<v1::Lent>, now: Duration) -> Self {
        let leases = lent.into_iter().map(|it| {
            let left = Duration::from_millis(it.left_ms).min(LENT_FOR);
            (((it.group, it.coordinator), it.worker), Lease { slots: it.slots, until: now + left })
        });
        Self { lent: leases.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const ALL: u32 = u32::MAX;

    fn borrower(name: &str) -> Borrower {
        ("there".into(), name.into())
    }

    fn candidate(worker: &str, slots: u32, busy: u32) -> Candidate {
        Candidate { worker: worker.into(), slots, busy }
    }

    fn lent(worker: &str, slots: u32) -> Option<(String, u32)> {
        Some((worker.into(), slots))
    }

    /// What is lent already: to whom, of which worker, how many.
    fn lending(leases: &[(&str, &str, u32)]) -> Lending {
        let lease = |slots| Lease { slots, until: NOW + Duration::from_secs(1) };
        let leases = leases.iter().map(|(name, worker, slots)| ((borrower(name), (*worker).to_owned()), lease(*slots)));
        Lending { lent: leases.collect() }
    }

    #[test]
    fn whoever_asks_gets_what_is_free() {
        let both = vec![candidate("v", 2, 1), candidate("w", 4, 1)];
        for (leases, candidates, most, expected) in [
            // Of the worker that has most to give.
            (&[][..], both.clone(), ALL, lent("w", 3)),
            (&[], vec![candidate("w", 4, 4)], ALL, None),
            (&[], vec![], ALL, None),
            // What others hold is not free, whether they use it or not.
            (&[("other", "w", 3)], vec![candidate("w", 4, 1)], ALL, lent("w", 1)),
            (&[("other", "w", 3)], vec![candidate("w", 4, 3)], ALL, lent("w", 1)),
            (&[("other", "w", 4)], both.clone(), ALL, lent("v", 1)),
            // What one holds oneself is kept, and more is added.
            (&[("asker", "w", 2)], vec![candidate("w", 4, 2)], ALL, lent("w", 4)),
            (&[("asker", "w", 2)], vec![candidate("w", 2, 1)], ALL, lent("w", 2)),
            (&[("asker", "w", 2)], vec![candidate("w", 2, 2)], ALL, None),
            // The limit is for everybody together.
            (&[], both.clone(), 2, lent("w", 2)),
            (&[("other", "v", 1)], both.clone(), 2, lent("w", 1)),
            (&[("asker", "v", 2)], both.clone(), 2, None),
            (&[("asker", "w", 2)], vec![candidate("w", 4, 2)], 3, lent("w", 3)),
            (&[], both.clone(), 0, None),
        ] {
            let mut lending = lending(leases);
            assert_eq!(lending.lend(&borrower("asker"), &candidates, most, NOW), expected, "{leases:?} {candidates:?}");
        }
    }

    #[test]
    fn whoever_renews_keeps_what_it_has() {
        for (leases, candidate, most, expected) in [
            // Also if it uses all of it.
            (&[("asker", "w", 2)][..], candidate("w", 2, 2), ALL, lent("w", 2)),
            (&[("asker", "w", 2), ("other", "w", 2)], candidate("w", 4, 4), ALL, lent("w", 2)),
            // The worker has become smaller, or the limit lower.
            (&[("asker", "w", 4)], candidate("w", 3, 3), ALL, lent("w", 3)),
            (&[("asker", "w", 4)], candidate("w", 4, 4), 1, lent("w", 1)),
            // A manager that does not know of it lends what is free.
            (&[], candidate("w", 4, 3), ALL, lent("w", 1)),
            (&[], candidate("w", 4, 4), ALL, None),
        ] {
            let mut lending = lending(leases);
            assert_eq!(lending.renew(&borrower("asker"), &candidate, most, NOW), expected, "{leases:?} {candidate:?}");
        }
    }

    #[test]
    fn a_lease_ends_unless_it_is_renewed() {
        let mut lending = Lending::default();
        let worker = candidate("w", 2, 0);
        assert_eq!(lending.lend(&borrower("asker"), std::slice::from_ref(&worker), ALL, NOW), lent("w", 2));
        lending.expire(NOW + LENT_FOR - Duration::from_millis(1));
        assert_eq!(lending.total(), 2);
        lending.renew(&borrower("asker"), &worker, ALL, NOW + LENT_FOR / 2);
        lending.expire(NOW + LENT_FOR);
        assert_eq!(lending.total(), 2);
        lending.expire(NOW + LENT_FOR / 2 + LENT_FOR);
        assert_eq!(lending.total(), 0);
    }

    #[test]
    fn another_manager_goes_on_with_it() {
        let here = lending(&[("one", "w", 2), ("two", "w", 1)]);
        let later = Duration::from_secs(7);
        let there = Lending::learn(here.tell(NOW), later);
        assert_eq!((there.total(), there.tell(later)), (3, here.tell(NOW)));
        let endless = v1::Lent { left_ms: u64::MAX, slots: 1, ..Default::default() };
        assert_eq!(Lending::learn(vec![endless], later).tell(later)[0].left_ms, LENT_FOR.as_millis() as u64);
    }
}
