//! A repository that one coordinator has, or several share: leases, epochs, and writes that are on their way.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_process_coordinator::handover::Placement;

/// Whoever does not renew for so long may lose what it has.
pub const LEASE: u64 = 10_000;

/// Why something was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Exists,
    Unknown,
    NotOwned,
    Unavailable,
}

/// A process as it is kept.
#[derive(Debug, Clone)]
pub struct Stored {
    pub head: Bytes,
    pub snapshot: Option<Bytes>,
    pub records: Vec<Bytes>,
    pub summary: Option<Bytes>,
    /// The session that has it, and since which change of hands.
    pub owner: u64,
    pub epoch: u64,
}

/// A change that is asked for.
#[derive(Debug, Clone)]
pub enum Change {
    Create(Arc<str>, Bytes),
    Append(Arc<str>, Bytes),
    Compact(Arc<str>, Bytes),
    Close(Arc<str>, Bytes),
    Forget(Vec<Arc<str>>),
}

/// The store of a group.
#[derive(Debug, Default)]
pub struct Store {
    pub realm: Arc<str>,
    pub processes: BTreeMap<Arc<str>, Stored>,
    /// Until when each session has what it has.
    pub leases: BTreeMap<u64, u64>,
    /// Of each process the number of its creation; the same id may be used again.
    pub creations: BTreeMap<Arc<str>, u64>,
    /// Epochs never come again.
    pub last_epoch: u64,
    /// Word of subtrees that have moved, for whoever has their parents; or that nobody waits for them.
    pub moved: BTreeMap<AttemptKey, Option<Placement>>,
}

/// What a coordinator believes to have: session, and the epoch of each process.
#[derive(Debug, Default, Clone)]
pub struct Held {
    pub session: u64,
    pub epochs: BTreeMap<Arc<str>, u64>,
}

impl Store {
    /// Makes a change, if whoever asks may. `fenced` is false in worlds with that bug.
    pub fn apply(&mut self, change: Change, held: &mut Held, fenced: bool, number: u64) -> Result<(), Refused> {
        match change {
            Change::Create(process, head) => {
                if self.processes.contains_key(&process) {
                    return Err(Refused::Exists);
                }
                self.creations.insert(process.clone(), number);
                self.last_epoch += 1;
                let epoch = self.last_epoch;
                held.epochs.insert(process.clone(), epoch);
                let (snapshot, records, summary) = (None, Vec::new(), None);
                let stored = Stored { head, snapshot, records, summary, owner: held.session, epoch };
                self.processes.insert(process, stored);
            }
            Change::Append(process, record) => self.owned(&process, held, fenced)?.records.push(record),
            Change::Compact(process, snapshot) => {
                let stored = self.owned(&process, held, fenced)?;
                stored.snapshot = Some(snapshot);
                stored.records.clear();
            }
            Change::Close(process, summary) => {
                let stored = self.owned(&process, held, fenced)?;
                stored.summary = Some(summary);
                stored.snapshot = None;
                stored.records.clear();
                held.epochs.remove(&process);
            }
            Change::Forget(processes) => {
                for process in processes {
                    if self.processes.get(&process).is_some_and(|stored| stored.summary.is_some()) {
                        self.processes.remove(&process);
                    }
                }
            }
        }
        Ok(())
    }

    fn owned(&mut self, process: &str, held: &Held, fenced: bool) -> Result<&mut Stored, Refused> {
        let stored = self.processes.get_mut(process).filter(|stored| stored.summary.is_none());
        let stored = stored.ok_or(Refused::Unknown)?;
        let mine = stored.owner == held.session && held.epochs.get(process) == Some(&stored.epoch);
        if mine || !fenced { Ok(stored) } else { Err(Refused::NotOwned) }
    }

    /// A node begins anew: its former session ends.
    pub fn begin(&mut self, former: u64, session: u64, now: u64) {
        self.leases.remove(&former);
        self.leases.insert(session, now + LEASE);
    }

    /// Goes on; false if others have ended the session.
    pub fn renew(&mut self, session: u64, now: u64) -> bool {
        self.leases.get_mut(&session).map(|until| *until = now + LEASE).is_some()
    }

    /// Has it not ended?
    pub fn runs(&self, process: &str) -> bool {
        self.processes.get(process).is_some_and(|stored| stored.summary.is_none())
    }

    /// Is whoever has a process alive, as far as is known?
    pub fn is_held(&self, process: &str, now: u64) -> bool {
        let stored = self.processes.get(process);
        stored.and_then(|stored| self.leases.get(&stored.owner)).is_some_and(|until| *until >= now)
    }

    /// Takes what belongs to nobody who lives, and gives that and what was taken and never heard of; and what was lost.
    pub fn claim(&mut self, held: &mut Held, now: u64) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let mut claimed = Vec::new();
        let (mine, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut held.epochs).into_iter().partition(|(process, epoch)| {
                let stored = self.processes.get(process).filter(|stored| stored.summary.is_none());
                stored.is_some_and(|stored| stored.owner == held.session && stored.epoch == *epoch)
            });
        held.epochs = mine;
        let leases = &self.leases;
        for (process, stored) in self.processes.iter_mut().filter(|(_, stored)| stored.summary.is_none()) {
            if stored.owner != held.session {
                let lives = leases.get(&stored.owner).is_some_and(|until| *until >= now);
                if lives {
                    continue;
                }
                stored.owner = held.session;
                self.last_epoch += 1;
                stored.epoch = self.last_epoch;
            }
            if !lost.contains_key(process) && held.epochs.insert(process.clone(), stored.epoch).is_none() {
                claimed.push(process.clone());
            }
        }
        (claimed, lost.into_keys().collect())
    }
}
