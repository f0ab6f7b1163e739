//! The rule that chooses where work runs, as a pure function.
//!
//! The local group comes first. A worker is chosen from another group only if the local group has no free slot. A
//! coordinator is chosen from another group if the local group has no other coordinator or no free slot, and only from a
//! group with free slots, so that a subtree and its activities stay close together.

use std::cmp::Reverse;

use xavantes_proto::v1;

/// The kind of node that a coordinator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    /// A worker with a slot for an activity.
    Worker,
    /// A coordinator that interprets a subtree.
    Coordinator,
}

/// Free capacity of the local group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LocalCapacity {
    pub(crate) free_slots: u32,
    /// Coordinators other than the one that asks.
    pub(crate) other_coordinators: u32,
}

/// Upper bound on the groups that a manager asks for one worker.
const MAX_ASKED_GROUPS: usize = 4;

/// The groups that the rule chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlacementOffer {
    Local,
    /// The groups with these names, the best one first. News about groups is old: if one has no free slot any more, the next may.
    Foreign(Vec<String>),
    /// No group has free capacity now.
    Nowhere,
}

/// Applies the rule.
pub(crate) fn choose_group(wanted: PlaceKind, local: LocalCapacity, foreign: &[v1::GroupSummary]) -> PlacementOffer {
    let local_fits = match wanted {
        PlaceKind::Worker => local.free_slots > 0,
        PlaceKind::Coordinator => local.free_slots > 0 && local.other_coordinators > 0,
    };
    if local_fits {
        return PlacementOffer::Local;
    }
    let fits = |group: &&v1::GroupSummary| {
        group.free_slots > 0 && (wanted == PlaceKind::Worker || !group.coordinators.is_empty())
    };
    let mut fitting: Vec<&v1::GroupSummary> = foreign.iter().filter(fits).collect();
    // The nearest groups; among those the one with the most free slots.
    fitting.sort_by_key(|group| (group.hops, Reverse(group.free_slots)));
    match fitting.iter().take(MAX_ASKED_GROUPS).map(|group| group.group.clone()).collect::<Vec<_>>() {
        names if names.is_empty() => PlacementOffer::Nowhere,
        names => PlacementOffer::Foreign(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, hops: u32, free_slots: u32, coordinators: usize) -> v1::GroupSummary {
        let coordinators = (0..coordinators).map(|_| v1::CoordinatorOffer::default()).collect();
        v1::GroupSummary { group: name.into(), hops, free_slots, coordinators, ..Default::default() }
    }

    #[test]
    fn the_rule_prefers_the_local_group_and_then_near_groups_with_free_slots() {
        use PlaceKind::{Coordinator, Worker};
        let local = |free_slots, other_coordinators| LocalCapacity { free_slots, other_coordinators };
        let foreign = |names: &str| PlacementOffer::Foreign(names.split(' ').map(String::from).collect());
        let near = group("near", 1, 2, 1);
        let busy = group("busy", 1, 0, 3);
        let headless = group("headless", 1, 9, 0);
        let far = group("far", 3, 50, 4);
        for (wanted, local, others, expected) in [
            // The local group comes first.
            (Worker, local(1, 0), vec![near.clone()], PlacementOffer::Local),
            (Coordinator, local(1, 1), vec![near.clone()], PlacementOffer::Local),
            // A foreign worker only if the local group has no free slot.
            (Worker, local(0, 5), vec![near.clone()], foreign("near")),
            // A foreign coordinator if the local group has no other coordinator …
            (Coordinator, local(4, 0), vec![near.clone()], foreign("near")),
            // … or no free slot.
            (Coordinator, local(0, 3), vec![near.clone()], foreign("near")),
            // Only groups with free slots and, for a coordinator, with coordinators.
            (Coordinator, local(0, 0), vec![busy.clone(), far.clone()], foreign("far")),
            (Coordinator, local(0, 0), vec![headless.clone(), far.clone()], foreign("far")),
            (Worker, local(0, 0), vec![busy.clone(), headless.clone()], foreign("headless")),
            // The nearest group, then the one with the most free slots.
            (Worker, local(0, 0), vec![far, near.clone(), headless], foreign("headless near far")),
            // No group has free slots.
            (Worker, local(0, 0), vec![busy.clone()], PlacementOffer::Nowhere),
            (Coordinator, local(0, 1), vec![], PlacementOffer::Nowhere),
        ] {
            assert_eq!(choose_group(wanted, local, &others), expected, "{wanted:?} {local:?} {others:?}");
        }
    }
}
