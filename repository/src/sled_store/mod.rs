//! The store in a directory of this machine, with the embedded database sled.
//!
//! The directory contains `format`, `realm`, `lock`, the database in `db`, and large payloads in `blobs`. The database has
//! three trees: `processes` (one record for each process, under its id), `journal` (under the numbers of the process and
//! the record) and `documents`. Every atomic change is one record, because a batch of several records is not atomic.
//!
//! | module | is about |
//! |---|---|
//! | `committer` | the thread that makes all changes |
//! | `writer` | how it makes them |
//! | `open_database` | the database as readers and committer share it |
//! | `database` | opening sled and reading from it |
//! | `recovery` | building the index when the store opens |
//! | `index` | the facts about processes in memory |
//! | `blobs` | files for large payloads |
//! | `record` | records and keys in sled |
//! | `frame` | the checksum around every record |
//! | `data_directory` | lock, format and free space of the directory |

mod blobs;
mod committer;
mod data_directory;
mod database;
mod frame;
mod index;
mod open_database;
mod record;
mod recovery;
mod writer;

use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;

use self::blobs::Blobs;
use self::data_directory::DataDirectory;
use self::database::Database;
use self::index::RecordIndex;
use self::open_database::{OpenDatabase, blocking};
use self::recovery::{Recovered, recover};
use self::writer::Writer;
use crate::error::{Error, check_name};
use crate::handle::CommitterHandle;

use crate::repository::{Claimed, Entry, Journal, Repository};

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
        let directory = DataDirectory::open(directory)?;
        let database = Database::open(&directory)?;
        let mut blobs = Blobs::open(directory.blobs()).map_err(|error| database.broken(&error))?;
        let Recovered { index, next_number } = recover(&database, &mut blobs)?;
        let realm = directory.realm.clone();
        let opened = OpenDatabase::new(database.clone(), index);
        let writer = Writer::new(directory, database, blobs, next_number, node, opened.index.clone())?;
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
    Some(entry)
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
        self.committer.close(process, summary).await
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
                Ok(entries.into_iter().filter_map(|entry| complete(&index, entry)).collect())
            })
            .await
    }

    async fn list_after(&self, after: &str, max_bytes: usize) -> Result<Vec<Entry>, Error> {
        let after = after.to_owned();
        self.opened
            .read(move |database, index| {
                let mut ids: Vec<String> = index.lock().keys().filter(|id| **id > after).cloned().collect();
                ids.sort();
                let (mut entries, mut bytes) = (Vec::new(), 0);
                for process in ids {
                    let found = database.find(&process)?.and_then(Result::ok);
                    let entry = found.unwrap_or_else(|| Entry { process, ..Entry::default() });
                    bytes += entry.head.len() + entry.summary.as_ref().map_or(0, Bytes::len);
                    entries.extend(complete(&index.lock(), entry));
                    if bytes >= max_bytes && !entries.is_empty() {
                        break;
                    }
                }
                Ok(entries)
            })
            .await
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        let process = process.to_owned();
        self.opened
            .read(move |database, index| {
                let Some(entry) = database.find(&process)? else { return Ok(None) };
                let index = index.lock();
                match entry {
                    Ok(entry) => Ok(complete(&index, entry)),
                    Err(damage) if index.contains_key(&process) => Err(damage.error(&process)),
                    Err(_) => Ok(None),
                }
            })
            .await
    }

    async fn forget(&self, processes: &[String]) -> Result<(), Error> {
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

    async fn shut_down(&self) {
        self.committer.shut_down().await;
    }
}
