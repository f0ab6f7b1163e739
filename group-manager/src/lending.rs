//! Loans: slots of workers that coordinators of other groups may use for a while.
//!
//! A loan is for one worker. A borrower extends a loan by renewing it before it ends. A request without a renewal asks
//! for more slots. Workers decide on their own slots, so a loan is only an expectation, which keeps other groups from
//! sending more work than this group has free slots.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::{message_limits, v1};

/// Duration of a loan. The borrower may count on the slots for this long.
pub(crate) const LOAN_DURATION: Duration = Duration::from_secs(5);

/// Upper bound on the loans that another manager may send: more than a group has workers.
const MAX_LOANS: usize = 10_000;

/// A coordinator of another group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Borrower {
    pub(crate) group: String,
    pub(crate) coordinator: String,
}

/// A worker whose slots could be lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LendableWorker {
    pub(crate) worker: String,
    pub(crate) slots: u32,
    /// Slots with work of any group.
    pub(crate) busy: u32,
}

/// Slots of one worker that a borrower holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) worker: String,
    pub(crate) slots: u32,
}

/// All loans. Times count from a beginning that the caller chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lending {
    /// By borrower and worker.
    loans: BTreeMap<(Borrower, String), Loan>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Loan {
    slots: u32,
    until: Duration,
}

impl Lending {
    /// Slots that all borrowers hold.
    pub(crate) fn total(&self) -> u32 {
        self.loans.values().map(|loan| loan.slots).fold(0, u32::saturating_add)
    }

    fn held(&self, borrower: &Borrower, worker: &str) -> u32 {
        self.loans.get(&(borrower.clone(), worker.to_owned())).map_or(0, |loan| loan.slots)
    }

    /// Slots of a worker that other borrowers hold.
    fn held_by_others(&self, borrower: &Borrower, worker: &str) -> u32 {
        let loans = self.loans.iter().filter(|((other, lent), _)| lent == worker && other != borrower);
        loans.map(|(_, loan)| loan.slots).fold(0, u32::saturating_add)
    }

    /// Slots of a worker that are neither busy nor lent. A lent slot may be busy, or not busy yet.
    pub(crate) fn free_slots(&self, worker: &LendableWorker) -> u32 {
        let lent = self.loans.iter().filter(|((_, lent), _)| *lent == worker.worker);
        let lent = lent.map(|(_, loan)| loan.slots).fold(0, u32::saturating_add);
        worker.slots.saturating_sub(worker.busy.max(lent))
    }

    /// Lends slots of the worker with the most free slots. If no other worker has any, those are slots that the borrower holds and
    /// does not use. All loans together take at most `limit` slots. The result includes slots of that worker that the borrower
    /// holds already.
    pub(crate) fn lend(
        &mut self,
        borrower: &Borrower,
        workers: &[LendableWorker],
        limit: u32,
        now: Duration,
    ) -> Option<Granted> {
        let free =
            |it: &LendableWorker| it.slots.saturating_sub(it.busy.max(self.held_by_others(borrower, &it.worker)));
        let best = workers.iter().max_by_key(|it| (self.free_slots(it), free(it))).filter(|it| free(it) > 0)?;
        let available = best.slots.saturating_sub(self.held_by_others(borrower, &best.worker));
        let slots = self.held(borrower, &best.worker).saturating_add(free(best)).min(available);
        self.grant(borrower, &best.worker, slots, limit, now)
    }

    /// Extends the loan of a worker. Without such a loan, lends free slots of the worker.
    pub(crate) fn renew(
        &mut self,
        borrower: &Borrower,
        worker: &LendableWorker,
        limit: u32,
        now: Duration,
    ) -> Option<Granted> {
        match self.held(borrower, &worker.worker).min(worker.slots) {
            0 => self.lend(borrower, std::slice::from_ref(worker), limit, now),
            held => self.grant(borrower, &worker.worker, held, limit, now),
        }
    }

    fn grant(&mut self, borrower: &Borrower, worker: &str, slots: u32, limit: u32, now: Duration) -> Option<Granted> {
        let other_loans = self.total().saturating_sub(self.held(borrower, worker));
        let slots = slots.min(limit.saturating_sub(other_loans));
        if slots == 0 {
            return None;
        }
        let loan = Loan { slots, until: now + LOAN_DURATION };
        self.loans.insert((borrower.clone(), worker.to_owned()), loan);
        Some(Granted { worker: worker.to_owned(), slots })
    }

    /// Removes expired loans.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.loans.retain(|_, loan| loan.until > now);
    }

    /// All loans, for other managers of the group.
    pub(crate) fn to_wire(&self, now: Duration) -> Vec<v1::Lent> {
        let loans = self.loans.iter().map(|((borrower, worker), loan)| v1::Lent {
            group: borrower.group.clone(),
            coordinator: borrower.coordinator.clone(),
            worker: worker.clone(),
            slots: loan.slots,
            left_ms: loan.until.saturating_sub(now).as_millis() as u64,
        });
        loans.collect()
    }

    /// The loans that another manager sent. Leaves out those that no manager makes.
    pub(crate) fn from_wire(lent: Vec<v1::Lent>, now: Duration) -> Self {
        let valid = |it: &v1::Lent| {
            let names = [&it.group, &it.coordinator, &it.worker];
            it.slots > 0 && names.iter().all(|name| message_limits::check_name("a name in a loan", name).is_ok())
        };
        let loans = lent.into_iter().filter(valid).take(MAX_LOANS).map(|it| {
            let left = Duration::from_millis(it.left_ms).min(LOAN_DURATION);
            let borrower = Borrower { group: it.group, coordinator: it.coordinator };
            ((borrower, it.worker), Loan { slots: it.slots, until: now + left })
        });
        Self { loans: loans.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const UNLIMITED: u32 = u32::MAX;

    fn borrower(name: &str) -> Borrower {
        Borrower { group: "there".into(), coordinator: name.into() }
    }

    fn worker(name: &str, slots: u32, busy: u32) -> LendableWorker {
        LendableWorker { worker: name.into(), slots, busy }
    }

    fn granted(worker: &str, slots: u32) -> Option<Granted> {
        Some(Granted { worker: worker.into(), slots })
    }

    /// Loans by borrower, worker and number of slots.
    fn lending(loans: &[(&str, &str, u32)]) -> Lending {
        let loan = |slots| Loan { slots, until: NOW + Duration::from_secs(1) };
        let loans = loans.iter().map(|(name, worker, slots)| ((borrower(name), (*worker).to_owned()), loan(*slots)));
        Lending { loans: loans.collect() }
    }

    #[test]
    fn a_borrower_gets_free_slots() {
        let both = vec![worker("v", 2, 1), worker("w", 4, 1)];
        for (loans, workers, limit, expected) in [
            // Slots of the worker with the most free slots.
            (&[][..], both.clone(), UNLIMITED, granted("w", 3)),
            (&[], vec![worker("w", 4, 4)], UNLIMITED, None),
            (&[], vec![], UNLIMITED, None),
            // Slots that other borrowers hold are not free, whether busy or not.
            (&[("other", "w", 3)], vec![worker("w", 4, 1)], UNLIMITED, granted("w", 1)),
            (&[("other", "w", 3)], vec![worker("w", 4, 3)], UNLIMITED, granted("w", 1)),
            (&[("other", "w", 4)], both.clone(), UNLIMITED, granted("v", 1)),
            // The borrower keeps the slots that it holds and gets more.
            (&[("asker", "w", 2)], vec![worker("w", 4, 2)], UNLIMITED, granted("w", 4)),
            (&[("asker", "w", 2)], vec![worker("w", 2, 1)], UNLIMITED, granted("w", 2)),
            (&[("asker", "w", 2)], vec![worker("w", 2, 2)], UNLIMITED, None),
            // Slots of another worker rather than those that it holds and does not use.
            (&[("asker", "w", 4)], vec![worker("v", 2, 0), worker("w", 4, 0)], UNLIMITED, granted("v", 2)),
            (&[("asker", "w", 4)], vec![worker("v", 2, 2), worker("w", 4, 0)], UNLIMITED, granted("w", 4)),
            // The limit applies to all borrowers together.
            (&[], both.clone(), 2, granted("w", 2)),
            (&[("other", "v", 1)], both.clone(), 2, granted("w", 1)),
            (&[("asker", "v", 2)], both.clone(), 2, None),
            (&[("asker", "w", 2)], vec![worker("w", 4, 2)], 3, granted("w", 3)),
            (&[], both.clone(), 0, None),
        ] {
            let mut lending = lending(loans);
            assert_eq!(lending.lend(&borrower("asker"), &workers, limit, NOW), expected, "{loans:?} {workers:?}");
        }
    }

    #[test]
    fn a_renewal_keeps_the_loan() {
        for (loans, worker, limit, expected) in [
            // Even if all slots are busy.
            (&[("asker", "w", 2)][..], worker("w", 2, 2), UNLIMITED, granted("w", 2)),
            (&[("asker", "w", 2), ("other", "w", 2)], worker("w", 4, 4), UNLIMITED, granted("w", 2)),
            // The worker has fewer slots now, or the limit is lower.
            (&[("asker", "w", 4)], worker("w", 3, 3), UNLIMITED, granted("w", 3)),
            (&[("asker", "w", 4)], worker("w", 4, 4), 1, granted("w", 1)),
            // A manager that does not know the loan lends free slots.
            (&[], worker("w", 4, 3), UNLIMITED, granted("w", 1)),
            (&[], worker("w", 4, 4), UNLIMITED, None),
        ] {
            let mut lending = lending(loans);
            assert_eq!(lending.renew(&borrower("asker"), &worker, limit, NOW), expected, "{loans:?} {worker:?}");
        }
    }

    #[test]
    fn a_loan_ends_unless_it_is_renewed() {
        let mut lending = Lending::default();
        let worker = worker("w", 2, 0);
        assert_eq!(lending.lend(&borrower("asker"), std::slice::from_ref(&worker), UNLIMITED, NOW), granted("w", 2));
        lending.expire(NOW + LOAN_DURATION - Duration::from_millis(1));
        assert_eq!(lending.total(), 2);
        lending.renew(&borrower("asker"), &worker, UNLIMITED, NOW + LOAN_DURATION / 2);
        lending.expire(NOW + LOAN_DURATION);
        assert_eq!(lending.total(), 2);
        lending.expire(NOW + LOAN_DURATION / 2 + LOAN_DURATION);
        assert_eq!(lending.total(), 0);
    }

    #[test]
    fn another_manager_continues_the_loans() {
        let here = lending(&[("one", "w", 2), ("two", "w", 1)]);
        let later = Duration::from_secs(7);
        let there = Lending::from_wire(here.to_wire(NOW), later);
        assert_eq!((there.total(), there.to_wire(later)), (3, here.to_wire(NOW)));
        let endless = v1::Lent { left_ms: u64::MAX, ..here.to_wire(NOW).remove(0) };
        let nameless = v1::Lent { worker: String::new(), ..endless.clone() };
        let long = v1::Lent { group: "g".repeat(9999), ..endless.clone() };
        assert_eq!(Lending::from_wire(vec![nameless, long], later), Lending::default());
        assert_eq!(
            Lending::from_wire(vec![endless], later).to_wire(later)[0].left_ms,
            LOAN_DURATION.as_millis() as u64
        );
    }
}
