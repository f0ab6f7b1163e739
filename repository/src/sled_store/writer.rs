//! The changes of the sled store. The writer applies them in memory and in sled, makes them durable together, and then
//! removes the records and blobs that they replaced.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::blobs::{Blobs, MAX_INLINE_BYTES};
use super::data_directory::DataDirectory;
use super::database::Database;
use super::index::{IndexEntry, RecordIndex, running, running_or_damaged};
use super::record::{
    BlobDigest, JournalEntry, Payload, ProcessRecord, decode, document_key, encode, journal_key, journal_numbers,
};
use crate::error::Error;
use crate::handle::CommitChange;
use crate::repository::Journal;

/// Target size of a journal entry. Records of one process that share a commit share entries of about this size.
const ENTRY_BYTES: usize = 16 * 1024;

/// Upper bound on journal records that are split into parts. Larger ones are blobs.
const MAX_BYTES_IN_PARTS: usize = 1 << 20;

/// Applies changes.
pub(super) struct Writer {
    /// The database file, opened a second time to sync it: a flush of sled does not survive a loss of power.
    file: File,
    pub(super) database: Database,
    blobs: Blobs,
    /// Number of the next process.
    next_number: u64,
    node: String,
    index: Arc<Mutex<RecordIndex>>,
    /// Declared after the database, so that the directory stays locked until the database is closed.
    directory: DataDirectory,

    // State of the current batch:
    /// Bytes that the batch may still add.
    free_bytes: u64,
    /// Records that are not in the database yet, by process.
    appended: HashMap<String, Vec<Payload>>,
    /// Replaced data, which goes when the batch is durable.
    garbage: Vec<Garbage>,
    /// The database has changes that are not durable.
    dirty: bool,
}

enum Garbage {
    /// Entries of a journal before a record number.
    Entries {
        process: u64,
        before: u64,
    },
    Blob(BlobDigest),
}

impl Writer {
    pub(super) fn new(
        directory: DataDirectory,
        database: Database,
        blobs: Blobs,
        next_number: u64,
        node: String,
        index: Arc<Mutex<RecordIndex>>,
    ) -> Result<Self, Error> {
        let file = File::open(database.file()).map_err(|error| database.broken(&error))?;
        Ok(Self {
            directory,
            file,
            database,
            blobs,
            next_number,
            node,
            index,
            free_bytes: 0,
            appended: HashMap::new(),
            garbage: Vec::new(),
            dirty: false,
        })
    }

    /// Starts a batch of changes.
    pub(super) fn begin(&mut self) {
        self.free_bytes = self.directory.free_bytes().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot determine the free space of the disk");
            u64::MAX
        });
    }

    /// Applies a change. It is durable after [`commit`](Self::commit).
    pub(super) fn apply(&mut self, change: CommitChange) -> Result<(), Error> {
        if let Some(bytes) = change.added_bytes() {
            self.free_bytes = self.free_bytes.checked_sub(bytes).ok_or_else(|| self.directory.full(bytes))?;
        }
        let index = self.index.clone();
        let index = &mut *index.lock();
        match change {
            CommitChange::Create { process, head } => self.create(index, process, head),
            CommitChange::Append { process, record } => {
                running(index, &process)?;
                let payloads = self.split_record(record)?;
                self.appended.entry(process).or_default().extend(payloads);
                Ok(())
            }
            CommitChange::Compact { process, snapshot } => {
                let entry = running(index, &process)?;
                let snapshot = self.store(snapshot)?;
                self.drop_appended(&process);
                self.garbage.push(Garbage::Entries { process: entry.number, before: entry.next_record });
                entry.journal_size = 0;
                self.write_entry(entry, &JournalEntry::Snapshot(snapshot))
            }
            CommitChange::Close { process, summary } => self.close(index, process, summary),
            CommitChange::Forget { processes } => processes.iter().try_for_each(|process| self.forget(index, process)),
            CommitChange::Put { kind, key, document } => {
                let key = document_key(&kind, &key);
                let value = encode(&key, &self.store(document)?);
                let old = self.database.documents.insert(&key, value);
                self.on_document_replaced(&key, old)
            }
            CommitChange::Remove { kind, key } => {
                let key = document_key(&kind, &key);
                let old = self.database.documents.remove(&key);
                self.on_document_replaced(&key, old)
            }
        }
    }

    fn create(&mut self, index: &mut RecordIndex, id: String, head: Bytes) -> Result<(), Error> {
        if index.contains_key(&id) {
            return Err(Error::Exists(id));
        }
        let number = self.next_number;
        self.next_number += 1;
        let head = self.store(head)?;
        let process = ProcessRecord { number, owner: self.node.clone(), head, summary: None };
        let record_size = self.write_process(&id, &process)?;
        let owner = process.owner;
        let entry = IndexEntry { number, owner, running: true, claimed: true, record_size, ..IndexEntry::default() };
        index.insert(id, entry);
        Ok(())
    }

    /// Ends a process, also a damaged one. If its record cannot be read, it loses its head.
    fn close(&mut self, index: &mut RecordIndex, id: String, summary: Bytes) -> Result<(), Error> {
        let entry = running_or_damaged(index, &id)?;
        let mut process = match self.database.process(&id)? {
            Some(Ok(process)) => process,
            Some(Err(_)) => {
                let (owner, head) = (entry.owner.clone(), self.store(Bytes::new())?);
                ProcessRecord { number: entry.number, owner, head, summary: None }
            }
            None => return Err(Error::Unknown(id)),
        };
        entry.damage = None;
        process.summary = Some(self.store(summary)?);
        process.owner.clone_from(&entry.owner);
        self.drop_appended(&id);
        self.garbage.push(Garbage::Entries { process: entry.number, before: u64::MAX });
        entry.running = false;
        entry.journal_size = 0;
        entry.record_size = self.write_process(&id, &process)?;
        Ok(())
    }

    /// Removes a process that has ended or is damaged.
    fn forget(&mut self, index: &mut RecordIndex, id: &str) -> Result<(), Error> {
        if !index.get(id).is_some_and(|entry| !entry.running || entry.damage.is_some()) {
            return Ok(());
        }
        let Some(entry) = index.remove(id) else { return Ok(()) };
        if let Some(Ok(process)) = self.database.process(id)? {
            self.garbage.extend(process.payloads().filter_map(Payload::digest).map(Garbage::Blob));
        }
        self.database.processes.remove(id).map_err(|error| self.database.broken(&error))?;
        self.garbage.push(Garbage::Entries { process: entry.number, before: u64::MAX });
        self.dirty = true;
        Ok(())
    }

    /// Splits a record of medium size into parts, because a blob costs several syncs.
    fn split_record(&mut self, record: Bytes) -> Result<Vec<Payload>, Error> {
        if record.len() <= MAX_INLINE_BYTES || record.len() > MAX_BYTES_IN_PARTS {
            return Ok(vec![self.store(record)?]);
        }
        let parts = (0..record.len()).step_by(MAX_INLINE_BYTES).map(|from| {
            let to = (from + MAX_INLINE_BYTES).min(record.len());
            Payload::Part { first: from == 0, last: to == record.len(), bytes: record.slice(from..to) }
        });
        Ok(parts.collect())
    }

    fn store(&mut self, bytes: Bytes) -> Result<Payload, Error> {
        let length = bytes.len() as u64;
        self.blobs.store(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.directory.full(length),
            _ => self.database.broken(&error),
        })
    }

    /// Writes the record of a process. Returns its size with its blobs.
    fn write_process(&mut self, id: &str, process: &ProcessRecord) -> Result<u64, Error> {
        let value = encode(id.as_bytes(), process);
        let size = value.len() as u64 + process.payloads().map(Payload::blob_bytes).sum::<u64>();
        self.database.processes.insert(id, value).map_err(|error| self.database.broken(&error))?;
        self.dirty = true;
        Ok(size)
    }

    fn write_entry(&mut self, process: &mut IndexEntry, entry: &JournalEntry) -> Result<(), Error> {
        let key = journal_key(process.number, process.next_record);
        let value = encode(&key, entry);
        process.next_record += entry.payloads().len() as u64;
        process.journal_size += value.len() as u64 + entry.payloads().iter().map(Payload::blob_bytes).sum::<u64>();
        self.database.journal.insert(key, value).map_err(|error| self.database.broken(&error))?;
        self.dirty = true;
        Ok(())
    }

    /// Writes appended records to the database.
    fn write_appended(&mut self, process: &mut IndexEntry, records: Vec<Payload>) -> Result<(), Error> {
        let mut entry = Vec::new();
        let mut size = 0;
        for record in records {
            let added = size_of::<Payload>() + record.inline_bytes();
            if size + added > ENTRY_BYTES && !entry.is_empty() {
                self.write_entry(process, &JournalEntry::Records(std::mem::take(&mut entry)))?;
                size = 0;
            }
            size += added;
            entry.push(record);
        }
        self.write_entry(process, &JournalEntry::Records(entry))
    }

    /// Drops the unwritten records of a journal that a snapshot or summary replaces.
    fn drop_appended(&mut self, id: &str) {
        let dropped = self.appended.remove(id).unwrap_or_default();
        self.garbage.extend(dropped.iter().filter_map(Payload::digest).map(Garbage::Blob));
    }

    /// Marks the blob of a replaced or removed document as garbage.
    fn on_document_replaced(&mut self, key: &[u8], old: sled::Result<Option<sled::IVec>>) -> Result<(), Error> {
        let old = old.map_err(|error| self.database.broken(&error))?;
        let digest = old.and_then(|old| decode::<Payload>(key, &old).ok()).and_then(|payload| payload.digest());
        self.garbage.extend(digest.map(Garbage::Blob));
        self.dirty = true;
        Ok(())
    }

    /// Claims all running processes that this store has not claimed yet.
    pub(super) fn claim(&self) -> Vec<String> {
        let mut index = self.index.lock();
        let unclaimed = index.iter_mut().filter(|(_, entry)| entry.running && !entry.claimed);
        let mut claimed: Vec<_> = unclaimed
            .map(|(id, entry)| {
                entry.claimed = true;
                entry.owner.clone_from(&self.node);
                id.clone()
            })
            .collect();
        claimed.sort();
        claimed
    }

    /// Reads the journal of a process, including the records of the current batch.
    pub(super) fn load(&mut self, id: &str) -> Result<Journal, Error> {
        let index = self.index.clone();
        let index = &mut *index.lock();
        let entry = running(index, id)?;
        if let Some(records) = self.appended.remove(id) {
            self.write_appended(entry, records)?;
        }
        let journal = self.database.load(id, entry.number, entry.next_record)?;
        journal.map_err(|damage| entry.damage.insert(damage).error(id))
    }

    /// Makes all changes durable.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        let index = self.index.clone();
        for (id, records) in std::mem::take(&mut self.appended) {
            if let Some(entry) = index.lock().get_mut(&id) {
                self.write_appended(entry, records)?;
            }
        }
        if self.dirty {
            self.database.flush()?;
            self.file.sync_data().map_err(|error| self.database.broken(&error))?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Removes the garbage of a durable batch. If a crash undoes the removal, the next start repeats it.
    pub(super) fn collect_garbage(&mut self) -> Result<(), Error> {
        for garbage in std::mem::take(&mut self.garbage) {
            match garbage {
                Garbage::Blob(digest) => self.blobs.release(&digest),
                Garbage::Entries { process, before } => {
                    let range = journal_key(process, 0)..journal_key(process, before);
                    for key in self.database.journal.range(range).keys() {
                        let key = key.map_err(|error| self.database.broken(&error))?;
                        let Some((_, record)) = journal_numbers(&key) else { continue };
                        for digest in self.database.remove_entry(process, record)? {
                            self.blobs.release(&digest);
                        }
                        self.dirty = true;
                    }
                }
            }
        }
        Ok(())
    }
}
