//! The changes of the sled store. The writer applies them in memory and in sled, makes them durable together, and then
//! removes the records and blobs that they replaced.

mod document_changes;
mod reopen_journal;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::backup;
use super::blobs::{Blobs, MAX_INLINE_BYTES};
use super::database::Database;
use super::frame::TreeId;
use super::index_recovery::Recovered;
use super::open_store::{OpenedStore, boot_id, notes};
use super::record::{
    BlobDigest, JournalEntry, Payload, ProcessRecord, document_key, encode, journal_key, journal_numbers,
};
use super::record_index::{IndexEntry, RecordIndex, running, running_or_damaged};
use super::store_directory::DataDirectory;
use super::store_failure::classify;
use super::undo::BatchUndo;
use super::witness::{ProcessMark, WitnessFile, WitnessNote};
use crate::committer_handle::{ChangeResult, CommitChange, EndDocument};
use crate::error::Error;
use crate::repository::{FIXED_EPOCH, Journal};

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
    witness: WitnessFile,
    /// Number of the next process.
    next_number: u64,
    /// Sequence number of the last record.
    sequence: u64,
    /// Sequence number of the last durable commit.
    committed: u64,
    /// Sequence numbers of all documents by key.
    documents: HashMap<Vec<u8>, u64>,
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
    /// The records that the batch has touched, as they were before.
    undo: BatchUndo,
    /// Why sled could not write. Nobody knows then what it has kept: the store must be opened again.
    failed: Option<Error>,
}

/// A store whose database is closed because a write failed.
pub(super) struct ClosedStore {
    pub(super) directory: DataDirectory,
    pub(super) node: String,
    /// Readers have it, too.
    pub(super) index: Arc<Mutex<RecordIndex>>,
    /// Takes the failed batch back.
    pub(super) undo: BatchUndo,
    /// Sequence number of the last record, written or not.
    pub(super) sequence: u64,
    /// Sequence number of the last durable commit.
    pub(super) committed: u64,
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
    /// Makes the writer of an opened store. Takes the index for itself and for readers.
    pub(super) fn new(directory: DataDirectory, opened: OpenedStore, node: String) -> Result<Self, Error> {
        let OpenedStore { database, blobs, recovered, witness, .. } = opened;
        let Recovered { index, documents, next_number, sequence, .. } = recovered;
        let file = File::open(database.file()).map_err(|error| database.broken(&error))?;
        Ok(Self {
            directory,
            file,
            database,
            blobs,
            witness,
            next_number,
            sequence,
            committed: sequence,
            documents,
            node,
            index: Arc::new(Mutex::new(index)),
            free_bytes: 0,
            appended: HashMap::new(),
            garbage: Vec::new(),
            dirty: false,
            undo: BatchUndo::default(),
            failed: None,
        })
    }

    /// The writer of a store that was opened again. Processes keep their owners.
    pub(super) fn reopened(closed: ClosedStore, mut opened: OpenedStore) -> Result<Self, Error> {
        let ClosedStore { directory, node, index, .. } = closed;
        let before = std::mem::replace(&mut *index.lock(), std::mem::take(&mut opened.recovered.index));
        for (id, entry) in index.lock().iter_mut() {
            if let Some(before) = before.get(id).filter(|before| before.claimed) {
                entry.claimed = true;
                entry.owner.clone_from(&before.owner);
            }
        }
        Ok(Self { index, ..Self::new(directory, opened, node)? })
    }

    /// Closes the database. Keeps what is needed to open the store again, also the lock of its directory.
    pub(super) fn close_database(self) -> ClosedStore {
        let Self { directory, node, index, undo, sequence, committed, .. } = self;
        ClosedStore { directory, node, index, undo, sequence, committed }
    }

    /// Why the store must be opened again.
    pub(super) fn failed(&self) -> Option<Error> {
        self.failed.clone()
    }

    /// A write of sled failed. If the system refused it, the store can be opened again; other errors are for good.
    fn on_failed_write(&mut self, error: &sled::Error) -> Error {
        let sled::Error::Io(_) = error else { return self.database.broken(error) };
        let text = format!("{}; the store is opened again as soon as it can write", self.database.broken(error));
        self.failed.insert(Error::Unavailable(text)).clone()
    }

    /// Writes a record to sled. Returns the record that it replaces.
    fn insert(&mut self, tree: TreeId, key: &[u8], value: Vec<u8>) -> Result<Option<sled::IVec>, Error> {
        let old = self.prepare_undo(tree, key)?;
        self.database.tree(tree).insert(key, value).map_err(|error| self.on_failed_write(&error))?;
        Ok(old)
    }

    /// Removes a record from sled, and returns it.
    fn remove(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<sled::IVec>, Error> {
        let old = self.prepare_undo(tree, key)?;
        self.database.tree(tree).remove(key).map_err(|error| self.on_failed_write(&error))?;
        Ok(old)
    }

    /// Notes a record before it changes: sled may keep a change though it returns an error. Returns the record.
    fn prepare_undo(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<sled::IVec>, Error> {
        let old = match tree {
            // Entries of journals are never replaced.
            TreeId::Journal => None,
            TreeId::Processes | TreeId::Documents => {
                self.database.tree(tree).get(key).map_err(|error| self.on_failed_write(&error))?
            }
        };
        self.undo.note(tree, key, old.clone());
        self.dirty = true;
        Ok(old)
    }

    /// The facts about all processes, for readers.
    pub(super) fn index(&self) -> Arc<Mutex<RecordIndex>> {
        self.index.clone()
    }

    /// Starts a batch of changes.
    pub(super) fn begin(&mut self) {
        self.free_bytes = self.directory.free_bytes().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot determine the free space of the disk");
            u64::MAX
        });
    }

    /// Applies a change. It is durable after [`commit`](Self::commit).
    pub(super) fn apply(&mut self, change: CommitChange) -> Result<ChangeResult, Error> {
        if let Some(bytes) = change.added_bytes() {
            self.free_bytes = self.free_bytes.checked_sub(bytes).ok_or_else(|| self.directory.full(bytes))?;
        }
        let index = self.index.clone();
        let index = &mut *index.lock();
        match change {
            CommitChange::Create { process, head } => {
                return self.create(index, process, head).map(|()| ChangeResult::Epoch(FIXED_EPOCH));
            }
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
                let first_record = entry.mark.next_record;
                self.garbage.push(Garbage::Entries { process: entry.mark.number, before: first_record });
                entry.journal_size = 0;
                entry.mark.first_record = first_record;
                self.write_entry(entry, &JournalEntry::Snapshot(snapshot))?;
                self.witness.note(&WitnessNote::Process { id: &process, mark: entry.mark });
                Ok(())
            }
            CommitChange::Close { process, summary, document } => self.close(index, process, summary, document),
            CommitChange::Reopen { process, summary, snapshot } => {
                let reopened = self.reopen(index, process, &summary, snapshot);
                return reopened.map(|()| ChangeResult::Epoch(FIXED_EPOCH));
            }
            CommitChange::Forget { mut processes } => {
                processes.iter().try_for_each(|process| self.forget(index, process))?;
                processes.retain(|process| index.contains_key(process));
                return Ok(ChangeResult::Running(processes));
            }
            CommitChange::Put { kind, key, document } => {
                let document = self.store(document)?;
                self.put_document(document_key(&kind, &key), &document)
            }
            CommitChange::Remove { kind, key } => self.remove_document(&document_key(&kind, &key)),
        }
        .map(|()| ChangeResult::Done)
    }

    fn create(&mut self, index: &mut RecordIndex, id: String, head: Bytes) -> Result<(), Error> {
        if index.contains_key(&id) {
            return Err(Error::Exists(id));
        }
        let number = self.next_number;
        self.next_number += 1;
        let head = self.store(head)?;
        let process = ProcessRecord { number, owner: self.node.clone(), head, summary: None };
        let (record_sequence, record_size) = self.write_process(&id, &process)?;
        let mark = ProcessMark { number, record_sequence, ..ProcessMark::default() };
        self.witness.note(&WitnessNote::Process { id: &id, mark });
        index
            .insert(id, IndexEntry { mark, owner: process.owner, claimed: true, record_size, ..IndexEntry::default() });
        Ok(())
    }

    /// Ends a process, also a damaged one. If its record cannot be read, it loses its head.
    fn close(
        &mut self,
        index: &mut RecordIndex,
        id: String,
        summary: Bytes,
        document: Option<EndDocument>,
    ) -> Result<(), Error> {
        let entry = running_or_damaged(index, &id)?;
        let mut process = match self.database.process(&id)? {
            Some(Ok(process)) => process,
            Some(Err(_)) | None => {
                let (owner, head) = (entry.owner.clone(), self.store(Bytes::new())?);
                ProcessRecord { number: entry.mark.number, owner, head, summary: None }
            }
        };
        // Before anything changes: if the disk refuses one of them, the process is as it was.
        let document = document.map(|document| self.store_end_document(&id, document)).transpose()?;
        let summary = self.store(summary);
        if summary.is_err() {
            let unused = document.iter().filter_map(|(_, content)| content.as_ref()?.digest());
            self.garbage.extend(unused.map(Garbage::Blob));
        }
        process.summary = Some(summary?);
        entry.damage = None;
        entry.mark.damaged = false;
        process.owner.clone_from(&entry.owner);
        self.drop_appended(&id);
        self.garbage.push(Garbage::Entries { process: entry.mark.number, before: u64::MAX });
        entry.mark.ended = true;
        entry.journal_size = 0;
        (entry.mark.record_sequence, entry.record_size) = self.write_process(&id, &process)?;
        self.witness.note(&WitnessNote::Process { id: &id, mark: entry.mark });
        match document {
            Some((key, Some(content))) => self.put_document(key, &content),
            Some((key, None)) => self.remove_document(&key),
            None => Ok(()),
        }
    }

    /// Removes a process that has ended or is damaged.
    fn forget(&mut self, index: &mut RecordIndex, id: &str) -> Result<(), Error> {
        if !index.get(id).is_some_and(|entry| entry.mark.ended || entry.damage.is_some()) {
            return Ok(());
        }
        let Some(entry) = index.remove(id) else { return Ok(()) };
        if let Some(Ok(process)) = self.database.process(id)? {
            self.garbage.extend(process.payloads().filter_map(Payload::digest).map(Garbage::Blob));
        }
        self.remove(TreeId::Processes, id.as_bytes())?;
        self.garbage.push(Garbage::Entries { process: entry.mark.number, before: u64::MAX });
        self.next_sequence();
        self.witness.note(&WitnessNote::Forgotten { id });
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

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Writes the record of a process. Returns its sequence number, and its size with its blobs.
    fn write_process(&mut self, id: &str, process: &ProcessRecord) -> Result<(u64, u64), Error> {
        let sequence = self.next_sequence();
        let value = encode(TreeId::Processes, id.as_bytes(), sequence, process);
        let size = value.len() as u64 + process.payloads().map(Payload::blob_bytes).sum::<u64>();
        self.insert(TreeId::Processes, id.as_bytes(), value)?;
        Ok((sequence, size))
    }

    fn write_entry(&mut self, process: &mut IndexEntry, entry: &JournalEntry) -> Result<(), Error> {
        let mark = &mut process.mark;
        let key = journal_key(mark.number, mark.next_record);
        mark.last_sequence = self.next_sequence();
        let value = encode(TreeId::Journal, &key, mark.last_sequence, entry);
        mark.next_record += entry.payloads().len() as u64;
        process.journal_size += value.len() as u64 + entry.payloads().iter().map(Payload::blob_bytes).sum::<u64>();
        self.insert(TreeId::Journal, &key, value)?;
        Ok(())
    }

    /// Writes appended records to the database.
    fn write_appended(&mut self, id: &str, process: &mut IndexEntry, records: Vec<Payload>) -> Result<(), Error> {
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
        self.write_entry(process, &JournalEntry::Records(entry))?;
        self.witness.note(&WitnessNote::Process { id, mark: process.mark });
        Ok(())
    }

    /// Drops the unwritten records of a journal that a snapshot or summary replaces.
    fn drop_appended(&mut self, id: &str) {
        let dropped = self.appended.remove(id).unwrap_or_default();
        self.garbage.extend(dropped.iter().filter_map(Payload::digest).map(Garbage::Blob));
    }

    /// Claims all running processes that this store has not claimed yet.
    pub(super) fn claim(&self) -> Vec<String> {
        let mut index = self.index.lock();
        let unclaimed = index.iter_mut().filter(|(_, entry)| entry.is_unfinished() && !entry.claimed);
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
            self.write_appended(id, entry, records)?;
        }
        let journal = match self.database.load(id, entry.mark.number, entry.mark.next_record) {
            Err(Error::Corrupt(problem)) => Err(self.database.damage(entry.mark.first_record, problem)),
            journal => journal?,
        };
        journal.map_err(|damage| entry.damage.insert(damage).error(id))
    }

    /// Makes all changes durable.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        let index = self.index.clone();
        for (id, records) in std::mem::take(&mut self.appended) {
            if let Some(entry) = index.lock().get_mut(&id) {
                self.write_appended(&id, entry, records)?;
            }
        }
        if self.dirty {
            let flushed = self.database.flush_commit(self.sequence);
            flushed.map_err(|error| self.on_failed_write(&error))?;
            // After a failed sync the system may pretend that later ones succeed, so this failure is for good.
            self.file.sync_data().map_err(|error| self.database.broken(&error))?;
            self.dirty = false;
            self.committed = self.sequence;
            self.undo.clear();
            self.write_witness();
        }
        Ok(())
    }

    /// Appends the notes of a durable batch to the witness. A failure does not fail the batch.
    fn write_witness(&mut self) {
        let appended = self.witness.append(self.sequence);
        let written = appended.and_then(|()| match self.witness.needs_rewrite() {
            true => {
                let opened = WitnessNote::Opened { realm: &self.directory.realm, boot: &boot_id() };
                let index = self.index.lock();
                self.witness.rewrite(self.sequence, notes(opened, self.next_number, &index, &self.documents))
            }
            false => Ok(()),
        });
        if let Err(error) = written {
            tracing::warn!(%error, "cannot write the witness; trying again with the next commit");
        }
    }

    /// Makes the witness durable and complete. Nothing must be written afterwards.
    pub(super) fn close_witness(&mut self) {
        self.witness.note(&WitnessNote::Closed);
        if let Err(error) = self.witness.append(self.sequence).and_then(|()| self.witness.sync()) {
            tracing::warn!(%error, "cannot close the witness");
        }
    }

    /// Writes a backup of all durable records to a file without a name in the data directory.
    pub(super) fn backup(&self) -> Result<File, Error> {
        let bytes = self.index.lock().values().map(|entry| entry.record_size + entry.journal_size).sum();
        if self.directory.free_bytes().is_ok_and(|free| free < bytes) {
            return Err(self.directory.full(bytes));
        }
        let failed = |error: io::Error| classify(&error, format!("cannot write a backup: {error}"));
        let mut file = tempfile::tempfile_in(self.directory.path()).map_err(failed)?;
        let content = backup::write(&self.database, &self.directory, &file)?;
        tracing::info!(processes = content.processes, records = content.records, "wrote a backup");
        file.rewind().map_err(failed)?;
        Ok(file)
    }

    /// Removes the garbage of a durable batch. If a crash undoes the removal, the next start repeats it.
    pub(super) fn collect_garbage(&mut self) -> Result<(), Error> {
        for garbage in std::mem::take(&mut self.garbage) {
            match garbage {
                Garbage::Blob(digest) => self.blobs.release(&digest),
                Garbage::Entries { process, before } => {
                    let range = journal_key(process, 0)..journal_key(process, before);
                    for key in self.database.tree(TreeId::Journal).range(range).keys() {
                        let key = key.map_err(|error| self.on_failed_write(&error))?;
                        let Some((_, record)) = journal_numbers(&key) else { continue };
                        let removed = self.database.remove_entry(process, record);
                        for digest in removed.map_err(|error| self.on_failed_write(&error))? {
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
