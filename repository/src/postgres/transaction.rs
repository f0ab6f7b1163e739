//! One transaction with many changes.

use std::collections::HashMap;

use bytes::Bytes;
use sqlx::{Connection, PgConnection};

use super::ownership::{Owned, Ownership};
use super::statements::{
    LockedProcess, ObsoleteRecords, ProcessChanges, create, forget, lock, reopen, write_documents, write_records,
    write_summaries,
};
use crate::committer_handle::{ChangeResult, CommitChange, EndDocument};
use crate::error::Error;

/// Result of a committed transaction.
pub(super) struct Committed {
    /// Result of each change.
    pub(super) results: Vec<Result<ChangeResult, Error>>,
    /// Processes that the transaction changed and that still run.
    pub(super) owned: HashMap<String, Owned>,
    /// Processes that the transaction closed.
    pub(super) closed: Vec<String>,
    /// Records that the transaction replaced.
    pub(super) obsolete: ObsoleteRecords,
}

/// Makes all changes in one transaction. Marks them as unconfirmed in `ownership`; the caller records the result.
pub(super) async fn commit(
    ownership: &mut Ownership,
    connection: &mut PgConnection,
    changes: &[CommitChange],
) -> sqlx::Result<Committed> {
    let session = ownership.session.id();
    let mut transaction = connection.begin().await?;
    ownership.undo_unconfirmed(&mut transaction).await?;
    let created = create(&mut transaction, &session, &ownership.node, changes).await?;
    let reopened = reopen(&mut transaction, ownership, changes).await?;
    let locked = lock(&mut transaction, changes).await?;

    let mut plan = Plan { ownership, locked: &locked, processes: HashMap::new() };
    let mut results = Vec::new();
    let mut documents: HashMap<(&str, &str), Option<&Bytes>> = HashMap::new();
    for change in changes {
        results.push(match change {
            CommitChange::Create { process, .. } => plan.create(process, &session, created.get(process).copied()),
            CommitChange::Append { process, record } => plan.of(process).map(|changes| {
                changes.records.push(record);
                ChangeResult::Done
            }),
            CommitChange::Compact { process, snapshot } => plan.of(process).map(|changes| {
                changes.records = vec![snapshot];
                changes.has_snapshot = true;
                ChangeResult::Done
            }),
            CommitChange::Close { process, summary, document } => plan.of(process).map(|changes| {
                changes.records = Vec::new();
                changes.has_snapshot = false;
                changes.summary = Some(summary);
                if let Some(EndDocument { kind, content }) = document {
                    documents.insert((kind, process), content.as_ref());
                }
                ChangeResult::Done
            }),
            CommitChange::Reopen { process, snapshot, .. } => plan.reopen(process, reopened.get(process), snapshot),
            CommitChange::Forget { processes } => Ok(ChangeResult::Running(forget(&mut transaction, processes).await?)),
            CommitChange::Put { kind, key, document } => {
                documents.insert((kind, key), Some(document));
                Ok(ChangeResult::Done)
            }
            CommitChange::Remove { kind, key } => {
                documents.insert((kind, key), None);
                Ok(ChangeResult::Done)
            }
        });
    }
    let processes = plan.processes;
    write_records(&mut transaction, &processes).await?;
    write_summaries(&mut transaction, &processes).await?;
    write_documents(&mut transaction, &documents).await?;

    // From here on the changes are unconfirmed until the database answers.
    ownership.unconfirmed_creations.extend(created.into_keys().map(|process| (process, session.clone())));
    for process in processes.keys() {
        if let Some(owned) = ownership.owned.get_mut(*process) {
            owned.unconfirmed = true;
        }
    }
    transaction.commit().await?;
    Ok(Committed::new(results, processes))
}

impl Committed {
    fn new(results: Vec<Result<ChangeResult, Error>>, processes: HashMap<&str, ProcessChanges<'_>>) -> Self {
        let mut committed =
            Self { results, owned: HashMap::new(), closed: Vec::new(), obsolete: ObsoleteRecords::default() };
        for (process, ProcessChanges { mut owned, records, has_snapshot, summary }) in processes {
            if summary.is_some() {
                committed.obsolete.add(process, &owned, i64::MAX);
                committed.closed.push(process.into());
                continue;
            }
            if has_snapshot {
                committed.obsolete.add(process, &owned, owned.next_record);
            }
            owned.next_record += records.len() as i64;
            committed.owned.insert(process.into(), owned);
        }
        committed
    }
}

/// The changes of a transaction, by process.
struct Plan<'o, 'c> {
    ownership: &'o Ownership,
    locked: &'o HashMap<String, LockedProcess>,
    processes: HashMap<&'c str, ProcessChanges<'c>>,
}

impl<'c> Plan<'_, 'c> {
    /// Adds a process. `epoch` is `None` if its id is in use.
    fn create(&mut self, process: &'c str, session: &str, epoch: Option<i64>) -> Result<ChangeResult, Error> {
        match epoch {
            Some(epoch) if !self.processes.contains_key(process) => {
                let owned = Owned { session: session.to_owned(), epoch, next_record: 0, unconfirmed: false };
                self.processes.insert(process, ProcessChanges::new(owned));
                Ok(ChangeResult::Epoch(epoch.unsigned_abs()))
            }
            _ => Err(Error::Exists(process.into())),
        }
    }

    /// Adds a process that runs again. `owned` is `None` if it has not ended.
    fn reopen(&mut self, process: &'c str, owned: Option<&Owned>, snapshot: &'c Bytes) -> Result<ChangeResult, Error> {
        match owned {
            Some(owned) if !self.processes.contains_key(process) => {
                let changes = ProcessChanges {
                    records: vec![snapshot],
                    has_snapshot: true,
                    ..ProcessChanges::new(owned.clone())
                };
                self.processes.insert(process, changes);
                Ok(ChangeResult::Epoch(owned.epoch.unsigned_abs()))
            }
            _ => Err(Error::Unknown(process.into())),
        }
    }

    /// The changes of a process, if this store still owns it.
    fn of(&mut self, process: &'c str) -> Result<&mut ProcessChanges<'c>, Error> {
        if !self.processes.contains_key(process) {
            let locked = self.locked.get(process).filter(|locked| !locked.ended);
            let locked = locked.ok_or_else(|| Error::Unknown(process.into()))?;
            let owned = self.ownership.owned.get(process);
            let owned = owned.filter(|owned| locked.owner == owned.session && locked.epoch == owned.epoch);
            let owned = owned.ok_or_else(|| Error::NotOwned(process.into()))?.clone();
            self.processes.insert(process, ProcessChanges::new(Owned { unconfirmed: false, ..owned }));
        }
        let changes = self.processes.get_mut(process).filter(|changes| changes.summary.is_none());
        changes.ok_or_else(|| Error::Unknown(process.into()))
    }
}
