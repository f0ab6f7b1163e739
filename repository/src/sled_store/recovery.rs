//! Recovery: builds the index from all records when the store opens. Removes the remains of a crash, and
//! distinguishes them from damage.

use std::collections::HashMap;

use super::blobs::Blobs;
use super::database::Database;
use super::index::{IndexEntry, RecordIndex};
use super::record::{DecodeError, JournalEntry, Payload, ProcessRecord, decode, journal_numbers};
use crate::error::Error;

/// Result of the recovery.
pub(super) struct Recovered {
    pub(super) index: RecordIndex,
    /// A number that no process has had.
    pub(super) next_number: u64,
}

/// Reads all records.
pub(super) fn recover(database: &Database, blobs: &mut Blobs) -> Result<Recovered, Error> {
    let mut journals = read_journals(database)?;
    let mut highest = journals.keys().copied().max().unwrap_or_default();
    let mut index = RecordIndex::new();
    let mut undamaged = true;
    for item in &database.processes {
        let (key, value) = item.map_err(|error| database.broken(&error))?;
        let id = String::from_utf8_lossy(&key).into_owned();
        let mut entry = IndexEntry { running: true, record_size: value.len() as u64, ..IndexEntry::default() };
        match decode::<ProcessRecord>(&key, &value) {
            Ok(process) => {
                for payload in process.payloads() {
                    blobs.add_reference(payload);
                    entry.record_size += payload.blob_bytes();
                }
                highest = highest.max(process.number);
                entry.number = process.number;
                entry.owner = process.owner;
                entry.running = process.summary.is_none();
                if entry.running {
                    let journal = journals.remove(&entry.number).unwrap_or_default();
                    settle(&id, &mut entry, journal, database, blobs)?;
                }
            }
            Err(error) => entry.damage = Some(database.head_damage(&error)),
        }
        if let Some(damage) = &entry.damage {
            undamaged = false;
            tracing::error!("{}", damage.error(&id));
        }
        index.insert(id, entry);
    }
    for item in &database.documents {
        let (key, value) = item.map_err(|error| database.broken(&error))?;
        match decode(&key, &value) {
            Ok(payload) => blobs.add_reference(&payload),
            Err(_) => undamaged = false,
        }
    }
    // Without damage, a crash left behind every entry and blob without a reference. With damage, the references of the
    // damaged records are unknown.
    if undamaged {
        for (process, journal) in journals {
            for stored in journal {
                database.remove_entry(process, stored.number)?;
            }
        }
        blobs.sweep().map_err(|error| database.broken(&error))?;
    }
    Ok(Recovered { index, next_number: highest + 1 })
}

/// An entry of a journal, without its payloads.
struct StoredEntry {
    /// Number of the first record.
    number: u64,
    size: u64,
    summary: Result<EntrySummary, DecodeError>,
}

struct EntrySummary {
    is_snapshot: bool,
    /// Record numbers that the entry takes.
    records: u64,
    blobs: Vec<Payload>,
}

/// Reads all journals by the number of the process, each in the order of its records.
fn read_journals(database: &Database) -> Result<HashMap<u64, Vec<StoredEntry>>, Error> {
    let mut journals: HashMap<u64, Vec<StoredEntry>> = HashMap::new();
    for item in &database.journal {
        let (key, value) = item.map_err(|error| database.broken(&error))?;
        let Some((process, number)) = journal_numbers(&key) else { continue };
        let summary = decode::<JournalEntry>(&key, &value).map(|entry| EntrySummary {
            is_snapshot: matches!(entry, JournalEntry::Snapshot(_)),
            records: entry.payloads().len() as u64,
            blobs: entry.payloads().iter().filter(|payload| payload.digest().is_some()).cloned().collect(),
        });
        journals.entry(process).or_default().push(StoredEntry { number, size: value.len() as u64, summary });
    }
    Ok(journals)
}

/// Finds the end of a journal. Removes the entries before the last snapshot. Cuts off unreadable entries at the end,
/// which the store never acknowledged. If readable entries follow an unreadable one, the journal is damaged and stays as
/// it is.
fn settle(
    id: &str,
    entry: &mut IndexEntry,
    journal: Vec<StoredEntry>,
    database: &Database,
    blobs: &mut Blobs,
) -> Result<(), Error> {
    let is_snapshot = |stored: &StoredEntry| stored.summary.as_ref().is_ok_and(|summary| summary.is_snapshot);
    let start = journal.iter().rposition(is_snapshot).unwrap_or_default();
    let starts_with_snapshot = journal.get(start).is_some_and(is_snapshot);
    let mut next = if starts_with_snapshot { journal[start].number } else { 0 };
    let good = journal[start..]
        .iter()
        .take_while(|stored| match &stored.summary {
            Ok(summary) if stored.number == next => {
                next += summary.records;
                true
            }
            _ => false,
        })
        .count();
    let (good, rest) = journal[start..].split_at(good);
    entry.next_record = next;
    if let Some(first) = rest.first() {
        // The store removes records from the beginning only after a later snapshot is durable.
        let beginning_lost = good.is_empty() && first.number > 0;
        if beginning_lost || rest.iter().any(|stored| stored.summary.is_ok()) {
            let problem = match &first.summary {
                Err(error) if first.number == next => error.to_string(),
                _ => "it is missing, though later ones are there".into(),
            };
            entry.damage = Some(database.damage(next, problem));
            count(entry, &journal, blobs);
            return Ok(());
        }
        tracing::warn!(process = id, record = next, "cut off the unfinished end of a journal");
    }
    count(entry, good, blobs);
    // The sweep at the end of the recovery removes their blobs.
    for stored in journal[..start].iter().chain(rest) {
        database.remove_entry(entry.number, stored.number)?;
    }
    Ok(())
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
