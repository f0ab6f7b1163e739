//! Schedules of which none is better than another one in both time and money.

use super::PlanValue;

/// A set of values that do not dominate each other, each with what has it. Sorted by makespan.
#[derive(Debug, Clone, PartialEq)]
pub struct ParetoSet<T> {
    members: Vec<(PlanValue, T)>,
}

impl<T> Default for ParetoSet<T> {
    fn default() -> Self {
        Self { members: Vec::new() }
    }
}

impl<T> ParetoSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member unless another one is as good, and drops those that it dominates. Says whether it was added.
    pub fn insert(&mut self, value: PlanValue, member: T) -> bool {
        if self.members.iter().any(|(other, _)| other.dominates(&value) || *other == value) {
            return false;
        }
        self.members.retain(|(other, _)| !value.dominates(other));
        let place = self.members.partition_point(|(other, _)| other.makespan < value.makespan);
        self.members.insert(place, (value, member));
        true
    }

    /// Keeps at most this many members: both ends, and those with the most room around them (crowding distance of
    /// NSGA-II).
    pub fn thin(&mut self, keep: usize) {
        while self.members.len() > keep.max(2) {
            let distances = self.crowding();
            let inner = 1..self.members.len() - 1;
            let least = inner.min_by(|a, b| distances[*a].total_cmp(&distances[*b]));
            match least {
                Some(least) => drop(self.members.remove(least)),
                None => return,
            }
        }
    }

    fn crowding(&self) -> Vec<f64> {
        let last = self.members.len() - 1;
        let (low, high) = (self.members[0].0, self.members[last].0);
        let (time, money) = ((high.makespan - low.makespan).max(1e-12), (low.money - high.money).max(1e-12));
        let room = |place: usize| match place {
            0 => f64::INFINITY,
            place if place == last => f64::INFINITY,
            place => {
                let (before, after) = (self.members[place - 1].0, self.members[place + 1].0);
                (after.makespan - before.makespan) / time + (before.money - after.money) / money
            }
        };
        (0..=last).map(room).collect()
    }

    /// The members, by makespan.
    pub fn members(&self) -> &[(PlanValue, T)] {
        &self.members
    }

    /// The members, by makespan.
    pub fn into_members(self) -> Vec<(PlanValue, T)> {
        self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(makespan: f64, money: f64) -> PlanValue {
        PlanValue { makespan, money }
    }

    #[test]
    fn dominated_members_leave_and_stay_out() {
        let mut set = ParetoSet::new();
        assert!(set.insert(value(10.0, 10.0), 'a'));
        assert!(set.insert(value(5.0, 20.0), 'b'));
        assert!(!set.insert(value(10.0, 11.0), 'c'));
        assert!(!set.insert(value(10.0, 10.0), 'd'));
        assert!(set.insert(value(4.0, 9.0), 'e'));
        assert_eq!(set.members(), [(value(4.0, 9.0), 'e')]);
    }

    #[test]
    fn thinning_keeps_both_ends_and_the_lonely() {
        let mut set = ParetoSet::new();
        for (makespan, money) in [(1.0, 100.0), (2.0, 99.0), (3.0, 98.0), (50.0, 50.0), (100.0, 1.0)] {
            set.insert(value(makespan, money), ());
        }
        set.thin(3);
        let kept: Vec<_> = set.members().iter().map(|(value, ())| value.makespan).collect();
        assert_eq!(kept, [1.0, 50.0, 100.0]);
    }
}
