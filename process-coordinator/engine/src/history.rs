//! What has become of a process so far, in little room: numbers for each place of the definitions, the first failures,
//! the last interventions.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::NodeId;

use crate::failure::Failure;
use crate::id::Time;

/// Failures that are remembered: the first ones.
pub const MOST_FAILURES: usize = 32;
/// Interventions that are remembered: the last ones.
pub const MOST_STEERED: usize = 100;
/// Of the texts of a failure so many bytes are remembered.
const LONGEST_TEXT: usize = 2048;
/// How late the clock in which times are noted may be, in milliseconds.
const COARSE: u64 = 1000;

/// What has become of all elements at one place of the definitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Elements that were created.
    pub began: u64,
    /// Elements that completed.
    pub completed: u64,
    /// Elements that failed for good.
    pub failed: u64,
    /// Elements that were cancelled.
    pub cancelled: u64,
    /// Tries after the first of an element.
    pub retried: u64,
    /// Attempts that were lost with whoever had them.
    pub lost: u64,
    /// When the first of them began.
    pub first: Time,
    /// When the last of them ended.
    pub last: Time,
}

impl Tally {
    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Tally) {
        self.first = if self.began == 0 { other.first } else { self.first.min(other.first) };
        self.last = self.last.max(other.last);
        self.began += other.began;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.retried += other.retried;
        self.lost += other.lost;
    }
}

/// Somebody intervened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    /// When.
    pub at: Time,
    /// Where.
    pub path: String,
    /// What was wanted.
    pub what: String,
}

/// The history of a process. As large as the definitions, however long it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    clock: Time,
    /// By process type and node.
    tallies: Vec<Vec<Tally>>,
    failures: Vec<(Time, Failure)>,
    steered: VecDeque<Steered>,
}

impl History {
    /// The places where there were elements, as process type and node.
    pub fn tallies(&self) -> impl Iterator<Item = ((u32, u32), &Tally)> {
        let nodes = self.tallies.iter().enumerate();
        let all = nodes.flat_map(|(process, tallies)| {
            tallies.iter().enumerate().map(move |(node, tally)| ((process as u32, node as u32), tally))
        });
        all.filter(|(_, tally)| tally.began > 0)
    }

    /// The first failures, each where it happened.
    pub fn failures(&self) -> &[(Time, Failure)] {
        &self.failures
    }

    /// The last interventions.
    pub fn steered(&self) -> impl Iterator<Item = &Steered> {
        self.steered.iter()
    }

    /// Is the clock too late for what happens now?
    pub(crate) fn is_late(&self, now: Time) -> bool {
        now.0 >= self.clock.0.saturating_add(COARSE)
    }

    pub(crate) fn set_clock(&mut self, at: Time) {
        self.clock = at;
    }

    pub(crate) fn began(&mut self, process: u32, node: NodeId) {
        let clock = self.clock;
        let tally = self.at(process, node);
        if tally.began == 0 {
            tally.first = clock;
        }
        tally.began += 1;
    }

    /// An element ended, after which `count` counts one more.
    pub(crate) fn ended(&mut self, process: u32, node: NodeId, count: fn(&mut Tally) -> &mut u64) {
        let clock = self.clock;
        let tally = self.at(process, node);
        tally.last = clock;
        *count(tally) += 1;
    }

    pub(crate) fn at(&mut self, process: u32, node: NodeId) -> &mut Tally {
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

    pub(crate) fn wants_failures(&self) -> bool {
        self.failures.len() < MOST_FAILURES
    }

    pub(crate) fn failed(&mut self, failure: &Failure) {
        let short = |text: &String| text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned();
        let failure = Failure {
            message: short(&failure.message),
            stderr: failure.stderr.as_ref().map(short),
            cause: None,
            ..failure.clone()
        };
        self.failures.push((self.clock, failure));
    }

    pub(crate) fn was_steered(&mut self, path: &str, what: &str) {
        if self.steered.len() == MOST_STEERED {
            self.steered.pop_front();
        }
        self.steered.push_back(Steered { at: self.clock, path: path.to_owned(), what: what.to_owned() });
    }
}
