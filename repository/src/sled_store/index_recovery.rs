//! Recovery: builds the index from all records when the store opens. Removes the remains of a crash, and
//! distinguishes them from damage.

use std::collections::HashMap;

use super::blobs::Blobs;
use super::database::Database;
use super::evidence::Evidence;
use super::frame::TreeId;
use super::record::{
    DecodeError, JournalEntry, Numbered, Payload, ProcessRecord, decode, document_name, journal_numbers,
};
use super::record_index::{Damage, IndexEntry, RecordIndex};
use super::witness::ProcessMark;
use crate::error::Error;

/// Result of the recovery.
pub(super) struct Recovered {
    pub(super) index: RecordIndex,
    /// Sequence numbers of all documents by key.
    pub(super) documents: HashMap<Vec<u8>, u64>,
    /// Documents that are missing, unreadable or outdated.
    pub(super) damaged_documents: Vec<String>,
    /// A number that no process has had.
    pub(super) next_number: u64,
    /// The largest sequence number of all records.
    pub(super) sequence: u64,
    /// The database differs from the evidence in more than it did when the store last opened.
    pub(super) has_new_damage: bool,
}

/// Reads all records and compares them with the evidence of what was acknowledged.
pub(super) fn recover(database: &Database, blobs: &mut Blobs, evidence: &Evidence) -> Result<Recovered, Error> {
    let (mut journals, mut sequence) = read_journals(database)?;
    let mut highest = journals.keys().copied().max().unwrap_or_default();
    let mut index = RecordIndex::default();
    let mut forgotten = Vec::new();
    database.for_each(TreeId::Processes, |key, value| {
        let id = String::from_utf8_lossy(key).into_owned();
        let mut entry = IndexEntry { record_size: value.len() as u64, ..IndexEntry::default() };
        match decode::<ProcessRecord>(TreeId::Processes, key, value) {
            Ok(Numbered { sequence: record_sequence, record: process }) => {
                sequence = sequence.max(record_sequence);
                highest = highest.max(process.number);
                if evidence.is_forgotten(&id, record_sequence) {
                    forgotten.push(id);
                    return Ok(());
                }
                for payload in process.payloads() {
                    blobs.add_reference(payload);
                    entry.record_size += payload.blob_bytes();
                }
                let ended = process.summary.is_some();
                entry.mark = ProcessMark { number: process.number, ended, record_sequence, ..ProcessMark::default() };
                entry.owner = process.owner;
                if !ended {
                    let journal = journals.remove(&process.number).unwrap_or_default();
                    settle(&id, &mut entry, &journal, database, blobs, evidence)?;
                } else {
                    // If the process is reopened, its new records follow what a crash may have left of the old ones.
                    let left = journals.get(&process.number).and_then(|journal| journal.last());
                    entry.mark.next_record = left.map_or(0, StoredEntry::next_number);
                    let problem = evidence.compare(&id, &entry.mark);
                    entry.damage = problem.map(|problem| database.damage(0, problem));
                }
            }
            Err(error) => entry.damage = Some(database.head_damage(&error)),
        }
        index.insert(id, entry);
        Ok(())
    })?;
    for id in &forgotten {
        database.tree(TreeId::Processes).remove(id).map_err(|error| database.failed(&error))?;
    }
    for (id, mark) in evidence.missing(&index) {
        let damage = Some(database.damage(0, "the process is missing, though the store had acknowledged it"));
        index.insert(id.to_owned(), IndexEntry { mark, damage, ..IndexEntry::default() });
    }
    let (mut undamaged, mut has_new_damage) = (true, !forgotten.is_empty());
    let damaged = index.iter().filter(|(_, entry)| entry.damage.is_some());
    for id in damaged.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
        let Some(mut entry) = index.remove(&id) else { continue };
        undamaged = false;
        // The next start must find the same damage.
        entry.mark = evidence.expected(&id).unwrap_or(entry.mark);
        has_new_damage |= !entry.mark.damaged;
        entry.mark.damaged = true;
        index.insert(id, entry);
    }
    let mut documents = HashMap::new();
    let (mut damaged_documents, mut removed) = (Vec::new(), Vec::new());
    database.for_each(TreeId::Documents, |key, value| {
        match decode::<Payload>(TreeId::Documents, key, value) {
            Ok(Numbered { sequence: stored, .. }) if evidence.is_removed(key, stored) => removed.push(key.to_vec()),
            Ok(Numbered { sequence: stored, record: payload }) => {
                blobs.add_reference(&payload);
                sequence = sequence.max(stored);
                documents.insert(key.to_vec(), stored);
                if evidence.is_outdated(key, stored) {
                    damaged_documents.push(document_name(key));
                }
            }
            Err(_) => {
                documents.insert(key.to_vec(), 0);
                damaged_documents.push(document_name(key));
            }
        }
        Ok(())
    })?;
    has_new_damage |= !removed.is_empty();
    for key in removed {
        database.tree(TreeId::Documents).remove(key).map_err(|error| database.failed(&error))?;
    }
    damaged_documents.extend(evidence.missing_documents(&documents).map(document_name));
    undamaged &= damaged_documents.is_empty();
    has_new_damage |= !damaged_documents.is_empty();
    // Without damage, a crash left behind every entry and blob without a reference. With damage, the references of the
    // damaged records are unknown.
    if undamaged {
        for (process, journal) in journals {
            for stored in journal {
                database.remove_entry(process, stored.number).map_err(|error| database.failed(&error))?;
            }
        }
        // If this fails, the next start removes them.
        if let Err(error) = blobs.sweep() {
            tracing::warn!(%error, "cannot remove blobs that are not needed");
        }
    }
    let next_number = (highest + 1).max(evidence.next_number());
    Ok(Recovered { index, documents, damaged_documents, next_number, sequence, has_new_damage })
}

/// An entry of a journal, without its payloads.
struct StoredEntry {
    /// Number of the first record.
    number: u64,
    size: u64,
    summary: Result<EntrySummary, DecodeError>,
}

impl StoredEntry {
    /// Number of the first record behind the entry.
    fn next_number(&self) -> u64 {
        self.number + self.summary.as_ref().map_or(1, |summary| summary.records)
    }
}

struct EntrySummary {
    sequence: u64,
    is_snapshot: bool,
    /// Record numbers that the entry takes.
    records: u64,
    blobs: Vec<Payload>,
}

/// Reads all journals by the number of the process, each in the order of its records. Also returns their largest sequence
/// number.
fn read_journals(database: &Database) -> Result<(HashMap<u64, Vec<StoredEntry>>, u64), Error> {
    let mut journals: HashMap<u64, Vec<StoredEntry>> = HashMap::new();
    let mut largest = 0;
    database.for_each(TreeId::Journal, |key, value| {
        let Some((process, number)) = journal_numbers(key) else { return Ok(()) };
        let decoded = decode::<JournalEntry>(TreeId::Journal, key, value);
        let summary = decoded.map(|Numbered { sequence, record: entry }| EntrySummary {
            sequence,
            is_snapshot: matches!(entry, JournalEntry::Snapshot(_)),
            records: entry.payloads().len() as u64,
            blobs: entry.payloads().iter().filter(|payload| payload.digest().is_some()).cloned().collect(),
        });
        largest = largest.max(summary.as_ref().map_or(0, |summary| summary.sequence));
        journals.entry(process).or_default().push(StoredEntry { number, size: value.len() as u64, summary });
        Ok(())
    })?;
    Ok((journals, largest))
}

/// Finds the end of a journal. Removes the entries before the last snapshot. Cuts off unreadable entries at the end that
/// the store never acknowledged. If acknowledged records are missing, or readable entries follow an unreadable one, the
/// journal is damaged and stays as it is.
fn settle(
    id: &str,
    entry: &mut IndexEntry,
    journal: &[StoredEntry],
    database: &Database,
    blobs: &mut Blobs,
    evidence: &Evidence,
) -> Result<(), Error> {
    let is_snapshot = |stored: &StoredEntry| stored.summary.as_ref().is_ok_and(|summary| summary.is_snapshot);
    let start = journal.iter().rposition(is_snapshot).unwrap_or_default();
    let starts_with_snapshot = journal.get(start).is_some_and(is_snapshot);
    let mark = &mut entry.mark;
    mark.first_record = if starts_with_snapshot { journal[start].number } else { 0 };
    mark.next_record = mark.first_record;
    let good = journal[start..]
        .iter()
        .take_while(|stored| match &stored.summary {
            // A smaller sequence number belongs to an entry that was cut off, and that the salvage found.
            Ok(summary) if stored.number == mark.next_record && summary.sequence >= mark.last_sequence => {
                mark.next_record += summary.records;
                mark.last_sequence = summary.sequence;
                true
            }
            _ => false,
        })
        .count();
    let (good, rest) = journal[start..].split_at(good);
    let damage = find_damage(database, mark, good, rest).or_else(|| {
        let problem = evidence.compare(id, mark)?;
        Some(database.damage(mark.next_record, problem))
    });
    if damage.is_some() {
        entry.damage = damage;
        count(entry, journal, blobs);
        return Ok(());
    }
    if !rest.is_empty() {
        tracing::warn!(process = id, record = mark.next_record, "cut off the unfinished end of a journal");
    }
    count(entry, good, blobs);
    // The sweep at the end of the recovery removes their blobs.
    for stored in journal[..start].iter().chain(rest) {
        database.remove_entry(entry.mark.number, stored.number).map_err(|error| database.failed(&error))?;
    }
    Ok(())
}

/// Finds out whether the entries behind the good ones of a journal are the remains of a crash or show damage.
fn find_damage(database: &Database, mark: &ProcessMark, good: &[StoredEntry], rest: &[StoredEntry]) -> Option<Damage> {
    let first = rest.first()?;
    // The store removes records from the beginning only after a later snapshot is durable.
    let beginning_lost = good.is_empty() && first.number > 0;
    let is_later =
        |stored: &StoredEntry| stored.summary.as_ref().is_ok_and(|summary| summary.sequence >= mark.last_sequence);
    if !beginning_lost && !rest.iter().any(is_later) {
        return None;
    }
    Some(match &first.summary {
        Err(error) if first.number == mark.next_record => database.damage(mark.next_record, error),
        _ => database.damage(mark.next_record, "it is missing, though later ones are there"),
    })
}

/// Adds the entries to the size of the journal, and their blobs to the references.
fn count(entry: &mut IndexEntry, journal: &[StoredEntry], blobs: &mut Blobs) {
    for stored in journal {
        entry.journal_size += stored.size;
        for payload in stored.summary.iter().flat_map(|summary| &summary.blobs) {
            entry.journal_size += payload.blob_bytes();
            blobs.add_reference(payload);
        }
    }
}
