//! The facts about every process that the sled store holds in memory, and the damage of processes.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;

use super::witness::ProcessMark;
use crate::error::Error;
use crate::places::page_places;
use crate::repository::Place;

/// Upper bound on the places that a reader passes over while it has the index.
const MAX_PASSED_PLACES: usize = 1000;

/// All processes by id.
#[derive(Debug, Default)]
pub(super) struct RecordIndex {
    entries: HashMap<String, IndexEntry>,
    /// All processes in the order of their creation.
    places: BTreeSet<Place>,
}

impl RecordIndex {
    /// Adds a process. Its number never changes afterwards.
    pub(super) fn insert(&mut self, id: String, entry: IndexEntry) {
        self.remove(&id);
        self.places.insert(Place { number: entry.mark.number, process: id.clone() });
        self.entries.insert(id, entry);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<IndexEntry> {
        let (process, entry) = self.entries.remove_entry(id)?;
        self.places.remove(&Place { number: entry.mark.number, process });
        Some(entry)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut IndexEntry> {
        self.entries.get_mut(id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut IndexEntry)> {
        self.entries.iter_mut()
    }

    /// The next place behind one, in the order of creation or backwards, and whether its process is wanted: with
    /// `unfinished`, this passes over ended processes, but not over so many that the committer waits for long.
    pub(super) fn next_place(
        &self,
        after: Option<&Place>,
        newest_first: bool,
        unfinished: bool,
    ) -> Option<(Place, bool)> {
        let mut passed = None;
        for place in page_places(&self.places, after, newest_first).take(MAX_PASSED_PLACES) {
            if !unfinished || self.entries.get(&place.process).is_some_and(IndexEntry::is_unfinished) {
                return Some((place.clone(), true));
            }
            passed = Some(place);
        }
        passed.map(|place| (place.clone(), false))
    }
}

impl Deref for RecordIndex {
    type Target = HashMap<String, IndexEntry>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

/// A process in the index.
#[derive(Debug, Default)]
pub(super) struct IndexEntry {
    /// What the store has of the process. If the process is damaged: what the store should have.
    pub(super) mark: ProcessMark,
    pub(super) owner: String,
    /// This store created or claimed the process since it was opened.
    pub(super) claimed: bool,
    pub(super) damage: Option<Damage>,
    /// Bytes of the process record and its blobs.
    pub(super) record_size: u64,
    /// Bytes of the journal and its blobs.
    pub(super) journal_size: u64,
}

impl IndexEntry {
    /// A process that has not ended, or whose end cannot be read.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.mark.ended || self.damage.is_some()
    }
}

/// Finds a process that this store may continue.
pub(super) fn running<'a>(index: &'a mut RecordIndex, id: &str) -> Result<&'a mut IndexEntry, Error> {
    let entry = running_or_damaged(index, id)?;
    match &entry.damage {
        Some(damage) => Err(damage.error(id)),
        None => Ok(entry),
    }
}

/// Finds a process that this store may end.
pub(super) fn running_or_damaged<'a>(index: &'a mut RecordIndex, id: &str) -> Result<&'a mut IndexEntry, Error> {
    let entry = index.get_mut(id).filter(|entry| entry.is_unfinished()).ok_or_else(|| Error::Unknown(id.into()))?;
    if entry.claimed { Ok(entry) } else { Err(Error::NotOwned(id.into())) }
}

/// Why a process cannot be read.
#[derive(Debug, Clone)]
pub(super) struct Damage {
    pub(super) file: String,
    pub(super) record: u64,
    pub(super) problem: String,
}

impl Damage {
    pub(super) fn error(&self, process: &str) -> Error {
        Error::Damaged {
            process: process.into(),
            file: self.file.clone(),
            record: self.record,
            problem: format!(
                "{}; restore the data directory from a backup, or remove the process with `xavantes forget --force {process}`",
                self.problem
            ),
        }
    }
}
