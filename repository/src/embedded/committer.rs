//! The thread that makes all changes of the embedded store.
//!
//! It takes all requests that wait, makes their changes, has them written and synced once, and answers them all. While it
//! waits for the disk, more requests gather; so the slower the disk, the more share one write.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::blobs::INLINE;
use super::index::{Damage, Slot};
use super::record::{Digest, Entry, Payload, Process, decode, document_key, encode, journal_key, journal_numbers};
use super::{Blobs, Files, Folder, Index, Opened};
use crate::requests::{Change, Request, send};
use crate::{Claimed, EPOCH, Error, Journal};

/// After so many bytes of payloads a group is committed even if more requests wait.
const GROUP: u64 = 16 * 1024 * 1024;

/// Records of one process that are appended together become entries of about this size.
const ENTRY: usize = 16 * 1024;
/// Larger records of journals are blobs.
const IN_PARTS: usize = 1 << 20;

pub(super) fn start(
    folder: Folder,
    files: Files,
    blobs: Blobs,
    next_number: u64,
    node: String,
    opened: Arc<Opened>,
    requests: mpsc::Receiver<Request>,
) -> Result<(), Error> {
    let synced = File::open(files.database.join("db")).map_err(|error| files.broken(&error))?;
    let committer = Committer {
        folder,
        synced,
        files,
        blobs,
        next_number,
        node,
        opened,
        room: 0,
        appended: HashMap::new(),
        garbage: Vec::new(),
        changed: false,
    };
    std::thread::Builder::new()
        .name("committer".into())
        .spawn(move || committer.run(requests))
        .map_err(|error| Error::Broken(format!("no thread could be started: {error}")))?;
    Ok(())
}

struct Committer {
    folder: Folder,
    /// The file of the database once more: sled's own flush does not make it survive a loss of power.
    synced: File,
    files: Files,
    blobs: Blobs,
    /// For the next process.
    next_number: u64,
    node: String,
    opened: Arc<Opened>,

    // Of the current group:
    /// How many bytes may still be added.
    room: u64,
    /// Not in the database yet, by process.
    appended: HashMap<String, Vec<Payload>>,
    /// What has to go when the group is durable.
    garbage: Vec<Garbage>,
    changed: bool,
}

enum Garbage {
    /// The entries of the process with this number before this record.
    Entries(u64, u64),
    Blob(Digest),
}

impl Committer {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let ended = loop {
            let Some(first) = requests.blocking_recv() else { break None };
            match self.group(first, &mut requests) {
                Ok(None) => {}
                Ok(Some(ended)) => break Some(ended),
                Err(error) => {
                    tracing::error!(%error, "nothing can be kept any more");
                    break refuse_all(&error, &mut requests);
                }
            }
        };
        // Whoever reads still is waited for; then the database is closed and the folder given back.
        *self.opened.files.write().unwrap_or_else(PoisonError::into_inner) = None;
        drop(self);
        if let Some(answer) = ended {
            // Nobody waits any more if this fails.
            let _ = answer.send(());
        }
    }

    /// Carries out what waits. Gives who waits for the end, if it is to end; an error if nothing works any more.
    fn group(
        &mut self,
        first: Request,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Result<Option<oneshot::Sender<()>>, Error> {
        self.room = self.folder.room().unwrap_or_else(|error| {
            tracing::warn!(%error, "it is unknown how much room is on the disk");
            u64::MAX
        });
        let mut changes = Vec::new();
        let mut bytes = 0;
        let mut ended = None;
        let mut broken = None;
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Change(change, answer) => {
                    bytes += change.adds().unwrap_or_default();
                    let result = self.change(change);
                    broken = fatal(&result);
                    changes.push((answer, result));
                }
                Request::Claim(answer) => send(answer, Ok(Claimed { gained: self.claim(), lost: Vec::new() })),
                Request::Load(process, answer) => {
                    let result = self.load(&process);
                    broken = fatal(&result);
                    send(answer, result);
                }
                Request::Get(kind, key, answer) => send(answer, self.document(&kind, &key)),
                Request::Documents(kind, answer) => send(answer, self.documents(&kind)),
                Request::ShutDown(answer) => ended = Some(answer),
            }
            let enough = bytes > GROUP || ended.is_some() || broken.is_some();
            next = if enough { None } else { requests.try_recv().ok() };
        }
        let committed = broken.map_or_else(|| self.commit(), Err);
        for (answer, result) in changes {
            send(answer, result.and_then(|()| committed.clone()).map(|()| EPOCH));
        }
        committed?;
        self.clean()?;
        if ended.is_some() {
            self.commit()?;
        }
        Ok(ended)
    }

    /// Makes a change, so far not durably.
    fn change(&mut self, change: Change) -> Result<(), Error> {
        if let Some(bytes) = change.adds() {
            self.room = self.room.checked_sub(bytes).ok_or_else(|| self.folder.full(bytes))?;
        }
        let opened = self.opened.clone();
        let index = &mut *opened.index();
        match change {
            Change::Create(id, head) => {
                if index.contains_key(&id) {
                    return Err(Error::Exists(id));
                }
                let number = self.next_number;
                self.next_number += 1;
                let head = self.keep(head)?;
                let process = Process { number, owner: self.node.clone(), head, summary: None };
                let own_size = self.write_process(&id, &process)?;
                let owner = process.owner;
                index.insert(id, Slot { number, owner, running: true, ours: true, own_size, ..Slot::default() });
            }
            Change::Append(id, record) => {
                running(index, &id)?;
                let parts = self.parts(record)?;
                self.appended.entry(id).or_default().extend(parts);
            }
            Change::Compact(id, snapshot) => {
                let slot = running(index, &id)?;
                let snapshot = self.keep(snapshot)?;
                self.drop_appended(&id);
                self.garbage.push(Garbage::Entries(slot.number, slot.next));
                slot.journal_size = 0;
                self.write_entry(slot, &Entry::Snapshot(snapshot))?;
            }
            Change::Close(id, summary) => {
                let slot = running(index, &id)?;
                let mut process = match self.files.process(&id)? {
                    Some(Ok(process)) => process,
                    Some(Err(damage)) => return Err(slot.damage.insert(damage).error(&id)),
                    None => return Err(Error::Unknown(id)),
                };
                process.summary = Some(self.keep(summary)?);
                process.owner.clone_from(&slot.owner);
                self.drop_appended(&id);
                self.garbage.push(Garbage::Entries(slot.number, u64::MAX));
                slot.running = false;
                slot.journal_size = 0;
                slot.own_size = self.write_process(&id, &process)?;
            }
            Change::Forget(ids) => {
                for id in ids {
                    if index.get(&id).is_some_and(|slot| !slot.running || slot.damage.is_some())
                        && let Some(slot) = index.remove(&id)
                    {
                        if let Some(Ok(process)) = self.files.process(&id)? {
                            self.garbage.extend(process.payloads().filter_map(Payload::digest).map(Garbage::Blob));
                        }
                        self.files.processes.remove(&id).map_err(|error| self.files.broken(&error))?;
                        self.garbage.push(Garbage::Entries(slot.number, u64::MAX));
                        self.changed = true;
                    }
                }
            }
            Change::Put(kind, key, document) => {
                let key = document_key(&kind, &key);
                let value = encode(&key, &self.keep(document)?);
                let old = self.files.documents.insert(&key, value);
                self.replaced(&key, old)?;
            }
            Change::Remove(kind, key) => {
                let key = document_key(&kind, &key);
                let old = self.files.documents.remove(&key);
                self.replaced(&key, old)?;
            }
        }
        Ok(())
    }

    /// A record of a journal. A blob would cost several waits for the disk.
    fn parts(&mut self, record: Bytes) -> Result<Vec<Payload>, Error> {
        if record.len() <= INLINE || record.len() > IN_PARTS {
            return Ok(vec![self.keep(record)?]);
        }
        let parts = (0..record.len()).step_by(INLINE).map(|from| {
            let to = (from + INLINE).min(record.len());
            Payload::Part { first: from == 0, last: to == record.len(), bytes: record.slice(from..to) }
        });
        Ok(parts.collect())
    }

    fn keep(&mut self, bytes: Bytes) -> Result<Payload, Error> {
        let length = bytes.len() as u64;
        self.blobs.keep(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.folder.full(length),
            _ => self.files.broken(&error),
        })
    }

    /// Writes the record of a process; gives how much it takes.
    fn write_process(&mut self, id: &str, process: &Process) -> Result<u64, Error> {
        let value = encode(id.as_bytes(), process);
        let size = value.len() as u64 + process.payloads().map(Payload::outside).sum::<u64>();
        self.files.processes.insert(id, value).map_err(|error| self.files.broken(&error))?;
        self.changed = true;
        Ok(size)
    }

    fn write_entry(&mut self, slot: &mut Slot, entry: &Entry) -> Result<(), Error> {
        let key = journal_key(slot.number, slot.next);
        let value = encode(&key, entry);
        slot.next += entry.payloads().len() as u64;
        slot.journal_size += value.len() as u64 + entry.payloads().iter().map(Payload::outside).sum::<u64>();
        self.files.journal.insert(key, value).map_err(|error| self.files.broken(&error))?;
        self.changed = true;
        Ok(())
    }

    /// Writes what was appended to a journal.
    fn write_appended(&mut self, slot: &mut Slot, records: Vec<Payload>) -> Result<(), Error> {
        let mut entry = Vec::new();
        let mut size = 0;
        for record in records {
            let more = size_of::<Payload>() + record.inside();
            if size + more > ENTRY && !entry.is_empty() {
                self.write_entry(slot, &Entry::Records(std::mem::take(&mut entry)))?;
                size = 0;
            }
            size += more;
            entry.push(record);
        }
        self.write_entry(slot, &Entry::Records(entry))
    }

    /// What replaces a journal replaces these too.
    fn drop_appended(&mut self, id: &str) {
        let dropped = self.appended.remove(id).unwrap_or_default();
        self.garbage.extend(dropped.iter().filter_map(Payload::digest).map(Garbage::Blob));
    }

    /// A document was there before, maybe.
    fn replaced(&mut self, key: &[u8], old: sled::Result<Option<sled::IVec>>) -> Result<(), Error> {
        let old = old.map_err(|error| self.files.broken(&error))?;
        let digest = old.and_then(|old| decode::<Payload>(key, &old).ok()).and_then(|payload| payload.digest());
        self.garbage.extend(digest.map(Garbage::Blob));
        self.changed = true;
        Ok(())
    }

    fn claim(&self) -> Vec<String> {
        let mut index = self.opened.index();
        let left = index.iter_mut().filter(|(_, slot)| slot.running && !slot.ours);
        let mut claimed: Vec<_> = left
            .map(|(id, slot)| {
                slot.ours = true;
                slot.owner.clone_from(&self.node);
                id.clone()
            })
            .collect();
        claimed.sort();
        claimed
    }

    fn load(&mut self, id: &str) -> Result<Journal, Error> {
        let opened = self.opened.clone();
        let index = &mut *opened.index();
        let slot = running(index, id)?;
        if let Some(records) = self.appended.remove(id) {
            self.write_appended(slot, records)?;
        }
        self.files.load(id, slot.number, slot.next)?.map_err(|damage| slot.damage.insert(damage).error(id))
    }

    /// Those that cannot be read are left out: they concern nobody but their reader, who can put them again.
    fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        let prefix = document_key(kind, "");
        let mut documents = Vec::new();
        for item in self.files.documents.scan_prefix(&prefix) {
            let (key, value) = item.map_err(|error| self.files.broken(&error))?;
            let name = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
            if let Some(document) = self.read_document(&name, &key, &value) {
                documents.push((name, document));
            }
        }
        Ok(documents)
    }

    fn document(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        let full = document_key(kind, key);
        let found = self.files.documents.get(&full).map_err(|error| self.files.broken(&error))?;
        Ok(found.and_then(|value| self.read_document(key, &full, &value)))
    }

    fn read_document(&self, name: &str, key: &[u8], value: &[u8]) -> Option<Bytes> {
        let payload = decode(key, value).map_err(|problem| self.files.damage(0, problem));
        match payload.and_then(|payload| self.files.payload(0, payload)) {
            Ok(document) => Some(document),
            Err(Damage { file, problem, .. }) => {
                tracing::error!(document = name, file, problem, "a document is damaged");
                None
            }
        }
    }

    /// Makes everything durable that was changed.
    fn commit(&mut self) -> Result<(), Error> {
        let opened = self.opened.clone();
        for (id, records) in std::mem::take(&mut self.appended) {
            if let Some(slot) = opened.index().get_mut(&id) {
                self.write_appended(slot, records)?;
            }
        }
        if self.changed {
            self.files.db.flush().map_err(|error| self.files.broken(&error))?;
            self.synced.sync_data().map_err(|error| self.files.broken(&error))?;
            self.changed = false;
        }
        Ok(())
    }

    /// Removes what nobody needs any more. If it comes back after a crash, it is removed by the next start.
    fn clean(&mut self) -> Result<(), Error> {
        for garbage in std::mem::take(&mut self.garbage) {
            match garbage {
                Garbage::Blob(digest) => self.blobs.release(&digest),
                Garbage::Entries(process, end) => {
                    let range = journal_key(process, 0)..journal_key(process, end);
                    for key in self.files.journal.range(range).keys() {
                        let key = key.map_err(|error| self.files.broken(&error))?;
                        let Some((_, record)) = journal_numbers(&key) else { continue };
                        for digest in self.files.remove_entry(process, record)? {
                            self.blobs.release(&digest);
                        }
                        self.changed = true;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A process that this node may continue.
fn running<'a>(index: &'a mut Index, id: &str) -> Result<&'a mut Slot, Error> {
    let slot = index.get_mut(id).filter(|slot| slot.running).ok_or_else(|| Error::Unknown(id.into()))?;
    if !slot.ours {
        return Err(Error::NotOwned(id.into()));
    }
    match &slot.damage {
        Some(damage) => Err(damage.error(id)),
        None => Ok(slot),
    }
}

/// The error after which nothing works any more.
fn fatal<T>(result: &Result<T, Error>) -> Option<Error> {
    result.as_ref().err().filter(|error| matches!(error, Error::Broken(_))).cloned()
}

/// Answers every request with this error, until the end. Gives who waits for that.
fn refuse_all(error: &Error, requests: &mut mpsc::Receiver<Request>) -> Option<oneshot::Sender<()>> {
    while let Some(request) = requests.blocking_recv() {
        match request {
            Request::Change(_, answer) => send(answer, Err(error.clone())),
            Request::Claim(answer) => send(answer, Err(error.clone())),
            Request::Load(_, answer) => send(answer, Err(error.clone())),
            Request::Get(_, _, answer) => send(answer, Err(error.clone())),
            Request::Documents(_, answer) => send(answer, Err(error.clone())),
            Request::ShutDown(answer) => return Some(answer),
        }
    }
    None
}
