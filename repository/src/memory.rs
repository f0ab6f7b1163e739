//! The store that ends with the program.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Claimed, EPOCH, Entry, Error, Journal, Repository, check_name, random_name};

/// Everything in two maps.
pub(crate) struct Memory {
    realm: String,
    /// Nothing is left of it after the end.
    state: Mutex<Option<State>>,
}

#[derive(Default)]
struct State {
    processes: BTreeMap<String, Process>,
    documents: BTreeMap<(String, String), Bytes>,
}

struct Process {
    journal: Journal,
    summary: Option<Bytes>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self { realm: random_name(), state: Mutex::new(Some(State::default())) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        match self.lock().as_mut() {
            Some(state) => act(state),
            None => Err(Error::Broken("the repository has been shut down".into())),
        }
    }

    /// Every change of the state is made at once, so it is whole even after a panic.
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn running(&mut self, process: &str) -> Result<&mut Process, Error> {
        self.processes
            .get_mut(process)
            .filter(|found| found.summary.is_none())
            .ok_or_else(|| Error::Unknown(process.into()))
    }
}

impl Process {
    fn entry(&self, process: &str) -> Entry {
        let Journal { head, snapshot, records, .. } = &self.journal;
        let parts = records.iter().chain(snapshot).chain(&self.summary).chain([head]);
        Entry {
            process: process.into(),
            head: head.clone(),
            summary: self.summary.clone(),
            owner: String::new(),
            size: parts.map(|part| part.len() as u64).sum(),
        }
    }
}

#[async_trait]
impl Repository for Memory {
    fn realm(&self) -> &str {
        &self.realm
    }

    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        check_name(process)?;
        self.with(|state| {
            if state.processes.contains_key(process) {
                return Err(Error::Exists(process.into()));
            }
            let journal = Journal { epoch: EPOCH, head, snapshot: None, records: Vec::new() };
            state.processes.insert(process.into(), Process { journal, summary: None });
            Ok(EPOCH)
        })
    }

    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        self.with(|state| {
            state.running(process)?.journal.records.push(record);
            Ok(())
        })
    }

    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        self.with(|state| {
            let journal = &mut state.running(process)?.journal;
            journal.snapshot = Some(snapshot);
            journal.records = Vec::new();
            Ok(())
        })
    }

    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error> {
        self.with(|state| {
            let found = state.running(process)?;
            found.summary = Some(summary);
            found.journal.snapshot = None;
            found.journal.records = Vec::new();
            Ok(())
        })
    }

    async fn claim(&self) -> Result<Claimed, Error> {
        self.with(|_| Ok(Claimed::default()))
    }

    async fn load(&self, process: &str) -> Result<Journal, Error> {
        self.with(|state| Ok(state.running(process)?.journal.clone()))
    }

    async fn list(&self) -> Result<Vec<Entry>, Error> {
        self.with(|state| Ok(state.processes.iter().map(|(id, found)| found.entry(id)).collect()))
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        self.with(|state| Ok(state.processes.get(process).map(|found| found.entry(process))))
    }

    async fn forget(&self, processes: &[String]) -> Result<(), Error> {
        self.with(|state| {
            for process in processes {
                if state.processes.get(process).is_some_and(|found| found.summary.is_some()) {
                    state.processes.remove(process);
                }
            }
            Ok(())
        })
    }

    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        check_name(kind)?;
        check_name(key)?;
        self.with(|state| {
            state.documents.insert((kind.into(), key.into()), document);
            Ok(())
        })
    }

    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        self.with(|state| Ok(state.documents.get(&(kind.into(), key.into())).cloned()))
    }

    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        self.with(|state| {
            let from = (kind.to_owned(), String::new());
            let found = state.documents.range(from..).take_while(|((of, _), _)| of == kind);
            Ok(found.map(|((_, key), document)| (key.clone(), document.clone())).collect())
        })
    }

    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        self.with(|state| {
            state.documents.remove(&(kind.into(), key.into()));
            Ok(())
        })
    }

    async fn shut_down(&self) {
        *self.lock() = None;
    }
}
