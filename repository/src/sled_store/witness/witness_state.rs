//! The facts that the frames of a witness add up to.

use std::collections::HashMap;

use super::super::frame::MAX_NUMBER;
use super::{ProcessMark, WitnessNote};

/// A fact, and whether it still held when the last frame was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Expected<T> {
    pub(in super::super) fact: T,
    /// No damaged frame follows that could have changed the fact.
    pub(in super::super) is_firm: bool,
}

/// What a store had acknowledged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct WitnessedRecords {
    pub(in super::super) realm: Option<String>,
    /// Sequence number of the last acknowledged commit.
    pub(in super::super) sequence: u64,
    /// A number that no process has had.
    pub(in super::super) next_number: u64,
    pub(in super::super) processes: HashMap<String, Expected<ProcessMark>>,
    /// Sequence numbers of documents by key.
    pub(in super::super) documents: HashMap<Vec<u8>, Expected<u64>>,
    /// Some frame cannot be read, and others follow.
    pub(in super::super) is_damaged: bool,
    closed: bool,
    boot: Option<String>,
}

impl WitnessedRecords {
    /// Whether the witness has all frames that were appended: a power failure can only have lost some if the machine has
    /// booted since, and the store was not closed.
    pub(in super::super) fn is_complete(&self, boot: &str) -> bool {
        !self.is_damaged && (self.closed || (!boot.is_empty() && self.boot.as_deref() == Some(boot)))
    }

    /// Applies a frame: its sequence number and its notes. Returns whether it can be read.
    pub(super) fn apply(&mut self, body: &[u8]) -> bool {
        let Ok((sequence, mut notes)) = postcard::take_from_bytes::<u64>(body) else { return false };
        if sequence > MAX_NUMBER {
            return false;
        }
        self.sequence = self.sequence.max(sequence);
        self.closed = false;
        while !notes.is_empty() {
            let Ok((note, rest)) = postcard::take_from_bytes::<WitnessNote<'_>>(notes) else { return false };
            if let WitnessNote::NextNumber(number) | WitnessNote::Process { mark: ProcessMark { number, .. }, .. } =
                note
                && number > MAX_NUMBER
            {
                return false;
            }
            self.on_note(note);
            notes = rest;
        }
        true
    }

    fn on_note(&mut self, note: WitnessNote<'_>) {
        match note {
            WitnessNote::Opened { realm, boot } => {
                self.realm = Some(realm.to_owned());
                self.boot = Some(boot.to_owned());
            }
            WitnessNote::Closed => self.closed = true,
            WitnessNote::Process { id, mark } => {
                self.next_number = self.next_number.max(mark.number + 1);
                self.processes.insert(id.to_owned(), Expected { fact: mark, is_firm: true });
            }
            WitnessNote::Forgotten { id } => drop(self.processes.remove(id)),
            WitnessNote::Document { key, sequence } => {
                self.documents.insert(key.to_owned(), Expected { fact: sequence, is_firm: true });
            }
            WitnessNote::Removed { key } => drop(self.documents.remove(key)),
            WitnessNote::NextNumber(number) => self.next_number = self.next_number.max(number),
        }
    }

    /// A frame behind which others follow cannot be read. It may have changed any of the facts before it.
    pub(super) fn on_damage(&mut self) {
        self.is_damaged = true;
        self.processes.values_mut().for_each(|expected| expected.is_firm = false);
        self.documents.values_mut().for_each(|expected| expected.is_firm = false);
    }
}
