//! The summaries of other groups. Managers of adjacent groups send each other all summaries that they know. Each summary
//! carries a hop count and an age, so that groups without a direct connection find each other.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::message_limits::{self, InvalidField};
use xavantes_proto::{Message, v1};

/// Upper bound on the hops of a summary.
pub(crate) const MAX_HOPS: u32 = 16;
/// Upper bound on the age of a summary.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(10);
/// Upper bound on the groups that a manager knows.
const MAX_GROUPS: usize = 1024;
/// Upper bound on the summaries of one neighbour.
const MAX_GROUPS_PER_NEIGHBOUR: usize = 256;
/// Upper bounds on the managers and coordinators of a group that its summary names.
pub(crate) const MAX_MANAGERS: usize = 8;
const MAX_COORDINATORS: usize = 64;
/// Upper bound on the bytes of all summaries together, so that they fit into one message.
const MAX_SUMMARIES_BYTES: usize = 2 << 20;

/// The summaries of other groups. Times count from a beginning that the caller chose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Federation {
    /// Name of the local group.
    local: String,
    /// By the name of the group.
    known: BTreeMap<String, KnownGroup>,
    /// Encoded size of the known summaries.
    bytes: usize,
}

#[derive(Debug, Clone)]
struct KnownGroup {
    /// Summary with the adjacent group that sent it.
    summary: v1::GroupSummary,
    received: Duration,
    /// Encoded size of the summary.
    bytes: usize,
}

/// What a manager did with the summaries of a neighbour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Merged {
    /// Summaries beyond the number that one neighbour may send, or without room.
    pub surplus: usize,
    /// Summaries with a name that is too long or not a name.
    pub invalid: usize,
}

impl Federation {
    /// The federation of a group that knows no other group yet.
    pub(crate) fn new(local: String) -> Self {
        Self { local, ..Self::default() }
    }

    /// An adjacent group sent its summaries. Ignores summaries of the local group, old ones, those that came by a longer
    /// way, and those beyond the bounds. The neighbour's own summary always has room.
    pub(crate) fn on_summaries(&mut self, received: v1::GroupSummaries, now: Duration) -> Merged {
        let mut merged = Merged::default();
        let v1::GroupSummaries { group: sender, summaries } = received;
        let (own, others): (Vec<_>, Vec<_>) = summaries.into_iter().partition(|summary| summary.group == sender);
        let total = own.len() + others.len();
        let taken: Vec<_> = own.into_iter().take(1).chain(others).take(MAX_GROUPS_PER_NEIGHBOUR).collect();
        merged.surplus = total - taken.len();
        for mut summary in taken {
            summary.hops = summary.hops.saturating_add(1);
            summary.via.clone_from(&sender);
            summary.managers.truncate(MAX_MANAGERS);
            summary.coordinators.truncate(MAX_COORDINATORS);
            match check_summary(&summary) {
                Ok(()) => merged.surplus += usize::from(!self.insert_if_better(summary, now)),
                Err(_) => merged.invalid += 1,
            }
        }
        merged
    }

    /// Adds summaries that another manager of the local group sent or the repository holds.
    pub(crate) fn restore(&mut self, groups: Vec<v1::GroupSummary>, now: Duration) {
        for mut summary in groups.into_iter().take(MAX_GROUPS) {
            summary.managers.truncate(MAX_MANAGERS);
            summary.coordinators.truncate(MAX_COORDINATORS);
            if check_summary(&summary).is_ok() {
                self.insert_if_better(summary, now);
            }
        }
    }

    /// Returns false if there is no room for the summary.
    fn insert_if_better(&mut self, summary: v1::GroupSummary, now: Duration) -> bool {
        let stale = Duration::from_millis(summary.age_ms) > MAX_AGE;
        if summary.group.is_empty() || summary.group == self.local || summary.hops > MAX_HOPS || stale {
            return true;
        }
        let better = self.known.get(&summary.group).is_none_or(|known| {
            let same_way = known.summary.via == summary.via;
            // What a group says about itself counts more than what others say about it.
            if is_direct(&known.summary) != is_direct(&summary) {
                return is_direct(&summary) || known.age(now) > MAX_AGE / 2;
            }
            let newer = summary.number > known.summary.number;
            let shorter = summary.number == known.summary.number && summary.hops < known.summary.hops;
            // A summary by another way replaces this one only if that way is shorter, or this one has become old.
            (newer && (same_way || summary.hops <= known.summary.hops || known.age(now) > MAX_AGE / 2)) || shorter
        });
        !better || self.insert(summary, now)
    }

    /// Returns false if there is no room for the summary.
    fn insert(&mut self, summary: v1::GroupSummary, now: Duration) -> bool {
        self.remove(&summary.group.clone());
        let bytes = summary.encoded_len();
        while self.known.len() >= MAX_GROUPS || self.bytes + bytes > MAX_SUMMARIES_BYTES {
            // Only what a group says about itself displaces others: those that came the longest way.
            let others = self.known.values().filter(|known| !is_direct(&known.summary));
            let farthest = others.max_by_key(|known| known.summary.hops).map(|known| known.summary.group.clone());
            match farthest.filter(|_| is_direct(&summary)) {
                Some(farthest) => self.remove(&farthest),
                None => return false,
            }
        }
        self.bytes += bytes;
        self.known.insert(summary.group.clone(), KnownGroup { received: now, summary, bytes });
        true
    }

    fn remove(&mut self, group: &str) {
        if let Some(known) = self.known.remove(group) {
            self.bytes -= known.bytes;
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
        self.bytes = self.known.values().map(|known| known.bytes).sum();
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
        Duration::from_millis(self.summary.age_ms).saturating_add(now.saturating_sub(self.received))
    }

    fn aged(&self, now: Duration) -> v1::GroupSummary {
        v1::GroupSummary { age_ms: self.age(now).as_millis() as u64, ..self.summary.clone() }
    }
}

/// The group sent the summary itself.
fn is_direct(summary: &v1::GroupSummary) -> bool {
    summary.via == summary.group
}

fn check_summary(summary: &v1::GroupSummary) -> Result<(), InvalidField> {
    message_limits::check_name("the name of the group", &summary.group)?;
    message_limits::check_optional_name("the name of the neighbour", &summary.via)?;
    summary
        .managers
        .iter()
        .try_for_each(|address| message_limits::check_address("the address of a manager", address))?;
    summary.coordinators.iter().try_for_each(|offer| {
        message_limits::check_name("the name of a coordinator", &offer.node)?;
        message_limits::check_address("the address of a coordinator", &offer.address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn summary(group: &str, number: u64) -> v1::GroupSummary {
        v1::GroupSummary { group: group.into(), number, free_slots: number as u32, ..Default::default() }
    }

    /// Groups that exchange summaries over links, in rounds.
    struct Neighbourhood {
        groups: BTreeMap<String, Federation>,
        links: Vec<(&'static str, &'static str)>,
        number: u64,
    }

    impl Neighbourhood {
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
        let mut world = Neighbourhood::new(&[("a", "b"), ("b", "c"), ("c", "d")]);
        (0..4).for_each(|round| world.round(NOW + Duration::from_secs(round)));
        let now = NOW + Duration::from_secs(3);
        assert_eq!(world.known_groups("a", now), [("b".into(), 1), ("c".into(), 2), ("d".into(), 3)]);
        assert_eq!(world.known_groups("c", now), [("b".into(), 1), ("d".into(), 1), ("a".into(), 2)]);
    }

    #[test]
    fn in_a_ring_the_shorter_way_counts_and_summaries_do_not_circulate() {
        let mut world = Neighbourhood::new(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]);
        for round in 0..20 {
            world.round(NOW + Duration::from_secs(round));
        }
        let now = NOW + Duration::from_secs(19);
        assert_eq!(world.known_groups("a", now), [("b".into(), 1), ("d".into(), 1), ("c".into(), 2)]);
    }

    #[test]
    fn all_groups_forget_a_lost_group() {
        let mut world = Neighbourhood::new(&[("a", "b"), ("b", "c"), ("a", "c")]);
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
    fn a_flood_of_summaries_keeps_neither_neighbours_nor_messages_out() {
        let mut federation = Federation::new("a".into());
        for sender in 0..30 {
            let sender = format!("s{sender}");
            let many = (0..30_000).map(|position| summary(&format!("{sender}-{position}"), 1)).collect();
            let merged = federation.on_summaries(v1::GroupSummaries { group: sender, summaries: many }, NOW);
            assert!(merged.surplus >= 30_000 - MAX_GROUPS_PER_NEIGHBOUR);
        }
        let own = v1::GroupSummaries { group: "b".into(), summaries: vec![summary("b", 1)] };
        assert_eq!(federation.on_summaries(own, NOW), Merged::default());
        assert_eq!(federation.groups(NOW).len(), MAX_GROUPS);
        assert!(federation.groups(NOW).iter().any(|known| known.group == "b"), "the neighbour itself has room");
        let sent = federation.summaries_for("x", summary("a", 1), NOW);
        assert!(sent.encoded_len() < 4 << 20, "others can read the message");
        federation.expire(NOW + 2 * MAX_AGE);
        assert_eq!((federation.known.len(), federation.bytes), (0, 0));
    }

    #[test]
    fn a_summary_with_a_long_name_is_ignored() {
        let mut federation = Federation::new("a".into());
        let offers = vec![v1::CoordinatorOffer { node: "n".repeat(9999), ..Default::default() }];
        let long = [
            summary(&"g".repeat(9999), 1),
            summary("a\nb", 1),
            v1::GroupSummary { coordinators: offers, ..summary("c", 1) },
            v1::GroupSummary { managers: vec!["m".repeat(9999)], ..summary("d", 1) },
        ];
        let merged = federation.on_summaries(v1::GroupSummaries { group: "b".into(), summaries: long.to_vec() }, NOW);
        assert_eq!((merged.invalid, federation.groups(NOW).len()), (4, 0));
        let via = v1::GroupSummary { via: "v".repeat(9999), ..summary("e", 1) };
        federation.restore(long.into_iter().chain([via]).collect(), NOW);
        assert_eq!(federation.groups(NOW), [], "other managers of the group cannot send it either");
    }

    #[test]
    fn nobody_replaces_what_a_group_says_about_itself() {
        let mut federation = Federation::new("a".into());
        let say =
            |sender: &str, number| v1::GroupSummaries { group: sender.into(), summaries: vec![summary("b", number)] };
        federation.on_summaries(say("b", 5), NOW);
        federation.on_summaries(say("liar", u64::MAX), NOW);
        assert_eq!(federation.groups(NOW)[0].number, 5);
        federation.on_summaries(say("b", 6), NOW);
        assert_eq!(federation.groups(NOW)[0].number, 6);
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
