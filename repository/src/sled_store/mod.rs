//! The store in a directory of this machine, with the embedded database sled.
//!
//! The directory contains `format`, `realm`, `lock`, the database in `db`, large payloads in `blobs`, and in `witness` what
//! the store has acknowledged. The database has the trees `processes` (one record for each process, under its id), `journal`
//! (under the numbers of the process and the record), `documents`, and `meta` (the number of the last commit). Every atomic
//! change is one record, because a batch of several records is not atomic.
//!
//! | module | is about |
//! |---|---|
//! | `committer` | the thread that makes all changes |
//! | `store_writer` | how it makes them |
//! | `shared_database` | the database as readers and committer share it |
//! | `database` | opening sled and reading from it |
//! | `open_store` | opening the store, whatever is damaged |
//! | `index_recovery` | building the index when the store opens |
//! | `reopening` | opening the store again after a failed write |
//! | `undo` | taking a batch back whose write failed |
//! | `witness` | the file that says what the store has acknowledged |
//! | `evidence` | what the witness proves about the records of the database |
//! | `inspection` | check and repair of a store that no node uses |
//! | `backup` | backups: one file with all records and blobs |
//! | `salvage` | finding records in a damaged database file |
//! | `store_failure` | errors of sled and of the system |
//! | `record_index` | the facts about processes in memory |
//! | `blobs` | files for large payloads |
//! | `record` | records and keys in sled |
//! | `fuzzing` | checks of the readers, for fuzzers |
//! | `frame` | the checksum around every record |
//! | `store_directory` | lock, format and free space of the directory |

mod backup;
mod blobs;
mod committer;
mod database;
mod evidence;
mod frame;
pub mod fuzzing;
mod index_recovery;
mod inspection;
mod open_store;
mod record;
mod record_index;
mod reopening;
mod salvage;
mod shared_database;
mod store_directory;
mod store_failure;
mod store_writer;
mod undo;
mod witness;

use std::collections::BTreeMap;
use std::fs::File;
use std::iter;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use self::database::Database;
use self::record_index::RecordIndex;
use self::shared_database::{OpenDatabase, blocking};
use self::store_directory::DataDirectory;
use self::store_writer::Writer;
use crate::committer_handle::{CommitterHandle, EndDocument};
use crate::error::{Error, check_name};

use crate::places::take_page;
use crate::repository::{Claimed, Entry, Journal, PageRequest, Place, Repository};

pub use self::backup::BackupContent;
pub use self::inspection::Inspection;

/// Finds out what is damaged in a store, and changes nothing.
pub(crate) async fn check(directory: &Path) -> Result<Inspection, Error> {
    let directory = directory.to_owned();
    blocking(move || inspection::check(&directory)).await
}

/// Saves what can be read of a store, and says what is damaged.
pub(crate) async fn repair(directory: &Path) -> Result<Inspection, Error> {
    let directory = directory.to_owned();
    blocking(move || inspection::repair(&directory)).await
}

/// Makes a store of a backup.
pub(crate) async fn restore(backup: &Path, directory: &Path) -> Result<BackupContent, Error> {
    let (backup, directory) = (backup.to_owned(), directory.to_owned());
    blocking(move || backup::restore(&backup, &directory)).await
}

/// The store in sled. The committer makes its changes.
pub(crate) struct SledStore {
    realm: String,
    committer: CommitterHandle,
    opened: OpenDatabase,
}

impl SledStore {
    pub(crate) async fn open(directory: &Path, node: &str) -> Result<Self, Error> {
        let (directory, node) = (directory.to_owned(), node.to_owned());
        blocking(move || Self::open_blocking(&directory, node)).await
    }

    fn open_blocking(directory: &Path, node: String) -> Result<Self, Error> {
        let mut directory = DataDirectory::open(directory)?;
        let opened = open_store::open(&mut directory)?;
        let realm = directory.realm.clone();
        let database = opened.database.clone();
        let writer = Writer::new(directory, opened, node)?;
        let opened = OpenDatabase::new(database, writer.index());
        let (committer, requests) = CommitterHandle::new();
        committer::start(writer, opened.clone(), requests)?;
        Ok(Self { realm, committer, opened })
    }
}

/// Adds the facts that only the index has. `None` if the process was removed meanwhile.
fn complete(index: &RecordIndex, mut entry: Entry) -> Option<Entry> {
    let indexed = index.get(&entry.process)?;
    entry.owner.clone_from(&indexed.owner);
    entry.size = indexed.record_size + indexed.journal_size;
    entry.number = indexed.mark.number;
    if indexed.damage.is_some() {
        // A summary, if there is one, may not be the last word.
        entry.summary = None;
    }
    Some(entry)
}

/// Reads a process of the index. `None` if it was removed meanwhile.
fn read_place(database: &Database, index: &Mutex<RecordIndex>, place: &Place) -> Result<Option<Entry>, Error> {
    let entry = database.find(&place.process)?;
    let index = index.lock();
    let is_damaged = index.get(&place.process).is_some_and(|indexed| indexed.damage.is_some());
    let entry = match entry {
        Some(Ok(entry)) => entry,
        // The record of a damaged process may be missing.
        None if !is_damaged => return Ok(None),
        Some(Err(_)) | None => database::unreadable_entry(&place.process),
    };
    Ok(complete(&index, entry))
}

#[async_trait]
impl Repository for SledStore {
    fn realm(&self) -> &str {
        &self.realm
    }

    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        check_name(process)?;
        self.committer.create(process, head).await
    }

    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        self.committer.append(process, record).await
    }

    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        self.committer.compact(process, snapshot).await
    }

    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error> {
        self.committer.close(process, summary, None).await
    }

    async fn close_with(
        &self,
        process: &str,
        summary: Bytes,
        kind: &str,
        document: Option<Bytes>,
    ) -> Result<(), Error> {
        check_name(kind)?;
        let document = EndDocument { kind: kind.into(), content: document };
        self.committer.close(process, summary, Some(document)).await
    }

    async fn reopen(&self, process: &str, summary: &Bytes, snapshot: Bytes) -> Result<u64, Error> {
        self.committer.reopen(process, summary, snapshot).await
    }

    async fn claim(&self) -> Result<Claimed, Error> {
        self.committer.claim().await
    }

    async fn load(&self, process: &str) -> Result<Journal, Error> {
        self.committer.load(process).await
    }

    async fn list(&self) -> Result<Vec<Entry>, Error> {
        self.opened
            .read(|database, index| {
                let entries = database.list()?;
                let index = index.lock();
                let mut listed: BTreeMap<_, _> =
                    entries.into_iter().map(|entry| (entry.process.clone(), entry)).collect();
                for (process, _) in index.iter().filter(|(_, indexed)| indexed.damage.is_some()) {
                    // The record of a damaged process may be missing.
                    listed.entry(process.clone()).or_insert_with(|| database::unreadable_entry(process));
                }
                Ok(listed.into_values().filter_map(|entry| complete(&index, entry)).collect())
            })
            .await
    }

    async fn page(&self, request: &PageRequest) -> Result<Vec<Entry>, Error> {
        let request = request.clone();
        self.opened
            .read(move |database, index| {
                let mut after = request.after.clone();
                // One place at a time, so that the committer waits for none of the reads.
                let places = iter::from_fn(|| {
                    let next = index.lock().next_place(after.as_ref(), request.newest_first, request.unfinished)?;
                    after = Some(next.0.clone());
                    Some(next)
                });
                let places = places.filter_map(|(place, is_wanted)| is_wanted.then_some(place));
                take_page(places.filter_map(|place| read_place(database, index, &place).transpose()), &request)
            })
            .await
    }

    async fn ids(&self, prefix: &str, max_items: usize) -> Result<Vec<String>, Error> {
        let prefix = prefix.to_owned();
        self.opened.read(move |database, _| database.ids(&prefix, max_items)).await
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        let process = process.to_owned();
        self.opened
            .read(move |database, index| {
                let entry = database.find(&process)?;
                let index = index.lock();
                let Some(indexed) = index.get(&process) else { return Ok(None) };
                match (&indexed.damage, entry) {
                    (Some(damage), _) => Err(damage.error(&process)),
                    (None, Some(entry)) => match entry {
                        Ok(entry) => Ok(complete(&index, entry)),
                        Err(damage) => Err(damage.error(&process)),
                    },
                    (None, None) => Ok(None),
                }
            })
            .await
    }

    async fn forget(&self, processes: &[String]) -> Result<Vec<String>, Error> {
        self.committer.forget(processes.to_vec()).await
    }

    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        check_name(kind)?;
        check_name(key)?;
        self.committer.put(kind, key, document).await
    }

    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        self.committer.get(kind, key).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        // The committer reads documents, because it would otherwise remove their blobs during the read.
        self.committer.documents(kind).await
    }

    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        self.committer.remove(kind, key).await
    }

    async fn backup(&self) -> Result<File, Error> {
        self.committer.backup().await
    }

    async fn shut_down(&self) {
        self.committer.shut_down().await;
    }
}
