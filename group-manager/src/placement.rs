//! Where something can run: the rule of the grid, as a function of what is known.
//!
//! The own group comes first. A foreign worker only if the own group has no free worker; a foreign coordinator if the
//! own group has no free coordinator or no free worker, and then in a group that has free workers, so that what
//! depends on each other stays close together.

use xavantes_proto::v1;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A slot for an activity.
    Worker,
    /// Somebody to interpret a subtree.
    Coordinator,
}

/// What the own group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Own {
    /// Slots that are free.
    pub free_slots: u32,
    /// Coordinators besides the one that asks.
    pub coordinators: u32,
}

/// Where it can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the own group.
    Own,
    /// In that group.
    Foreign(String),
    /// Nowhere now.
    Wait,
}

/// Applies the rule. `foreign` are the other groups, the nearest first.
pub fn place(what: What, own: Own, foreign: &[v1::GroupSummary]) -> Place {
    let own_fits = match what {
        What::Worker => own.free_slots > 0,
        What::Coordinator => own.free_slots > 0 && own.coordinators > 0,
    };
    if own_fits {
        return Place::Own;
    }
    let fits =
        |group: &&v1::GroupSummary| group.free_slots > 0 && (what == What::Worker || !group.coordinators.is_empty());
    // The nearest; among those the one with the most to offer.
    let nearest = foreign.iter().filter(fits).map(|group| group.hops).min();
    let best =
        foreign.iter().filter(fits).filter(|group| Some(group.hops) == nearest).max_by_key(|group| group.free_slots);
    best.map_or(Place::Wait, |group| Place::Foreign(group.group.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, hops: u32, free_slots: u32, coordinators: usize) -> v1::GroupSummary {
        let coordinators = (0..coordinators).map(|_| v1::CoordinatorOffer::default()).collect();
        v1::GroupSummary { group: name.into(), hops, free_slots, coordinators, ..Default::default() }
    }

    #[test]
    fn the_rule_of_the_grid() {
        use What::{Coordinator, Worker};
        let own = |free_slots, coordinators| Own { free_slots, coordinators };
        let foreign = |name: &str| Place::Foreign(name.into());
        let near = group("near", 1, 2, 1);
        let busy = group("busy", 1, 0, 3);
        let headless = group("headless", 1, 9, 0);
        let far = group("far", 3, 50, 4);
        for (what, own, others, expected) in [
            // The own group first.
            (Worker, own(1, 0), vec![near.clone()], Place::Own),
            (Coordinator, own(1, 1), vec![near.clone()], Place::Own),
            // A foreign worker only if the own group has none that is free.
            (Worker, own(0, 5), vec![near.clone()], foreign("near")),
            // A foreign coordinator if the own group has no free coordinator …
            (Coordinator, own(4, 0), vec![near.clone()], foreign("near")),
            // … or no free worker.
            (Coordinator, own(0, 3), vec![near.clone()], foreign("near")),
            // In a group that has free workers, and somebody to coordinate.
            (Coordinator, own(0, 0), vec![busy.clone(), far.clone()], foreign("far")),
            (Coordinator, own(0, 0), vec![headless.clone(), far.clone()], foreign("far")),
            (Worker, own(0, 0), vec![busy.clone(), headless.clone()], foreign("headless")),
            // The nearest, then the one with the most room.
            (Worker, own(0, 0), vec![near.clone(), headless, far], foreign("headless")),
            // Nothing anywhere.
            (Worker, own(0, 0), vec![busy.clone()], Place::Wait),
            (Coordinator, own(0, 1), vec![], Place::Wait),
        ] {
            assert_eq!(place(what, own, &others), expected, "{what:?} {own:?} {others:?}");
        }
    }
}
