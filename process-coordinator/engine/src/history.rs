//! The history of a process in bounded space: counts for each node of the definitions, the first failures, and the last
//! interventions of users.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::DefinitionNodeId;

use crate::failure::Failure;
use crate::time::Time;

/// Upper bound on the failures in a history, which records the first ones.
pub const MAX_RECORDED_FAILURES: usize = 32;
/// Upper bound on the interventions in a history, which records the last ones.
pub const MAX_RECORDED_INTERVENTIONS: usize = 100;
/// Upper bound on each text of a recorded failure.
const MAX_TEXT_BYTES: usize = 2048;
/// How much the clock of a history may lag behind the time. Each update of the clock is an event in the journal.
const MAX_CLOCK_LAG_MS: u64 = 1000;

/// Counts of the elements at one node of the definitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Elements that began.
    pub began: u64,
    /// Elements that completed.
    pub completed: u64,
    /// Elements that failed permanently.
    pub failed: u64,
    /// Elements that were cancelled.
    pub cancelled: u64,
    /// Tries of an element after its first.
    pub retried: u64,
    /// Attempts that were lost with their worker or coordinator.
    pub lost: u64,
    /// When the first element began.
    pub first: Time,
    /// When the last element ended.
    pub last: Time,
}

impl Tally {
    /// Adds the counts of another coordinator.
    pub fn add(&mut self, other: &Tally) {
        self.first = if self.began == 0 { other.first } else { self.first.min(other.first) };
        self.last = self.last.max(other.last);
        // The other coordinator may report any numbers.
        let sums = [
            (&mut self.began, other.began),
            (&mut self.completed, other.completed),
            (&mut self.failed, other.failed),
            (&mut self.cancelled, other.cancelled),
            (&mut self.retried, other.retried),
            (&mut self.lost, other.lost),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}

/// An intervention of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervention {
    /// When.
    pub at: Time,
    /// The path of the element.
    pub path: String,
    /// What the user asked for.
    pub what: String,
    /// The user, as the client said it; empty if it did not.
    pub by: String,
}

/// The history of a process. Its size depends on the definitions, not on how long the process runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The time of the last clock event.
    clock: Time,
    /// Counts by process type and node.
    tallies: Vec<Vec<Tally>>,
    failures: Vec<(Time, Failure)>,
    interventions: VecDeque<Intervention>,
}

impl History {
    /// The counts of every node that had elements, with its process type and number.
    pub fn tallies(&self) -> impl Iterator<Item = ((u32, u32), &Tally)> {
        let nodes = self.tallies.iter().enumerate();
        let all = nodes.flat_map(|(process, tallies)| {
            tallies.iter().enumerate().map(move |(node, tally)| ((process as u32, node as u32), tally))
        });
        all.filter(|(_, tally)| tally.began > 0)
    }

    /// The first failures, each with its time. A failure is recorded only where it happened.
    pub fn failures(&self) -> &[(Time, Failure)] {
        &self.failures
    }

    /// The last interventions of users.
    pub fn interventions(&self) -> impl Iterator<Item = &Intervention> {
        self.interventions.iter()
    }

    /// The clock lags too far behind for an event that happens now.
    pub(crate) fn is_clock_late(&self, now: Time) -> bool {
        now.0 >= self.clock.0.saturating_add(MAX_CLOCK_LAG_MS)
    }

    /// The time of the last clock event.
    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    pub(crate) fn set_clock(&mut self, at: Time) {
        self.clock = at;
    }

    pub(crate) fn on_entered(&mut self, process: u32, node: DefinitionNodeId) {
        let clock = self.clock;
        let tally = self.tally_mut(process, node);
        if tally.began == 0 {
            tally.first = clock;
        }
        tally.began += 1;
    }

    /// An element ended; `count` selects the counter of its outcome.
    pub(crate) fn on_ended(&mut self, process: u32, node: DefinitionNodeId, count: fn(&mut Tally) -> &mut u64) {
        let clock = self.clock;
        let tally = self.tally_mut(process, node);
        tally.last = clock;
        *count(tally) += 1;
    }

    pub(crate) fn tally_mut(&mut self, process: u32, node: DefinitionNodeId) -> &mut Tally {
        let (process, node) = (process as usize, node.index());
        if self.tallies.len() <= process {
            self.tallies.resize(process + 1, Vec::new());
        }
        let tallies = &mut self.tallies[process];
        if tallies.len() <= node {
            tallies.resize(node + 1, Tally::default());
        }
        &mut tallies[node]
    }

    pub(crate) fn has_space_for_failures(&self) -> bool {
        self.failures.len() < MAX_RECORDED_FAILURES
    }

    pub(crate) fn on_failed(&mut self, failure: &Failure) {
        let shorten = |text: &String| text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
        let failure = Failure {
            message: shorten(&failure.message),
            stderr: failure.stderr.as_ref().map(shorten),
            cause: None,
            ..failure.clone()
        };
        self.failures.push((self.clock, failure));
    }

    pub(crate) fn on_steered(&mut self, path: &str, what: &str, by: &str) {
        if self.interventions.len() == MAX_RECORDED_INTERVENTIONS {
            self.interventions.pop_front();
        }
        let (path, what, by) = (path.to_owned(), what.to_owned(), by.to_owned());
        self.interventions.push_back(Intervention { at: self.clock, path, what, by });
    }
}
