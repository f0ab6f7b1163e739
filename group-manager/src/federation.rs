//! What other groups have to offer. Adjacent managers tell each other what they know; news travels on with a count of
//! hops and its age, so that groups that are only indirectly connected find each other.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::v1;

/// News travels no further than this.
pub const MAX_HOPS: u32 = 16;
/// Older news is no news.
pub const MAX_AGE: Duration = Duration::from_secs(10);

/// What is known of other groups. Times count from some beginning that the caller chose.
#[derive(Debug, Clone, Default)]
pub struct Federation {
    own: String,
    known: BTreeMap<String, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    /// As it was heard, with the adjacent group that told it.
    summary: v1::GroupSummary,
    heard: Duration,
}

impl Federation {
    /// Of the group `own`, which knows of no other yet.
    pub fn new(own: String) -> Self {
        Self { own, known: BTreeMap::new() }
    }

    /// An adjacent group tells what it knows. What we told it ourselves, what is older than what we know, and what comes
    /// by a longer way does not count.
    pub fn hear(&mut self, news: v1::GroupSummaries, now: Duration) {
        for mut summary in news.summaries {
            summary.hops = summary.hops.saturating_add(1);
            summary.via = news.group.clone();
            self.take(summary, now);
        }
    }

    /// What another manager of the same group knows, or this one knew before it started.
    pub fn learn(&mut self, groups: Vec<v1::GroupSummary>, now: Duration) {
        groups.into_iter().for_each(|summary| self.take(summary, now));
    }

    fn take(&mut self, summary: v1::GroupSummary, now: Duration) {
        let stale = Duration::from_millis(summary.age_ms) > MAX_AGE;
        if summary.group.is_empty() || summary.group == self.own || summary.hops > MAX_HOPS || stale {
            return;
        }
        let better = self.known.get(&summary.group).is_none_or(|known| {
            let same_way = known.summary.via == summary.via;
            let newer = summary.number > known.summary.number;
            let shorter = summary.number == known.summary.number && summary.hops < known.summary.hops;
            // The way that is in use is left only for a shorter one, or when it has gone silent.
            (newer && (same_way || summary.hops <= known.summary.hops || known.age(now) > MAX_AGE / 2)) || shorter
        });
        if better {
            self.known.insert(summary.group.clone(), Known { heard: now, summary });
        }
    }

    /// What to tell an adjacent group: ourselves, and what we did not hear from it.
    pub fn tell(&self, neighbour: &str, own: v1::GroupSummary, now: Duration) -> v1::GroupSummaries {
        let others = self
            .known
            .values()
            .filter(|known| known.summary.via != neighbour && known.summary.group != neighbour)
            .filter(|known| known.summary.hops < MAX_HOPS && known.age(now) <= MAX_AGE)
            .map(|known| known.aged(now));
        v1::GroupSummaries { group: self.own.clone(), summaries: std::iter::once(own).chain(others).collect() }
    }

    /// Forgets what is too old.
    pub fn expire(&mut self, now: Duration) {
        self.known.retain(|_, known| known.age(now) <= MAX_AGE);
    }

    /// The other groups, the nearest first.
    pub fn groups(&self, now: Duration) -> Vec<v1::GroupSummary> {
        let mut groups: Vec<v1::GroupSummary> = self.known.values().map(|known| known.aged(now)).collect();
        groups.sort_by(|a, b| (a.hops, &a.group).cmp(&(b.hops, &b.group)));
        groups
    }
}

impl Known {
    fn age(&self, now: Duration) -> Duration {
        Duration::from_millis(self.summary.age_ms) + now.saturating_sub(self.heard)
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

    /// Groups in a graph that talk for some rounds.
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
                    let news = self.groups[from].tell(to, summary(from, self.number), now);
                    self.groups.get_mut(to).unwrap().hear(news, now);
                }
            }
            self.groups.values_mut().for_each(|group| group.expire(now));
        }

        fn seen(&self, group: &str, now: Duration) -> Vec<(String, u32)> {
            self.groups[group].groups(now).into_iter().map(|seen| (seen.group, seen.hops)).collect()
        }
    }

    #[test]
    fn groups_in_a_line_find_each_other_with_their_distance() {
        let mut world = World::new(&[("a", "b"), ("b", "c"), ("c", "d")]);
        (0..4).for_each(|round| world.round(NOW + Duration::from_secs(round)));
        let now = NOW + Duration::from_secs(3);
        assert_eq!(world.seen("a", now), [("b".into(), 1), ("c".into(), 2), ("d".into(), 3)]);
        assert_eq!(world.seen("c", now), [("b".into(), 1), ("d".into(), 1), ("a".into(), 2)]);
    }

    #[test]
    fn in_a_ring_the_shorter_way_counts_and_nothing_goes_round() {
        let mut world = World::new(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]);
        for round in 0..20 {
            world.round(NOW + Duration::from_secs(round));
        }
        let now = NOW + Duration::from_secs(19);
        assert_eq!(world.seen("a", now), [("b".into(), 1), ("d".into(), 1), ("c".into(), 2)]);
    }

    #[test]
    fn a_group_that_is_gone_is_forgotten_everywhere() {
        let mut world = World::new(&[("a", "b"), ("b", "c"), ("a", "c")]);
        (0..3).for_each(|round| world.round(NOW + Duration::from_secs(round)));
        world.links.retain(|(a, b)| *a != "c" && *b != "c");
        for round in 3..40 {
            world.round(NOW + Duration::from_secs(round));
        }
        let now = NOW + Duration::from_secs(39);
        assert_eq!(world.seen("a", now), [("b".into(), 1)]);
        assert_eq!(world.seen("b", now), [("a".into(), 1)]);
    }

    #[test]
    fn older_news_does_not_replace_newer() {
        let mut federation = Federation::new("a".into());
        let news = |number| v1::GroupSummaries { group: "b".into(), summaries: vec![summary("b", number)] };
        federation.hear(news(5), NOW);
        federation.hear(news(4), NOW);
        assert_eq!(federation.groups(NOW)[0].free_slots, 5);
        federation.hear(v1::GroupSummaries { group: "b".into(), summaries: vec![summary("a", 9)] }, NOW);
        assert_eq!(federation.groups(NOW).len(), 1, "news of ourselves is no news");
    }

    #[test]
    fn another_manager_learns_it_with_its_way_and_age() {
        let mut here = Federation::new("a".into());
        let mut far = v1::GroupSummary { hops: 1, via: "x".into(), ..summary("c", 5) };
        here.hear(v1::GroupSummaries { group: "b".into(), summaries: vec![summary("b", 5), far.clone()] }, NOW);
        let later = NOW + Duration::from_secs(4);
        let mut there = Federation::new("a".into());
        there.learn(here.groups(later), Duration::ZERO);
        assert_eq!(there.groups(Duration::ZERO), here.groups(later));
        far = v1::GroupSummary { hops: 2, via: "b".into(), age_ms: 4000, ..far };
        assert_eq!(there.groups(Duration::ZERO)[1], far, "whom a neighbour has it from is not our way");
        let told = there.tell("b", summary("a", 1), Duration::ZERO);
        assert_eq!(told.summaries.len(), 1, "what b told is not told to b");
        there.learn(here.groups(NOW + MAX_AGE * 2), Duration::from_secs(1));
        there.expire(Duration::from_secs(7));
        assert!(there.groups(Duration::from_secs(7)).is_empty(), "old news is no news");
    }
}
