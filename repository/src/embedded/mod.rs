//! The store in a folder of this machine.
//!
//! In the folder are `format`, `realm`, `lock`, the database of sled in `db`, and large payloads in `blobs`. The database
//! has three trees: `processes` (a record for each process, under its id), `journal` (under a number of the process and
//! of the record), and `documents`. Whatever has to be atomic is one record, because several in one batch are not.
//!
//! One thread, the [committer], makes all changes.

mod blobs;
mod committer;
mod folder;
mod index;
mod record;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use self::blobs::Blobs;
use self::folder::{Folder, sync_folder};
use self::index::{Damage, Index};
use self::record::{Digest, Entry as Record, Payload, Process, decode, journal_key};
use crate::requests::{Change, Queue, Request, ended};
use crate::{Claimed, EPOCH, Entry, Error, Journal, Repository, check_name};

/// sled lets go of a database some time after it was dropped, at the latest.
const UNLOCKED_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// A handle: the committer does the work.
pub(crate) struct Embedded {
    realm: String,
    queue: Queue,
    opened: Arc<Opened>,
}

/// What readers share with the committer.
struct Opened {
    /// Until the end. Whoever reads keeps it from being closed.
    files: RwLock<Option<Files>>,
    index: Mutex<Index>,
}

impl Opened {
    /// What is in it is right after each step of a change, so it is even after a panic.
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The database.
#[derive(Clone)]
struct Files {
    database: PathBuf,
    blobs: PathBuf,
    db: sled::Db,
    processes: sled::Tree,
    journal: sled::Tree,
    documents: sled::Tree,
}

impl Embedded {
    pub(crate) async fn open(folder: &Path, node: &str) -> Result<Self, Error> {
        let (folder, node) = (folder.to_owned(), node.to_owned());
        blocking(move || Self::open_now(&folder, node)).await
    }

    fn open_now(folder: &Path, node: String) -> Result<Self, Error> {
        let folder = Folder::open(folder)?;
        let files = Files::open(&folder)?;
        let mut blobs = Blobs::open(folder.blobs()).map_err(|error| files.broken(&error))?;
        let (index, next_number) = index::read(&files, &mut blobs)?;
        let opened = Arc::new(Opened { files: RwLock::new(Some(files.clone())), index: Mutex::new(index) });
        let realm = folder.realm.clone();
        let (queue, requests) = Queue::new();
        committer::start(folder, files, blobs, next_number, node, opened.clone(), requests)?;
        Ok(Self { realm, queue, opened })
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Files, &Opened) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let opened = self.opened.clone();
        blocking(move || match &*opened.files.read().unwrap_or_else(PoisonError::into_inner) {
            Some(files) => read(files, &opened),
            None => Err(ended()),
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Broken(error.to_string())))
}

impl Files {
    fn open(folder: &Folder) -> Result<Self, Error> {
        let database = folder.database();
        let failed = |error: &dyn Display| {
            Error::Broken(format!(
                "the database {} cannot be opened: {error}; if this stays, restore the data directory from a backup",
                database.display()
            ))
        };
        // sled does not open a database in which it has been killed while it wrote one of these.
        for file in std::fs::read_dir(&database).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "generating") {
                std::fs::remove_file(file.path()).map_err(|error| failed(&error))?;
            }
        }
        let config = sled::Config::new()
            .path(&database)
            .use_compression(false)
            .cache_capacity(64 * 1024 * 1024)
            .segment_size(2 * 1024 * 1024)
            .flush_every_ms(None);
        let began = std::time::Instant::now();
        let db = loop {
            match config.open() {
                Ok(db) => break db,
                // The folder is ours: this is the lock of a database that was dropped in this program a moment ago.
                Err(sled::Error::Io(error))
                    if error.to_string().contains("acquire lock") && began.elapsed() < UNLOCKED_WITHIN =>
                {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                Err(error) => return Err(failed(&error)),
            }
        };
        let tree = |name| db.open_tree(name).map_err(|error| failed(&error));
        let (processes, journal, documents) = (tree("processes")?, tree("journal")?, tree("documents")?);
        for made in [Some(&*database), database.parent()].into_iter().flatten() {
            sync_folder(made).map_err(|error| failed(&error))?;
        }
        Ok(Self { blobs: folder.blobs(), database, db, processes, journal, documents })
    }

    /// The database does not work any more.
    fn broken(&self, error: &dyn Display) -> Error {
        Error::Broken(format!("the database {} has failed: {error}", self.database.display()))
    }

    /// Something is wrong in the file of the database.
    fn damage(&self, record: u64, problem: String) -> Damage {
        Damage { file: self.database.join("db").display().to_string(), record, problem }
    }

    /// Removes an entry of a journal; gives the blobs to which it referred.
    fn remove_entry(&self, process: u64, record: u64) -> Result<Vec<Digest>, Error> {
        let key = journal_key(process, record);
        let Some(value) = self.journal.remove(key).map_err(|error| self.broken(&error))? else { return Ok(Vec::new()) };
        let entry = decode::<Record>(&key, &value);
        Ok(entry.iter().flat_map(Record::payloads).filter_map(Payload::digest).collect())
    }

    fn process(&self, id: &str) -> Result<Option<Result<Process, Damage>>, Error> {
        let value = self.processes.get(id).map_err(|error| self.broken(&error))?;
        Ok(value.map(|value| self.decode_process(id.as_bytes(), &value)))
    }

    fn decode_process(&self, key: &[u8], value: &[u8]) -> Result<Process, Damage> {
        decode(key, value).map_err(|problem| self.damage(0, format!("its head cannot be read: {problem}")))
    }

    fn payload(&self, record: u64, payload: Payload) -> Result<Bytes, Damage> {
        blobs::read(&self.blobs, payload).map_err(|(file, problem)| Damage {
            file: file.display().to_string(),
            record,
            problem,
        })
    }

    /// The journal up to this number. The index has made sure that no entry is missing.
    fn load(&self, id: &str, process: u64, next: u64) -> Result<Result<Journal, Damage>, Error> {
        let head = match self.process(id)? {
            Some(Ok(found)) => self.payload(0, found.head),
            Some(Err(damage)) => Err(damage),
            None => return Err(Error::Unknown(id.into())),
        };
        let mut journal = match head {
            Ok(head) => Journal { epoch: EPOCH, head, snapshot: None, records: Vec::new() },
            Err(damage) => return Ok(Err(damage)),
        };
        let mut entries = Vec::new();
        for item in self.journal.range(journal_key(process, 0)..journal_key(process, next)).rev() {
            let (key, value) = item.map_err(|error| self.broken(&error))?;
            let number = record::journal_numbers(&key).map_or(0, |(_, number)| number);
            match decode::<Record>(&key, &value) {
                Ok(entry) => {
                    let last = matches!(entry, Record::Snapshot(_));
                    entries.push((number, entry));
                    if last {
                        break;
                    }
                }
                Err(problem) => return Ok(Err(self.damage(number, problem))),
            }
        }
        let mut parts = BytesMut::new();
        for (number, entry) in entries.into_iter().rev() {
            let read = match entry {
                Record::Snapshot(payload) => self.payload(number, payload).map(|read| journal.snapshot = Some(read)),
                Record::Records(records) => (number..).zip(records).try_for_each(|(number, payload)| {
                    if let Payload::Part { first, last, bytes } = payload {
                        if first {
                            parts.clear();
                        }
                        parts.extend_from_slice(&bytes);
                        if last {
                            journal.records.push(parts.split().freeze());
                        }
                        return Ok(());
                    }
                    self.payload(number, payload).map(|read| journal.records.push(read))
                }),
            };
            if let Err(damage) = read {
                return Ok(Err(damage));
            }
        }
        Ok(Ok(journal))
    }

    /// A process as anybody may see it, without what only the index knows.
    fn entry(&self, id: &str, found: Result<Process, Damage>) -> Result<Entry, Damage> {
        let found = found?;
        Ok(Entry {
            process: id.into(),
            head: self.payload(0, found.head)?,
            summary: found.summary.map(|summary| self.payload(0, summary)).transpose()?,
            owner: found.owner,
            size: 0,
        })
    }
}

/// Fills in what only the index knows; nothing if the process has gone meanwhile.
fn complete(index: &Index, mut entry: Entry) -> Option<Entry> {
    let slot = index.get(&entry.process)?;
    entry.owner.clone_from(&slot.owner);
    entry.size = slot.own_size + slot.journal_size;
    Some(entry)
}

#[async_trait]
impl Repository for Embedded {
    fn realm(&self) -> &str {
        &self.realm
    }

    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        check_name(process)?;
        self.queue.create(process, head).await
    }

    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        self.queue.change(Change::Append(process.into(), record)).await
    }

    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        self.queue.change(Change::Compact(process.into(), snapshot)).await
    }

    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error> {
        self.queue.change(Change::Close(process.into(), summary)).await
    }

    async fn claim(&self) -> Result<Claimed, Error> {
        self.queue.ask(Request::Claim).await
    }

    async fn load(&self, process: &str) -> Result<Journal, Error> {
        self.queue.ask(|answer| Request::Load(process.into(), answer)).await
    }

    async fn list(&self) -> Result<Vec<Entry>, Error> {
        self.read(|files, opened| {
            let mut entries = Vec::new();
            for item in &files.processes {
                let (key, value) = item.map_err(|error| files.broken(&error))?;
                let id = String::from_utf8_lossy(&key).into_owned();
                entries.push(files.entry(&id, files.decode_process(&key, &value)).unwrap_or_else(|_| Entry {
                    process: id,
                    head: Bytes::new(),
                    summary: None,
                    owner: String::new(),
                    size: 0,
                }));
            }
            let index = opened.index();
            Ok(entries.into_iter().filter_map(|entry| complete(&index, entry)).collect())
        })
        .await
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        let process = process.to_owned();
        self.read(move |files, opened| {
            let Some(found) = files.process(&process)? else { return Ok(None) };
            let entry = files.entry(&process, found);
            let index = opened.index();
            match entry {
                Ok(entry) => Ok(complete(&index, entry)),
                Err(damage) if index.contains_key(&process) => Err(damage.error(&process)),
                Err(_) => Ok(None),
            }
        })
        .await
    }

    async fn forget(&self, processes: &[String]) -> Result<(), Error> {
        self.queue.change(Change::Forget(processes.to_vec())).await
    }

    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        check_name(kind)?;
        check_name(key)?;
        self.queue.change(Change::Put(kind.into(), key.into(), document)).await
    }

    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        self.queue.ask(|answer| Request::Get(kind.into(), key.into(), answer)).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        // By the committer, which would otherwise remove blobs of documents while they are read.
        self.queue.ask(|answer| Request::Documents(kind.into(), answer)).await
    }

    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        self.queue.change(Change::Remove(kind.into(), key.into())).await
    }

    async fn shut_down(&self) {
        self.queue.shut_down().await;
    }
}
