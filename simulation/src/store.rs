//! A repository that the coordinators of a group share: processes with owners, epochs, and leases.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use xavantes_process_coordinator::handover::SubtreePlace;
use xavantes_proto::AttemptKey;

/// A session that is not renewed for this long loses its processes to other coordinators.
pub const LEASE_MS: u64 = 10_000;

/// Why the store refuses a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreRefusal {
    Exists,
    Unknown,
    NotOwned,
    Unavailable,
}

/// A process in the store.
#[derive(Debug, Clone)]
pub struct StoredProcess {
    pub head: Bytes,
    pub snapshot: Option<Bytes>,
    pub records: Vec<Bytes>,
    pub summary: Option<Bytes>,
    /// The last state of a process that did not complete.
    pub kept: Option<Bytes>,
    /// Session of the coordinator that runs the process.
    pub owner: u64,
    /// Number of the last change of owners.
    pub epoch: u64,
    /// The store has lost records of the process, and knows that.
    pub damaged: bool,
}

/// A change that a coordinator wants.
#[derive(Debug, Clone)]
pub enum StoreChange {
    Create(Arc<str>, Bytes),
    Append(Arc<str>, Bytes),
    Compact(Arc<str>, Bytes),
    /// With the summary, and the last state of a process that may go on.
    Close(Arc<str>, Bytes, Option<Bytes>),
    /// With the summary of the end that the coordinator read, and the snapshot.
    Reopen(Arc<str>, Bytes, Bytes),
    Forget(Vec<Arc<str>>),
    /// A coordinator, and the name and address of a worker that it borrowed.
    PutLease(Arc<str>, Arc<str>, String),
    DeleteLease(Arc<str>, Arc<str>),
}

/// The store of a group.
#[derive(Debug, Default)]
pub struct SimStore {
    pub realm: Arc<str>,
    pub processes: BTreeMap<Arc<str>, StoredProcess>,
    /// End of the lease of each session.
    pub leases: BTreeMap<u64, u64>,
    /// Number of the creation of each process. A later process may have the same id.
    pub creations: BTreeMap<Arc<str>, u64>,
    /// Latest epoch. No epoch is used twice.
    pub last_epoch: u64,
    /// Move notices: the new places of subtrees, or `None` if the parent does not wait for the subtree.
    pub moved: BTreeMap<AttemptKey, Option<SubtreePlace>>,
    /// Addresses of borrowed workers, by coordinator and worker.
    pub borrowed: BTreeMap<(Arc<str>, Arc<str>), String>,
}

/// The session of a coordinator, and the epochs of the processes that it believes to own.
#[derive(Debug, Default, Clone)]
pub struct StoreSession {
    pub number: u64,
    pub epochs: BTreeMap<Arc<str>, u64>,
}

impl SimStore {
    /// Makes a change, if the session may. `fenced` is false in worlds with the bug `NoFencing`. `number` identifies a creation.
    pub fn apply(
        &mut self,
        change: StoreChange,
        session: &mut StoreSession,
        fenced: bool,
        number: u64,
    ) -> Result<(), StoreRefusal> {
        match change {
            StoreChange::Create(process, head) => {
                if self.processes.contains_key(&process) {
                    return Err(StoreRefusal::Exists);
                }
                self.creations.insert(process.clone(), number);
                self.last_epoch += 1;
                let epoch = self.last_epoch;
                session.epochs.insert(process.clone(), epoch);
                let (snapshot, records, summary, kept, damaged) = (None, Vec::new(), None, None, false);
                let owner = session.number;
                let stored = StoredProcess { head, snapshot, records, summary, kept, owner, epoch, damaged };
                self.processes.insert(process, stored);
            }
            StoreChange::Append(process, record) => self.owned(&process, session, fenced)?.records.push(record),
            StoreChange::Compact(process, snapshot) => {
                let stored = self.owned(&process, session, fenced)?;
                stored.snapshot = Some(snapshot);
                stored.records.clear();
            }
            StoreChange::Reopen(process, summary, snapshot) => {
                let stored = self.processes.get_mut(&process);
                let ended = stored.filter(|stored| stored.summary.as_ref() == Some(&summary));
                let stored = ended.ok_or(StoreRefusal::Unknown)?;
                self.last_epoch += 1;
                (stored.summary, stored.snapshot) = (None, Some(snapshot));
                (stored.owner, stored.epoch) = (session.number, self.last_epoch);
                session.epochs.insert(process, self.last_epoch);
            }
            StoreChange::Close(process, summary, kept) => {
                let stored = self.owned(&process, session, fenced)?;
                (stored.summary, stored.kept) = (Some(summary), kept);
                stored.snapshot = None;
                stored.records.clear();
                session.epochs.remove(&process);
            }
            StoreChange::Forget(processes) => {
                for process in processes {
                    if self.processes.get(&process).is_some_and(|stored| stored.summary.is_some()) {
                        self.processes.remove(&process);
                    }
                }
            }
            StoreChange::PutLease(coordinator, worker, address) => {
                self.borrowed.insert((coordinator, worker), address);
            }
            StoreChange::DeleteLease(coordinator, worker) => drop(self.borrowed.remove(&(coordinator, worker))),
        }
        Ok(())
    }

    fn owned(
        &mut self,
        process: &str,
        session: &StoreSession,
        fenced: bool,
    ) -> Result<&mut StoredProcess, StoreRefusal> {
        let stored = self.processes.get_mut(process).filter(|stored| stored.summary.is_none());
        let stored = stored.ok_or(StoreRefusal::Unknown)?;
        let mine = stored.owner == session.number && session.epochs.get(process) == Some(&stored.epoch);
        if mine || !fenced { Ok(stored) } else { Err(StoreRefusal::NotOwned) }
    }

    /// A coordinator starts: its former session ends.
    pub fn begin(&mut self, former: u64, session: u64, now: u64) {
        self.leases.remove(&former);
        self.leases.insert(session, now + LEASE_MS);
    }

    /// Renews a lease. False if the session has ended.
    pub fn renew(&mut self, session: u64, now: u64) -> bool {
        self.leases.get_mut(&session).map(|until| *until = now + LEASE_MS).is_some()
    }

    /// Does the store have this process, without an end?
    pub fn runs(&self, process: &str) -> bool {
        self.processes.get(process).is_some_and(|stored| stored.summary.is_none())
    }

    /// Is the lease of the owner of a process valid?
    pub fn is_held(&self, process: &str, now: u64) -> bool {
        let stored = self.processes.get(process);
        stored.and_then(|stored| self.leases.get(&stored.owner)).is_some_and(|until| *until >= now)
    }

    /// Claims the processes whose owner has no valid lease. Gives the processes that the session has gained since the last
    /// claim, and those that it has lost.
    pub fn claim(&mut self, session: &mut StoreSession, now: u64) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let mut claimed = Vec::new();
        let (mine, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut session.epochs).into_iter().partition(|(process, epoch)| {
                let stored = self.processes.get(process).filter(|stored| stored.summary.is_none());
                stored.is_some_and(|stored| stored.owner == session.number && stored.epoch == *epoch)
            });
        session.epochs = mine;
        let leases = &self.leases;
        for (process, stored) in self.processes.iter_mut().filter(|(_, stored)| stored.summary.is_none()) {
            if stored.owner != session.number {
                let lives = leases.get(&stored.owner).is_some_and(|until| *until >= now);
                if lives {
                    continue;
                }
                stored.owner = session.number;
                self.last_epoch += 1;
                stored.epoch = self.last_epoch;
            }
            if !lost.contains_key(process) && session.epochs.insert(process.clone(), stored.epoch).is_none() {
                claimed.push(process.clone());
            }
        }
        (claimed, lost.into_keys().collect())
    }
}
