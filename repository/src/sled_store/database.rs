//! The sled database: opening it, and reading processes, journals and documents from it.

use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::blobs;
use super::frame::TreeId;
use super::record::{
    BlobDigest, DecodeError, JournalEntry, Numbered, Payload, ProcessRecord, decode, document_key, journal_key,
    journal_numbers,
};
use super::record_index::Damage;
use super::store_directory::{DataDirectory, sync_directory};
use super::store_failure::{classify, failure};
use crate::error::Error;
use crate::repository::{Entry, FIXED_EPOCH, Journal};

/// sled keeps the lock of a dropped database until its background threads have ended, at most for about this time.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Key of the commit marker in the tree `meta`.
const COMMIT_KEY: &[u8] = b"commit";

const CACHE_BYTES: u64 = 64 * 1024 * 1024;
const SEGMENT_BYTES: usize = 2 * 1024 * 1024;

/// The outer error ends the store. The inner one concerns one process.
pub(super) type ReadResult<T> = Result<Result<T, Damage>, Error>;

/// The trees of the database, and the directory of blobs.
#[derive(Clone)]
pub(super) struct Database {
    directory: PathBuf,
    blobs: PathBuf,
    db: sled::Db,
    processes: sled::Tree,
    journal: sled::Tree,
    documents: sled::Tree,
    meta: sled::Tree,
}

impl Database {
    pub(super) fn open(data: &DataDirectory) -> Result<Self, Error> {
        let directory = data.database();
        let opened = |what: &io::Error| classify(what, format!("the database {}: {what}", directory.display()));
        // sled does not open a database that has such a file, which a kill leaves behind.
        for file in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "generating") {
                fs::remove_file(file.path()).map_err(|error| opened(&error))?;
            }
        }
        wait_until_unlocked(&directory.join("db")).map_err(|error| opened(&error))?;
        let config = sled::Config::new()
            .path(&directory)
            .use_compression(false)
            .cache_capacity(CACHE_BYTES)
            .segment_size(SEGMENT_BYTES)
            .flush_every_ms(None);
        let failed = |error: sled::Error| failure(&directory, &error);
        let db = config.open().map_err(failed)?;
        let tree = |name| db.open_tree(name).map_err(failed);
        let (processes, journal, documents) = (tree("processes")?, tree("journal")?, tree("documents")?);
        let meta = tree("meta")?;
        for created in [Some(&*directory), directory.parent()].into_iter().flatten() {
            sync_directory(created).map_err(|error| opened(&error))?;
        }
        Ok(Self { blobs: data.blobs(), directory, db, processes, journal, documents, meta })
    }

    /// A tree of the database.
    pub(super) fn tree(&self, tree: TreeId) -> &sled::Tree {
        match tree {
            TreeId::Processes => &self.processes,
            TreeId::Journal => &self.journal,
            TreeId::Documents => &self.documents,
        }
    }

    /// Calls `on_record` with the key and the value of each record of a tree, in the order of keys.
    pub(super) fn for_each(
        &self,
        tree: TreeId,
        mut on_record: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for item in self.tree(tree) {
            let (key, value) = item.map_err(|error| self.failed(&error))?;
            on_record(&key, &value)?;
        }
        Ok(())
    }

    /// Writes a record that is framed already.
    pub(super) fn insert(&self, tree: TreeId, key: &[u8], framed: &[u8]) -> Result<(), Error> {
        self.tree(tree).insert(key, framed).map(drop).map_err(|error| self.failed(&error))
    }

    /// Sequence number of the last commit in the database, 0 if it has none. sled keeps a prefix of its log: the
    /// database has every record up to that number that no later one replaced.
    pub(super) fn last_commit(&self) -> Result<u64, Error> {
        let marker = self.meta.get(COMMIT_KEY).map_err(|error| self.failed(&error))?;
        Ok(marker.and_then(|marker| Some(u64::from_le_bytes((*marker).try_into().ok()?))).unwrap_or_default())
    }

    /// Marks everything that was written before as one commit.
    pub(super) fn set_last_commit(&self, sequence: u64) -> Result<(), Error> {
        let inserted = self.meta.insert(COMMIT_KEY, &sequence.to_le_bytes());
        inserted.map(drop).map_err(|error| self.failed(&error))
    }

    /// Marks everything that was written before as one commit, and writes it to the file. The caller syncs the file.
    pub(super) fn flush_commit(&self, sequence: u64) -> sled::Result<()> {
        self.meta.insert(COMMIT_KEY, &sequence.to_le_bytes())?;
        self.db.flush().map(drop)
    }

    /// File with all trees.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.join("db")
    }

    /// Writes all changes to the file. The caller syncs the file.
    pub(super) fn flush(&self) -> Result<(), Error> {
        self.db.flush().map(drop).map_err(|error| self.failed(&error))
    }

    /// The error that an error of sled causes.
    pub(super) fn failed(&self, error: &sled::Error) -> Error {
        failure(&self.directory, error)
    }

    /// The error of a database that failed permanently.
    pub(super) fn broken(&self, error: &dyn Display) -> Error {
        Error::Broken(format!("the database {} has failed: {error}", self.directory.display()))
    }

    /// Damage of a record in the database file.
    pub(super) fn damage(&self, record: u64, problem: impl Display) -> Damage {
        Damage { file: self.file().display().to_string(), record, problem: problem.to_string() }
    }

    /// Damage of a process record.
    pub(super) fn head_damage(&self, error: &DecodeError) -> Damage {
        self.damage(0, format_args!("its head cannot be read: {error}"))
    }

    /// Removes an entry of a journal. Returns the blobs that the entry referred to.
    pub(super) fn remove_entry(&self, process: u64, record: u64) -> sled::Result<Vec<BlobDigest>> {
        let key = journal_key(process, record);
        let Some(value) = self.journal.remove(key)? else { return Ok(Vec::new()) };
        let entry = decode::<JournalEntry>(TreeId::Journal, &key, &value);
        let payloads = entry.iter().flat_map(|entry| entry.record.payloads());
        Ok(payloads.filter_map(Payload::digest).collect())
    }

    /// Reads the record of a process. `None` if it does not exist.
    pub(super) fn process(&self, id: &str) -> Result<Option<Result<ProcessRecord, Damage>>, Error> {
        let value = self.processes.get(id).map_err(|error| self.failed(&error))?;
        Ok(value.map(|value| self.decode_process(id.as_bytes(), &value)))
    }

    /// Ids of processes that begin with a text and have no slash.
    pub(super) fn ids(&self, prefix: &str, max_items: usize) -> Result<Vec<String>, Error> {
        let mut ids = Vec::new();
        for key in self.processes.scan_prefix(prefix).keys() {
            if ids.len() >= max_items {
                break;
            }
            let key = key.map_err(|error| self.failed(&error))?;
            ids.extend(std::str::from_utf8(&key).ok().filter(|id| !id.contains('/')).map(str::to_owned));
        }
        Ok(ids)
    }

    fn decode_process(&self, key: &[u8], value: &[u8]) -> Result<ProcessRecord, Damage> {
        let decoded = decode(TreeId::Processes, key, value).map(|Numbered { record, .. }| record);
        decoded.map_err(|error| self.head_damage(&error))
    }

    fn payload(&self, record: u64, payload: Payload) -> Result<Bytes, Damage> {
        blobs::read(&self.blobs, payload).map_err(|error| Damage {
            file: error.path.display().to_string(),
            record,
            problem: error.problem.to_string(),
        })
    }

    /// Reads the journal of a process up to a record number. Recovery has checked that no entry is missing.
    pub(super) fn load(&self, id: &str, process: u64, next_record: u64) -> ReadResult<Journal> {
        let head = match self.process(id)? {
            Some(record) => record.and_then(|record| self.payload(0, record.head)),
            None => return Err(Error::Unknown(id.into())),
        };
        let entries = self.last_entries(process, next_record)?;
        Ok(head.and_then(|head| self.assemble(head, entries?)))
    }

    /// Reads the entries from the last snapshot on, each with the number of its first record, the last entry first.
    fn last_entries(&self, process: u64, next: u64) -> ReadResult<Vec<(u64, JournalEntry)>> {
        let mut entries = Vec::new();
        for item in self.journal.range(journal_key(process, 0)..journal_key(process, next)).rev() {
            let (key, value) = item.map_err(|error| self.failed(&error))?;
            let number = journal_numbers(&key).map_or(0, |(_, number)| number);
            match decode::<JournalEntry>(TreeId::Journal, &key, &value) {
                Ok(Numbered { record: entry, .. }) => {
                    let is_snapshot = matches!(entry, JournalEntry::Snapshot(_));
                    entries.push((number, entry));
                    if is_snapshot {
                        break;
                    }
                }
                Err(problem) => return Ok(Err(self.damage(number, problem))),
            }
        }
        Ok(Ok(entries))
    }

    /// Makes a journal of its entries, of which the last comes first.
    fn assemble(&self, head: Bytes, entries: Vec<(u64, JournalEntry)>) -> Result<Journal, Damage> {
        let mut journal = Journal { epoch: FIXED_EPOCH, head, snapshot: None, records: Vec::new() };
        let mut parts = BytesMut::new();
        for (number, entry) in entries.into_iter().rev() {
            match entry {
                JournalEntry::Snapshot(payload) => journal.snapshot = Some(self.payload(number, payload)?),
                JournalEntry::Records(records) => {
                    for (number, payload) in (number..).zip(records) {
                        let Payload::Part { first, last, bytes } = payload else {
                            journal.records.push(self.payload(number, payload)?);
                            continue;
                        };
                        if first {
                            parts.clear();
                        }
                        parts.extend_from_slice(&bytes);
                        if last {
                            journal.records.push(parts.split().freeze());
                        }
                    }
                }
            }
        }
        Ok(journal)
    }

    /// Reads all processes, without the facts that only the index has. A process that cannot be read is empty.
    pub(super) fn list(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for item in &self.processes {
            let (key, value) = item.map_err(|error| self.failed(&error))?;
            let id = String::from_utf8_lossy(&key).into_owned();
            let entry = self.decode_process(&key, &value).and_then(|record| self.entry(&id, record));
            entries.push(entry.unwrap_or_else(|_| unreadable_entry(&id)));
        }
        Ok(entries)
    }

    /// Reads a process, without the facts that only the index has.
    pub(super) fn find(&self, id: &str) -> Result<Option<Result<Entry, Damage>>, Error> {
        Ok(self.process(id)?.map(|record| record.and_then(|record| self.entry(id, record))))
    }

    fn entry(&self, id: &str, record: ProcessRecord) -> Result<Entry, Damage> {
        Ok(Entry {
            process: id.into(),
            head: self.payload(0, record.head)?,
            summary: record.summary.map(|summary| self.payload(0, summary)).transpose()?,
            owner: record.owner,
            size: 0,
            epoch: FIXED_EPOCH,
            number: record.number,
        })
    }

    /// Reads the documents of a kind. Leaves out documents that cannot be read; their owner can put them again.
    pub(super) fn documents_of(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        let prefix = document_key(kind, "");
        let mut documents = Vec::new();
        for item in self.documents.scan_prefix(&prefix) {
            let (key, value) = item.map_err(|error| self.failed(&error))?;
            let name = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
            if let Some(document) = self.decode_document(&name, &key, &value) {
                documents.push((name, document));
            }
        }
        Ok(documents)
    }

    /// Reads a document. `None` if it does not exist or cannot be read.
    pub(super) fn document(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        let full_key = document_key(kind, key);
        let value = self.documents.get(&full_key).map_err(|error| self.failed(&error))?;
        Ok(value.and_then(|value| self.decode_document(key, &full_key, &value)))
    }

    fn decode_document(&self, name: &str, key: &[u8], value: &[u8]) -> Option<Bytes> {
        let payload = decode(TreeId::Documents, key, value).map_err(|problem| self.damage(0, problem));
        match payload.and_then(|payload| self.payload(0, payload.record)) {
            Ok(document) => Some(document),
            Err(Damage { file, problem, .. }) => {
                tracing::error!(document = name, file, problem, "document damaged");
                None
            }
        }
    }
}

/// A process of which nothing can be read.
pub(super) fn unreadable_entry(id: &str) -> Entry {
    let (process, owner) = (id.to_owned(), String::new());
    Entry { process, head: Bytes::new(), summary: None, owner, size: 0, epoch: FIXED_EPOCH, number: 0 }
}

/// Waits until a database that this program dropped a moment ago releases its lock on the file. The lock of the data
/// directory keeps other programs away, so sled can take the lock afterwards.
fn wait_until_unlocked(file: &Path) -> io::Result<()> {
    let file = match File::open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return file.unlock(),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => std::thread::sleep(LOCK_RETRY_INTERVAL),
            Err(error) => return Err(error.into()),
        }
    }
}
