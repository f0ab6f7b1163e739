//! What the witness proves about the records of a database.

use std::collections::HashMap;

use super::record_index::RecordIndex;
use super::witness::{ProcessMark, WitnessedRecords};

/// A witness, and how the database relates to it.
pub(super) struct Evidence<'a> {
    witness: Option<&'a WitnessedRecords>,
    /// The database lacks commits that the witness has.
    is_rolled_back: bool,
    /// The witness knows everything that the database had. A process or document that only one of them has is damage.
    /// Otherwise a note of its creation or removal may be missing in the witness.
    is_exact: bool,
    /// Nothing proves that the records of a process are complete.
    nothing_is_proven: bool,
}

impl<'a> Evidence<'a> {
    /// `last_commit` is the last one in the database, `boot` the present boot of the machine.
    pub(super) fn new(witness: Option<&'a WitnessedRecords>, last_commit: u64, boot: &str) -> Self {
        let is_rolled_back = witness.is_some_and(|witness| last_commit < witness.sequence);
        let is_same = witness.is_some_and(|witness| last_commit == witness.sequence && witness.is_complete(boot));
        Self { witness, is_rolled_back, is_exact: is_rolled_back || is_same, nothing_is_proven: false }
    }

    /// For a database that was made of salvaged records.
    pub(super) fn of_salvage(witness: Option<&'a WitnessedRecords>) -> Self {
        let is_missing = witness.is_none();
        Self { witness, is_rolled_back: true, is_exact: true, nothing_is_proven: is_missing }
    }

    pub(super) fn is_rolled_back(&self) -> bool {
        self.is_rolled_back
    }

    pub(super) fn next_number(&self) -> u64 {
        self.witness.map_or(0, |witness| witness.next_number)
    }

    /// What the store had acknowledged of a process.
    pub(super) fn expected(&self, id: &str) -> Option<ProcessMark> {
        self.witness?.processes.get(id).filter(|expected| expected.is_firm).map(|expected| expected.fact)
    }

    /// Whether the store had removed a process whose record the database still has.
    pub(super) fn is_forgotten(&self, id: &str, record_sequence: u64) -> bool {
        self.is_exact
            && self.witness.is_some_and(|witness| {
                !witness.is_damaged && !witness.processes.contains_key(id) && record_sequence <= witness.sequence
            })
    }

    /// Compares the records of a process with what the store had acknowledged. Returns what is wrong.
    pub(super) fn compare(&self, id: &str, found: &ProcessMark) -> Option<String> {
        if self.nothing_is_proven {
            return (!found.ended).then(|| {
                "the database could not be opened, and the file `witness` beside it is missing: nothing tells whether \
                 the records that could be read are all"
                    .into()
            });
        }
        let expected = self.expected(id)?;
        if found.number != expected.number {
            let is_newer = found.record_sequence > expected.record_sequence;
            return (!is_newer).then(|| "it is an older process with the same id".into());
        }
        if found.record_sequence < expected.record_sequence {
            let what = if expected.ended { "its end is missing" } else { "its last head is missing" };
            return Some(format!("{what}, though the store had acknowledged it"));
        }
        if found.ended {
            return None;
        }
        let is_behind = found.next_record < expected.next_record || found.last_sequence < expected.last_sequence;
        is_behind.then(|| {
            format!(
                "records up to number {} are missing, though the store had acknowledged them",
                expected.next_record.saturating_sub(1)
            )
        })
    }

    /// The processes that the store had acknowledged and that are not in the index.
    pub(super) fn missing(&self, index: &RecordIndex) -> Vec<(&'a str, ProcessMark)> {
        let Some(witness) = self.witness.filter(|_| self.is_exact) else { return Vec::new() };
        let missing = witness.processes.iter().filter(|(id, expected)| expected.is_firm && !index.contains_key(*id));
        missing.map(|(id, expected)| (id.as_str(), expected.fact)).collect()
    }

    /// Whether the store had acknowledged a later version of a document.
    pub(super) fn is_outdated(&self, key: &[u8], sequence: u64) -> bool {
        let expected = self.witness.and_then(|witness| witness.documents.get(key));
        expected.is_some_and(|expected| expected.is_firm && sequence < expected.fact)
    }

    /// Whether the store had removed a document that the database still has.
    pub(super) fn is_removed(&self, key: &[u8], sequence: u64) -> bool {
        self.is_exact
            && self.witness.is_some_and(|witness| {
                !witness.is_damaged && !witness.documents.contains_key(key) && sequence <= witness.sequence
            })
    }

    /// The documents that the store had acknowledged and that are not there.
    pub(super) fn missing_documents<'s>(
        &'s self,
        documents: &'s HashMap<Vec<u8>, u64>,
    ) -> impl Iterator<Item = &'s [u8]> + 's {
        let witness = self.witness.filter(|_| self.is_exact);
        let expected = witness.into_iter().flat_map(|witness| &witness.documents);
        let missing = expected.filter(|(key, expected)| expected.is_firm && !documents.contains_key(*key));
        missing.map(|(key, _)| key.as_slice())
    }
}
