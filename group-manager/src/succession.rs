//! Who leads a group: the first of its managers, in the configured order, that is there.
//!
//! Each manager hears from all others. One that was silent for a lease is not there. Whoever begins to lead does so
//! with an epoch that is higher than any that it heard of. A manager that comes back hears everybody once before it
//! leads, so that it begins with what the present leader knows; until then that one goes on.

use std::time::Duration;

use crate::registry::LEASE;

/// Who leads, as one of the managers sees it. Times count from some beginning that the caller chose.
#[derive(Debug, Clone)]
pub struct Succession {
    /// Position of this manager in the order.
    place: usize,
    /// All managers in their order; what is in its own place does not count.
    managers: Vec<Seen>,
    began: Duration,
    leads: bool,
    epoch: u64,
    /// The highest epoch that is known.
    newest: u64,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    heard: Option<Duration>,
    /// Heard of, or looked for in vain.
    tried: bool,
    leads: bool,
    epoch: u64,
}

impl Seen {
    fn alive(&self, now: Duration) -> bool {
        self.heard.is_some_and(|heard| now.saturating_sub(heard) < LEASE)
    }
}

impl Succession {
    /// The manager at `place` of so many begins; `epoch` is the last that it knew.
    pub fn new(place: usize, managers: usize, epoch: u64, now: Duration) -> Self {
        let managers = vec![Seen::default(); managers.max(place + 1)];
        Self { place, managers, began: now, leads: false, epoch, newest: epoch }
    }

    /// Another manager says that it is there, and whether it leads.
    pub fn hear(&mut self, place: usize, leads: bool, epoch: u64, now: Duration) {
        if let Some(seen) = self.managers.get_mut(place) {
            *seen = Seen { heard: Some(now), tried: true, leads, epoch };
            self.newest = self.newest.max(epoch);
        }
    }

    /// Another manager cannot be reached.
    pub fn miss(&mut self, place: usize) {
        if let Some(seen) = self.managers.get_mut(place) {
            seen.tried = true;
        }
    }

    /// Decides whether this manager leads; tells it if that changed.
    pub fn decide(&mut self, now: Duration) -> Option<bool> {
        let (before, after) = (&self.managers[..self.place], &self.managers[self.place + 1..]);
        let started = now.saturating_sub(self.began) >= LEASE;
        let leads = if before.iter().any(|seen| seen.alive(now) && seen.leads) {
            false
        } else if self.leads {
            // One that is back leads when it knows what we know.
            true
        } else {
            let gone = |seen: &Seen| !seen.alive(now) && (seen.heard.is_some() || started);
            before.iter().all(gone) && after.iter().all(|seen| seen.tried || started)
        };
        let overtaken = |seen: &Seen| seen.alive(now) && seen.leads && seen.epoch >= self.epoch;
        if leads && (!self.leads || after.iter().any(overtaken)) {
            self.newest += 1;
            self.epoch = self.newest;
        }
        let changed = leads != self.leads;
        self.leads = leads;
        changed.then_some(leads)
    }

    /// Does this manager lead?
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// The epoch in which this manager leads, or the newest that it knows.
    pub fn epoch(&self) -> u64 {
        if self.leads { self.epoch } else { self.newest }
    }

    /// The place of the manager that leads, if that is another one; of several the one that began last.
    pub fn leader(&self, now: Duration) -> Option<usize> {
        let others = self.managers.iter().enumerate().filter(|(place, _)| *place != self.place);
        let leaders = others.filter(|(_, seen)| seen.leads && seen.alive(now));
        leaders.max_by_key(|(_, seen)| seen.epoch).map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Managers that hear each other every half second, unless they are dead or cut off.
    struct World {
        managers: Vec<Option<Succession>>,
        /// Pairs that do not hear each other.
        cut: Vec<(usize, usize)>,
        now: Duration,
    }

    impl World {
        fn new(count: usize) -> Self {
            let mut world = Self { managers: vec![None; count], cut: Vec::new(), now: Duration::ZERO };
            (0..count).for_each(|place| world.start(place, 0));
            world
        }

        fn start(&mut self, place: usize, epoch: u64) {
            self.managers[place] = Some(Succession::new(place, self.managers.len(), epoch, self.now));
        }

        fn run(&mut self, half_seconds: u32) {
            for _ in 0..half_seconds {
                self.now += Duration::from_millis(500);
                for from in 0..self.managers.len() {
                    let said = self.managers[from].as_ref().map(|it| (it.leads(), it.epoch()));
                    for to in (0..self.managers.len()).filter(|to| *to != from) {
                        let cut = self.cut.contains(&(from, to)) || self.cut.contains(&(to, from));
                        let Some(hearer) = &mut self.managers[to] else { continue };
                        match said {
                            Some((leads, epoch)) if !cut => hearer.hear(from, leads, epoch, self.now),
                            _ => hearer.miss(from),
                        }
                    }
                }
                for manager in self.managers.iter_mut().flatten() {
                    manager.decide(self.now);
                }
            }
        }

        /// Those that lead, with their epochs.
        fn leaders(&self) -> Vec<(usize, u64)> {
            let managers = self.managers.iter().enumerate();
            let leading = managers.filter_map(|(place, it)| Some((place, it.as_ref()?)));
            leading.filter(|(_, it)| it.leads()).map(|(place, it)| (place, it.epoch())).collect()
        }
    }

    #[test]
    fn one_that_is_alone_leads_at_once_and_in_a_new_epoch() {
        let mut alone = Succession::new(0, 1, 7, Duration::ZERO);
        assert_eq!((alone.leads(), alone.decide(Duration::ZERO)), (false, Some(true)));
        assert_eq!((alone.epoch(), alone.decide(Duration::ZERO), alone.leader(Duration::ZERO)), (8, None, None));
    }

    #[test]
    fn the_first_that_is_there_leads() {
        let mut world = World::new(3);
        world.run(2);
        assert_eq!(world.leaders(), [(0, 1)]);
        assert_eq!(world.managers[2].as_ref().and_then(|it| it.leader(world.now)), Some(0));
        world.managers[0] = None;
        world.run(4);
        assert_eq!(world.leaders(), [], "a short silence is no reason");
        world.run(4);
        assert_eq!(world.leaders(), [(1, 2)]);
        world.managers[1] = None;
        world.run(8);
        assert_eq!(world.leaders(), [(2, 3)]);
        // The first is back, with what it remembers; it leads again, later than all before.
        world.start(0, 1);
        world.run(2);
        assert_eq!(world.leaders(), [(0, 4)]);
        world.start(1, 0);
        world.run(20);
        assert_eq!(world.leaders(), [(0, 4)], "one that comes back after an earlier one changes nothing");
    }

    #[test]
    fn one_that_is_back_hears_the_leader_before_it_leads_and_nobody_leaves_a_gap() {
        let mut world = World::new(2);
        world.managers[0] = None;
        world.run(10);
        assert_eq!(world.leaders(), [(1, 1)]);
        let now = world.now;
        world.start(0, 0);
        let first = world.managers[0].as_mut().unwrap();
        assert_eq!(first.decide(now), None, "it has not heard the other yet");
        first.hear(1, true, 1, now);
        assert_eq!(first.leader(now), Some(1));
        let second = world.managers[1].as_mut().unwrap();
        second.hear(0, false, 1, now);
        assert_eq!((second.decide(now), second.leads()), (None, true), "it leads until the other does");
        world.run(2);
        assert_eq!(world.leaders(), [(0, 2)]);
    }

    #[test]
    fn two_that_did_not_hear_each_other_agree_when_they_do() {
        let mut world = World::new(2);
        world.run(2);
        world.cut.push((0, 1));
        world.run(10);
        assert_eq!(world.leaders(), [(0, 1), (1, 2)]);
        world.cut.clear();
        world.run(2);
        assert_eq!(world.leaders(), [(0, 3)], "the first, and nobody takes it for outdated");
        world.run(20);
        assert_eq!(world.leaders(), [(0, 3)]);
    }

    #[test]
    fn one_that_accepts_connections_but_says_nothing_does_not_keep_others_waiting() {
        let mut first = Succession::new(0, 2, 0, Duration::ZERO);
        assert_eq!(first.decide(LEASE - Duration::from_millis(1)), None);
        assert_eq!(first.decide(LEASE), Some(true));
    }
}
