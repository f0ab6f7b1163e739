//! What the embedded store remembers of every process, and how it learns it when it opens: by reading all records once,
//! sorting out what a crash left behind, and telling it from damage.

use std::collections::HashMap;

use super::record::{Entry, Payload, Process, decode, journal_numbers};
use super::{Blobs, Files};
use crate::Error;

/// All processes by their ids.
pub(super) type Index = HashMap<String, Slot>;

/// What is in memory of a process.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Of its journal; 0 is no process's.
    pub(super) number: u64,
    pub(super) owner: String,
    pub(super) running: bool,
    /// It was created or claimed since this store was opened.
    pub(super) ours: bool,
    /// The number of the next record.
    pub(super) next: u64,
    pub(super) damage: Option<Damage>,
    /// The bytes of its own record, with what it refers to.
    pub(super) own_size: u64,
    /// The bytes of its journal, with what it refers to.
    pub(super) journal_size: u64,
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
                "{}; restore the data directory from a backup, or remove the process with `xavantes forget {process}`",
                self.problem
            ),
        }
    }
}

/// Reads everything. Gives the index and a number that no process has had.
pub(super) fn read(files: &Files, blobs: &mut Blobs) -> Result<(Index, u64), Error> {
    let mut journals = journals(files)?;
    let mut highest = journals.keys().copied().max().unwrap_or_default();
    let mut index = Index::new();
    let mut all_known = true;
    for item in &files.processes {
        let (key, value) = item.map_err(|error| files.broken(&error))?;
        let id = String::from_utf8_lossy(&key).into_owned();
        let mut slot = Slot { running: true, own_size: value.len() as u64, ..Slot::default() };
        match decode::<Process>(&key, &value) {
            Ok(process) => {
                for payload in process.payloads() {
                    blobs.uses(payload);
                    slot.own_size += payload.outside();
                }
                highest = highest.max(process.number);
                slot.number = process.number;
                slot.owner = process.owner;
                slot.running = process.summary.is_none();
                if slot.running {
                    let journal = journals.remove(&slot.number).unwrap_or_default();
                    settle(&id, &mut slot, journal, files, blobs)?;
                }
            }
            Err(problem) => {
                slot.damage = Some(files.damage(0, format!("its head cannot be read: {problem}")));
            }
        }
        if let Some(damage) = &slot.damage {
            all_known = false;
            tracing::error!("{}", damage.error(&id));
        }
        index.insert(id, slot);
    }
    for item in &files.documents {
        let (key, value) = item.map_err(|error| files.broken(&error))?;
        match decode(&key, &value) {
            Ok(payload) => blobs.uses(&payload),
            Err(_) => all_known = false,
        }
    }
    // What nobody refers to was left behind by a crash; but not if it is unknown what somebody refers to.
    if all_known {
        for (process, journal) in journals {
            for found in journal {
                files.remove_entry(process, found.number)?;
            }
        }
        blobs.sweep().map_err(|error| files.broken(&error))?;
    }
    Ok((index, highest + 1))
}

/// An entry of a journal, without what is in it.
struct Found {
    number: u64,
    size: u64,
    content: Result<Content, String>,
}

struct Content {
    is_snapshot: bool,
    /// How many numbers it takes.
    records: u64,
    outside: Vec<Payload>,
}

/// The journals of all numbers, each in the order of its records.
fn journals(files: &Files) -> Result<HashMap<u64, Vec<Found>>, Error> {
    let mut journals: HashMap<u64, Vec<Found>> = HashMap::new();
    for item in &files.journal {
        let (key, value) = item.map_err(|error| files.broken(&error))?;
        let Some((process, number)) = journal_numbers(&key) else { continue };
        let content = decode::<Entry>(&key, &value).map(|entry| Content {
            is_snapshot: matches!(entry, Entry::Snapshot(_)),
            records: entry.payloads().len() as u64,
            outside: entry.payloads().iter().filter(|payload| payload.digest().is_some()).cloned().collect(),
        });
        journals.entry(process).or_default().push(Found { number, size: value.len() as u64, content });
    }
    Ok(journals)
}

/// Finds out where a journal ends. What comes before the last snapshot is removed. Entries at the end that are not good
/// were never acknowledged and are cut off; if good ones follow, it is damage, and everything stays as it is.
fn settle(id: &str, slot: &mut Slot, journal: Vec<Found>, files: &Files, blobs: &mut Blobs) -> Result<(), Error> {
    let is_snapshot = |found: &Found| found.content.as_ref().is_ok_and(|content| content.is_snapshot);
    let start = journal.iter().rposition(is_snapshot).unwrap_or_default();
    let begun_by_snapshot = journal.get(start).is_some_and(is_snapshot);
    let mut next = if begun_by_snapshot { journal[start].number } else { 0 };
    let good = journal[start..]
        .iter()
        .take_while(|found| match &found.content {
            Ok(content) if found.number == next => {
                next += content.records;
                true
            }
            _ => false,
        })
        .count();
    let (good, rest) = journal[start..].split_at(good);
    slot.next = next;
    if let Some(first) = rest.first() {
        // Records are removed from the beginning only when a snapshot after them is durable.
        let beginning_lost = good.is_empty() && first.number > 0;
        if beginning_lost || rest.iter().any(|found| found.content.is_ok()) {
            let problem = match &first.content {
                Err(problem) if first.number == next => problem.clone(),
                _ => "it is missing, though later ones are there".into(),
            };
            slot.damage = Some(files.damage(next, problem));
            count(slot, &journal, blobs);
            return Ok(());
        }
        tracing::warn!(process = id, record = next, "the journal has an unfinished end, which is cut off");
    }
    count(slot, good, blobs);
    // What these refer to, and others do not, is swept away in the end.
    for found in journal[..start].iter().chain(rest) {
        files.remove_entry(slot.number, found.number)?;
    }
    Ok(())
}

/// Notes what stays.
fn count(slot: &mut Slot, journal: &[Found], blobs: &mut Blobs) {
    for found in journal {
        slot.journal_size += found.size;
        for payload in found.content.iter().flat_map(|content| &content.outside) {
            slot.journal_size += payload.outside();
            blobs.uses(payload);
        }
    }
}
