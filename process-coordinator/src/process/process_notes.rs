//! The facts about a process that its engine does not know. One function applies a note, when it happens and when the process
//! is recovered from its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use crate::data::lineage::{Lineage, Recipe};
use crate::handover::SubtreePlace;
use crate::process::process_history::ProcessHistory;
use crate::process::usage::UsageTotals;

/// Totals of subtrees that ended at other coordinators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubtreeTotals {
    /// Activities that completed.
    pub completed: u64,
    /// Activities that failed permanently.
    pub failed: u64,
    /// Attempts that were dispatched.
    pub attempts: u64,
    /// Completed activities that reused cached results.
    pub reused: u64,
    /// Histories of the subtrees.
    pub history: ProcessHistory,
}

impl SubtreeTotals {
    /// Totals that the answer of one subtree reports.
    pub fn from_wire(counts: v1::Counts, history: v1::History) -> Self {
        let v1::Counts { completed, failed, attempts, reused, .. } = counts;
        Self { completed, failed, attempts, reused, history: ProcessHistory::from_wire(history) }
    }

    fn add(&mut self, other: &Self) {
        // The other coordinator may report any numbers.
        self.completed = self.completed.saturating_add(other.completed);
        self.failed = self.failed.saturating_add(other.failed);
        self.attempts = self.attempts.saturating_add(other.attempts);
        self.reused = self.reused.saturating_add(other.reused);
        self.history.add(&other.history);
    }
}

/// A fact that the journal records beside the events of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A delegated attempt (element, attempt) goes to a coordinator; recorded before it goes.
    Placed(u64, u32, SubtreePlace),
    /// A subtree ended at another coordinator.
    SubtreeEnded(SubtreeTotals),
    /// An activity made files.
    FilesMade(Arc<Recipe>, Vec<Digest>),
    /// An activity completed with cached results.
    Reused,
    /// Resource usage of external programs of an activity type since the last such note.
    Used(u32, UsageTotals),
}

/// Everything that the notes of a process add up to.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessNotes {
    /// Where delegated attempts are, by element and attempt.
    places: BTreeMap<(u64, u32), SubtreePlace>,
    /// Subtrees that ended at other coordinators.
    pub subtrees: SubtreeTotals,
    /// Recipes of files.
    pub lineage: Lineage,
    /// Activities that completed with cached results.
    pub reused: u64,
    /// Resource usage of external programs, by activity type.
    pub usage: BTreeMap<u32, UsageTotals>,
}

impl ProcessNotes {
    /// Applies a note.
    pub fn apply(&mut self, note: &Note) {
        match note {
            Note::Placed(element, attempt, place) => drop(self.places.insert((*element, *attempt), place.clone())),
            Note::SubtreeEnded(totals) => self.subtrees.add(totals),
            Note::FilesMade(recipe, made) => self.lineage.add(recipe, made),
            Note::Reused => self.reused += 1,
            Note::Used(activity, usage) => self.usage.entry(*activity).or_default().add(usage),
        }
    }

    /// Where a delegated attempt is.
    pub fn place(&self, element: u64, attempt: u32) -> Option<&SubtreePlace> {
        self.places.get(&(element, attempt))
    }

    /// The attempt ended. The events of the engine imply this, so there is no note of it.
    pub fn remove_place(&mut self, element: u64, attempt: u32) {
        self.places.remove(&(element, attempt));
    }

    /// Forgets the places of all attempts except for the outstanding ones.
    pub fn retain_places(&mut self, outstanding: &BTreeSet<(u64, u32)>) {
        self.places.retain(|place, _| outstanding.contains(place));
    }
}
