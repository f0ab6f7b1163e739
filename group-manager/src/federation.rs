//! The summaries of other groups. Managers of adjacent groups send each other all summaries that they know. Each summary
//! carries a hop count and an age, so that groups without a direct connection find each other.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::v1;

/// Upper bound on the hops of a summary.
pub(crate) const MAX_HOPS: u32 = 16;
/// Upper bound on the age of a summary.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(10);

/// The summaries of other groups. Times count from a beginning that the caller chose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Federation {
    /// Name of the local group.
    local: String,
    /// By the name of the group.
    known: BTreeMap<String, KnownGroup>,
}

#[derive(Debug, Clone)]
struct KnownGroup {
    /// Summary with the adjacent group that sent it.
    summary: v1::GroupSummary,
    received: Duration,
}

impl Federation {
    /// The federation of a group that knows no other group yet.
    pub(crate) fn new(local: String) -> Self {
        Self { local, known: BTreeMap::new() }
    }

    /// An adjacent group sent its summaries. Ignores summaries of the local group, old ones, and those that came by a
    /// longer way.
    pub(crate) fn on_summaries(&mut self, received: v1::GroupSummaries, now: Duration) {
        for mut summary in received.summaries {
            summary.hops = summary.hops.saturating_add(1);
            summary.via = received.group.clone();
            self.insert_if_better(summary, now);
        }
    }

    /// Adds summaries that another manager of the local group sent or the repository holds.
    pub(crate) fn restore(&mut self, groups: Vec<v1::GroupSummary>, now: Duration) {
        groups.into_iter().for_each(|summary| self.insert_if_better(summary, now));
    }

    fn insert_if_better(&mut self, summary: v1::GroupSummary, now: Duration) {
        let stale = Duration::from_millis(summary.age_ms) > MAX_AGE;
        if summary.group.is_empty() || summary.group == self.local || summary.hops > MAX_HOPS || stale {
            return;
        }
        let better = self.known.get(&summary.group).is_none_or(|known| {
            let same_way = known.summary.via == summary.via;
            let newer = summary.number > known.summary.number;
            let shorter = summary.number == known.summary.number && summary.hops < known.summary.hops;
            // A summary by another way replaces this one only if that way is shorter, or this one has become old.
            (newer && (same_way || summary.hops <= known.summary.hops || known.age(now) > MAX_AGE / 2)) || shorter
        });
        if better {
            self.known.insert(summary.group.clone(), KnownGroup { received: now, summary });
        }
    }

    /// The summaries for an adjacent group: that of the local group, and those that did not come from the neighbour.
    pub(crate) fn summaries_for(&self, neighbour: &str, local: v1::GroupSummary, now: Duration) -> v1::GroupSummaries {
        let others = self
            .known
            .values()
            .filter(|known| known.summary.via != neighbour && known.summary.group != neighbour)
            .filter(|known| known.summary.hops < MAX_HOPS && known.age(now) <= MAX_AGE)
            .map(|known| known.aged(now));
        v1::GroupSummaries { group: self.local.clone(), summaries: std::iter::once(local).chain(others).collect() }
    }

    /// Removes old summaries.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.known.retain(|_, known| known.age(now) <= MAX_AGE);
    }

    /// The summaries of all other groups, the nearest first.
    pub(crate) fn groups(&self, now: Duration) -> Vec<v1::GroupSummary> {
        let mut groups: Vec<v1::GroupSummary> = self.known.values().map(|known| known.aged(now)).collect();
        groups.sort_by(|a, b| (a.hops, &a.group).cmp(&(b.hops, &b.group)));
        groups
    }
}

impl KnownGroup {
    fn age(&self, now: Duration) -> Duration {
        Duration::from_millis(self.summary.age_ms) + now.saturating_sub(self.received)
    }

    fn aged(&self, now: Duration) -> v1::GroupSummary {
        v1::GroupSummary { age_ms: self.age(now).as_millis() as u64, ..self.summary.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn summary(group: &str, number: u64) -> v1::GroupSummary {
        v1::GroupSummary { group: group.into(), number, free_slots: number as u32, ..Default::default() }
    }

    /// Groups that exchange summaries over links, in rounds.
    struct World {
        groups: BTreeMap<String, Federation>,
        links: Vec<(&'static str, &'static str)>,
        number: u64,
    }

    impl World {
        fn new(links: &[(&'static str, &'static str)]) -> Self {
            let names = links.iter().flat_map(|(a, b)| [a.to_string(), b.to_string()]);
            let groups = names.map(|name| (name.clone(), Federation::new(name))).collect();
            Self { groups, links: links.to_vec(), number: 0 }
        }

        fn round(&mut self, now: Duration) {
            self.number += 1;
            for (a, b) in self.links.clone() {
                for (from, to) in [(a, b), (b, a)] {
                    let summaries = self.groups[from].summaries_for(to, summary(from, self.number), now);
                    self.groups.get_mut(to).unwrap().on_summaries(summaries, now);
                }
            }
            self.groups.values_mut().for_each(|group| group.expire(now));
        }

        fn known_groups(&self, group: &str, now: Duration) -> Vec<(String, u32)> {
            self.groups[group].groups(now).into_iter().map(|known| (known.group, known.hops)).collect()
        }
    }

    #[test]
    fn groups_in_a_line_know_each_other_with_their_distance() {
        let mut world = World::new(&[("a", "b"), ("b", "c"), ("c", "d")]);
        (0..4).for_each(|round| world.round(NOW + Duration::from_secs(round)));
        let now = NOW + Duration::from_secs(3);
        assert_eq!(world.known_groups("a", now), [("b".into(), 1), ("c".into(), 2), ("d".into(), 3)]);
        assert_eq!(world.known_groups("c", now), [("b".into(), 1), ("d".into(), 1), ("a".into(), 2)]);
    }

    #[test]
    fn in_a_ring_the_shorter_way_counts_and_summaries_do_not_circulate() {
        let mut world = World::new(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]);
        for round in 0..20 {
            world.round(NOW + Duration::from_secs(round));
        }
        let now = NOW + Duration::from_secs(19);
        assert_eq!(world.known_groups("a", now), [("b".into(), 1), ("d".into(), 1), ("c".into(), 2)]);
    }

    #[test]
    fn all_groups_forget_a_lost_group() {
        let mut world = World::new(&[("a", "b"), ("b", "c"), ("a", "c")]);
        (0..3).for_each(|round| world.round(NOW + Duration::from_secs(round)));
        world.links.retain(|(a, b)| *a != "c" && *b != "c");
        for round in 3..40 {
            world.round(NOW + Duration::from_secs(round));
        }
        let now = NOW + Duration::from_secs(39);
        assert_eq!(world.known_groups("a", now), [("b".into(), 1)]);
        assert_eq!(world.known_groups("b", now), [("a".into(), 1)]);
    }

    #[test]
    fn an_older_summary_does_not_replace_a_newer_one() {
        let mut federation = Federation::new("a".into());
        let summaries = |number| v1::GroupSummaries { group: "b".into(), summaries: vec![summary("b", number)] };
        federation.on_summaries(summaries(5), NOW);
        federation.on_summaries(summaries(4), NOW);
        assert_eq!(federation.groups(NOW)[0].free_slots, 5);
        federation.on_summaries(v1::GroupSummaries { group: "b".into(), summaries: vec![summary("a", 9)] }, NOW);
        assert_eq!(federation.groups(NOW).len(), 1, "summaries of the local group are ignored");
    }

    #[test]
    fn another_manager_restores_summaries_with_way_and_age() {
        let mut here = Federation::new("a".into());
        let mut far = v1::GroupSummary { hops: 1, via: "x".into(), ..summary("c", 5) };
        here.on_summaries(v1::GroupSummaries { group: "b".into(), summaries: vec![summary("b", 5), far.clone()] }, NOW);
        let later = NOW + Duration::from_secs(4);
        let mut there = Federation::new("a".into());
        there.restore(here.groups(later), Duration::ZERO);
        assert_eq!(there.groups(Duration::ZERO), here.groups(later));
        far = v1::GroupSummary { hops: 2, via: "b".into(), age_ms: 4000, ..far };
        assert_eq!(there.groups(Duration::ZERO)[1], far, "the way of the neighbour is not the local way");
        let sent = there.summaries_for("b", summary("a", 1), Duration::ZERO);
        assert_eq!(sent.summaries.len(), 1, "summaries from b are not sent to b");
        there.restore(here.groups(NOW + MAX_AGE * 2), Duration::from_secs(1));
        there.expire(Duration::from_secs(7));
        assert!(there.groups(Duration::from_secs(7)).is_empty(), "old summaries expire");
    }
}
