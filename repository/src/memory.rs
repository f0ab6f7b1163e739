//! The store that ends with the program. For nodes without a data directory, and for tests.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::{Error, check_name};
use crate::names::random_name;
use crate::places::{page_places, take_page};
use crate::repository::{Claimed, Entry, FIXED_EPOCH, Journal, PageRequest, Place, Repository};

/// Journals and documents in maps.
pub(crate) struct MemoryStore {
    realm: String,
    /// `None` after the store was shut down.
    contents: Mutex<Option<Contents>>,
}

#[derive(Default)]
struct Contents {
    processes: BTreeMap<String, MemoryProcess>,
    /// All processes in the order of creation.
    places: BTreeSet<Place>,
    /// Number of processes that were created.
    created: u64,
    /// By kind and key.
    documents: BTreeMap<(String, String), Bytes>,
}

struct MemoryProcess {
    number: u64,
    journal: Journal,
    summary: Option<Bytes>,
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        Self { realm: random_name(), contents: Mutex::new(Some(Contents::default())) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Contents) -> Result<T, Error>) -> Result<T, Error> {
        match self.contents.lock().as_mut() {
            Some(contents) => act(contents),
            None => Err(Error::ended()),
        }
    }
}

impl Contents {
    fn running(&mut self, process: &str) -> Result<&mut MemoryProcess, Error> {
        self.processes
            .get_mut(process)
            .filter(|found| found.summary.is_none())
            .ok_or_else(|| Error::Unknown(process.into()))
    }

    fn close(&mut self, process: &str, summary: Bytes) -> Result<(), Error> {
        let found = self.running(process)?;
        found.summary = Some(summary);
        found.journal.snapshot = None;
        found.journal.records = Vec::new();
        Ok(())
    }
}

impl MemoryProcess {
    fn entry(&self, process: &str) -> Entry {
        let Journal { head, snapshot, records, .. } = &self.journal;
        let parts = records.iter().chain(snapshot).chain(&self.summary).chain([head]);
        Entry {
            process: process.into(),
            head: head.clone(),
            summary: self.summary.clone(),
            owner: String::new(),
            size: parts.map(|part| part.len() as u64).sum(),
            epoch: FIXED_EPOCH,
            number: self.number,
        }
    }
}

#[async_trait]
impl Repository for MemoryStore {
    fn realm(&self) -> &str {
        &self.realm
    }

    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        check_name(process)?;
        self.with(|contents| {
            if contents.processes.contains_key(process) {
                return Err(Error::Exists(process.into()));
            }
            let journal = Journal { epoch: FIXED_EPOCH, head, snapshot: None, records: Vec::new() };
            contents.created += 1;
            let number = contents.created;
            contents.places.insert(Place { number, process: process.into() });
            contents.processes.insert(process.into(), MemoryProcess { number, journal, summary: None });
            Ok(FIXED_EPOCH)
        })
    }

    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        self.with(|contents| {
            contents.running(process)?.journal.records.push(record);
            Ok(())
        })
    }

    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        self.with(|contents| {
            let journal = &mut contents.running(process)?.journal;
            journal.snapshot = Some(snapshot);
            journal.records = Vec::new();
            Ok(())
        })
    }

    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error> {
        self.with(|contents| contents.close(process, summary))
    }

    async fn close_with(
        &self,
        process: &str,
        summary: Bytes,
        kind: &str,
        document: Option<Bytes>,
    ) -> Result<(), Error> {
        check_name(kind)?;
        self.with(|contents| {
            contents.close(process, summary)?;
            let key = (kind.to_owned(), process.to_owned());
            match document {
                Some(document) => drop(contents.documents.insert(key, document)),
                None => drop(contents.documents.remove(&key)),
            }
            Ok(())
        })
    }

    async fn reopen(&self, process: &str, summary: &Bytes, snapshot: Bytes) -> Result<u64, Error> {
        self.with(|contents| {
            let found = contents.processes.get_mut(process).filter(|found| found.summary.as_ref() == Some(summary));
            let found = found.ok_or_else(|| Error::Unknown(process.into()))?;
            found.summary = None;
            found.journal.snapshot = Some(snapshot);
            Ok(FIXED_EPOCH)
        })
    }

    async fn claim(&self) -> Result<Claimed, Error> {
        self.with(|_| Ok(Claimed::default()))
    }

    async fn load(&self, process: &str) -> Result<Journal, Error> {
        self.with(|contents| Ok(contents.running(process)?.journal.clone()))
    }

    async fn list(&self) -> Result<Vec<Entry>, Error> {
        self.with(|contents| Ok(contents.processes.iter().map(|(id, found)| found.entry(id)).collect()))
    }

    async fn page(&self, request: &PageRequest) -> Result<Vec<Entry>, Error> {
        self.with(|contents| {
            let places = page_places(&contents.places, request.after.as_ref(), request.newest_first);
            let processes = places.filter_map(|place| Some((place, contents.processes.get(&place.process)?)));
            let wanted = processes.filter(|(_, process)| !request.unfinished || process.summary.is_none());
            take_page(wanted.map(|(place, process)| Ok(process.entry(&place.process))), request)
        })
    }

    async fn ids(&self, prefix: &str, max_items: usize) -> Result<Vec<String>, Error> {
        self.with(|contents| {
            let ids = contents.processes.range(prefix.to_owned()..).map(|(id, _)| id);
            let found = ids.take_while(|id| id.starts_with(prefix)).filter(|id| !id.contains('/'));
            Ok(found.take(max_items).cloned().collect())
        })
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        self.with(|contents| Ok(contents.processes.get(process).map(|found| found.entry(process))))
    }

    async fn forget(&self, processes: &[String]) -> Result<Vec<String>, Error> {
        self.with(|contents| {
            let mut running = Vec::new();
            for process in processes {
                let Some(MemoryProcess { number, summary, .. }) = contents.processes.get(process) else { continue };
                if summary.is_none() {
                    running.push(process.clone());
                    continue;
                }
                contents.places.remove(&Place { number: *number, process: process.clone() });
                contents.processes.remove(process);
            }
            Ok(running)
        })
    }

    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        check_name(kind)?;
        check_name(key)?;
        self.with(|contents| {
            contents.documents.insert((kind.into(), key.into()), document);
            Ok(())
        })
    }

    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        self.with(|contents| Ok(contents.documents.get(&(kind.into(), key.into())).cloned()))
    }

    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        self.with(|contents| {
            let from = (kind.to_owned(), String::new());
            let found = contents.documents.range(from..).take_while(|((of, _), _)| of == kind);
            Ok(found.map(|((_, key), document)| (key.clone(), document.clone())).collect())
        })
    }

    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        self.with(|contents| {
            contents.documents.remove(&(kind.into(), key.into()));
            Ok(())
        })
    }

    async fn shut_down(&self) {
        *self.contents.lock() = None;
    }
}
