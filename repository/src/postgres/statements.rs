//! The SQL statements of changes. Each carries out the changes of many processes or documents at once.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use sqlx::{PgConnection, Row};

use super::lease::LEASE;
use super::ownership::{Owned, Ownership};
use crate::committer_handle::CommitChange;

/// The changes of one process in a transaction.
pub(super) struct ProcessChanges<'a> {
    /// The process before the transaction.
    pub(super) owned: Owned,
    /// New records, from the next record number on.
    pub(super) records: Vec<&'a Bytes>,
    /// The first of the records is a snapshot.
    pub(super) has_snapshot: bool,
    pub(super) summary: Option<&'a Bytes>,
}

impl ProcessChanges<'_> {
    pub(super) fn new(owned: Owned) -> Self {
        Self { owned, records: Vec::new(), has_snapshot: false, summary: None }
    }
}

/// Records that a snapshot or summary replaced, as columns of a table: the records of a process before a number, while
/// the process still has this owner and epoch.
#[derive(Default)]
pub(super) struct ObsoleteRecords {
    processes: Vec<String>,
    owners: Vec<String>,
    epochs: Vec<i64>,
    before: Vec<i64>,
}

impl ObsoleteRecords {
    pub(super) fn add(&mut self, process: &str, owned: &Owned, before: i64) {
        self.processes.push(process.into());
        self.owners.push(owned.session.clone());
        self.epochs.push(owned.epoch);
        self.before.push(before);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

/// Removes replaced records after their replacement is durable.
pub(super) async fn remove_obsolete_records(
    connection: &mut PgConnection,
    obsolete: ObsoleteRecords,
) -> sqlx::Result<()> {
    let removal = sqlx::query(
        "DELETE FROM xavantes.records r
         USING unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS g (process, owner, epoch, before),
             xavantes.processes p
         WHERE r.process = g.process AND r.number < g.before
             AND p.process = g.process AND p.owner = g.owner AND p.epoch = g.epoch",
    );
    let ObsoleteRecords { processes, owners, epochs, before } = obsolete;
    removal.bind(processes).bind(owners).bind(epochs).bind(before).execute(connection).await.map(drop)
}

/// Removes the journals of ended processes whose owner ended before it removed them.
pub(super) async fn remove_orphaned_records(connection: &mut PgConnection) -> sqlx::Result<()> {
    let removal = sqlx::query(
        "DELETE FROM xavantes.records r USING xavantes.processes p
         WHERE r.process = p.process AND p.summary IS NOT NULL
             AND NOT EXISTS (SELECT FROM xavantes.owners o WHERE o.session = p.owner)",
    );
    removal.execute(connection).await.map(drop)
}

/// Creates processes. Returns the epochs of those whose id was free. Also renews the lease of the session, so that the
/// new processes are safe after an interruption.
pub(super) async fn create(
    transaction: &mut PgConnection,
    session: &str,
    node: &str,
    changes: &[CommitChange],
) -> sqlx::Result<HashMap<String, i64>> {
    let mut heads: HashMap<&str, &Bytes> = HashMap::new();
    for change in changes {
        if let CommitChange::Create { process, head } = change {
            heads.entry(process).or_insert(head);
        }
    }
    if heads.is_empty() {
        return Ok(HashMap::new());
    }
    let (processes, heads): (Vec<_>, Vec<_>) = heads.into_iter().map(|(process, head)| (process, &head[..])).unzip();
    let created = sqlx::query_as(
        "WITH renewed AS (
             UPDATE xavantes.owners SET lease_until = clock_timestamp() + $5::text::interval WHERE session = $3)
         INSERT INTO xavantes.processes (process, owner, node, epoch, created, head)
         SELECT process, $3, $4, epoch, epoch, head FROM (
             SELECT process, head, nextval('xavantes.epochs') AS epoch
             FROM unnest($1::text[], $2::bytea[]) AS c (process, head)) AS c ORDER BY process
         ON CONFLICT DO NOTHING RETURNING process, epoch",
    );
    let created = created.bind(processes).bind(heads).bind(session).bind(node).bind(LEASE);
    Ok(created.fetch_all(transaction).await?.into_iter().collect())
}

/// Makes processes that ended with a certain summary running ones of this session. Returns those that had. A process of this
/// session that this store does not know to run is one that an unconfirmed transaction reopened.
pub(super) async fn reopen(
    transaction: &mut PgConnection,
    ownership: &Ownership,
    changes: &[CommitChange],
) -> sqlx::Result<HashMap<String, Owned>> {
    let mut reopened = HashMap::new();
    for change in changes {
        let CommitChange::Reopen { process, summary, .. } = change else { continue };
        if ownership.owned.contains_key(process) || reopened.contains_key(process) {
            continue;
        }
        let session = ownership.session.id();
        let row: Option<(i64, i64)> = sqlx::query_as(
            "UPDATE xavantes.processes p SET summary = NULL, owner = $2, node = $3, epoch = nextval('xavantes.epochs')
             WHERE process = $1 AND (summary = $4 OR (summary IS NULL AND owner = $2))
             RETURNING epoch,
                 coalesce((SELECT max(number) + 1 FROM xavantes.records r WHERE r.process = p.process), 0)",
        )
        .bind(process)
        .bind(&session[..])
        .bind(&ownership.node[..])
        .bind(&summary[..])
        .fetch_optional(&mut *transaction)
        .await?;
        if let Some((epoch, next_record)) = row {
            reopened.insert(process.clone(), Owned { session, epoch, next_record, unconfirmed: false });
        }
    }
    Ok(reopened)
}

/// A process in the database that no other transaction can change before this one ends.
pub(super) struct LockedProcess {
    pub(super) owner: String,
    pub(super) epoch: i64,
    pub(super) ended: bool,
}

/// Locks the processes that changes append to, compact or close.
pub(super) async fn lock(
    transaction: &mut PgConnection,
    changes: &[CommitChange],
) -> sqlx::Result<HashMap<String, LockedProcess>> {
    let processes: HashSet<&str> = changes
        .iter()
        .filter_map(|change| match change {
            CommitChange::Append { process, .. }
            | CommitChange::Compact { process, .. }
            | CommitChange::Close { process, .. } => Some(&process[..]),
            _ => None,
        })
        .collect();
    if processes.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(
        "SELECT process, owner, epoch, summary IS NOT NULL AS ended FROM xavantes.processes WHERE process = ANY ($1)
         ORDER BY process FOR NO KEY UPDATE",
    );
    let rows = rows.bind(Vec::from_iter(processes)).fetch_all(transaction).await?;
    let locked = |row: &sqlx::postgres::PgRow| {
        let locked =
            LockedProcess { owner: row.try_get("owner")?, epoch: row.try_get("epoch")?, ended: row.try_get("ended")? };
        Ok((row.try_get("process")?, locked))
    };
    rows.iter().map(locked).collect()
}

/// Removes the ended ones among the processes. Returns the others that exist.
pub(super) async fn forget(transaction: &mut PgConnection, processes: &[String]) -> sqlx::Result<Vec<String>> {
    let removal = sqlx::query(
        "WITH gone AS (
             DELETE FROM xavantes.processes WHERE process = ANY ($1) AND summary IS NOT NULL RETURNING process)
         DELETE FROM xavantes.records r USING gone WHERE r.process = gone.process",
    );
    removal.bind(processes).execute(&mut *transaction).await?;
    let others = sqlx::query_scalar("SELECT process FROM xavantes.processes WHERE process = ANY ($1) ORDER BY process");
    others.bind(processes).fetch_all(transaction).await
}

pub(super) async fn write_records(
    transaction: &mut PgConnection,
    processes: &HashMap<&str, ProcessChanges<'_>>,
) -> sqlx::Result<()> {
    let (mut ids, mut numbers, mut are_snapshots, mut contents) = (vec![], vec![], vec![], vec![]);
    for (process, changes) in processes {
        let first = changes.owned.next_record;
        for (number, record) in (first..).zip(&changes.records) {
            ids.push(*process);
            numbers.push(number);
            are_snapshots.push(changes.has_snapshot && number == first);
            contents.push(&record[..]);
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let insertion = sqlx::query(
        "INSERT INTO xavantes.records (process, number, is_snapshot, content)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::bytea[])",
    );
    insertion.bind(ids).bind(numbers).bind(are_snapshots).bind(contents).execute(transaction).await.map(drop)
}

pub(super) async fn write_summaries(
    transaction: &mut PgConnection,
    processes: &HashMap<&str, ProcessChanges<'_>>,
) -> sqlx::Result<()> {
    let (ids, summaries): (Vec<_>, Vec<_>) =
        processes.iter().filter_map(|(process, changes)| Some((*process, &changes.summary?[..]))).unzip();
    if ids.is_empty() {
        return Ok(());
    }
    let update = sqlx::query(
        "UPDATE xavantes.processes p SET summary = s.summary
         FROM unnest($1::text[], $2::bytea[]) AS s (process, summary) WHERE p.process = s.process",
    );
    update.bind(ids).bind(summaries).execute(transaction).await.map(drop)
}

/// Stores documents, and removes those that are `None`.
pub(super) async fn write_documents(
    transaction: &mut PgConnection,
    documents: &HashMap<(&str, &str), Option<&Bytes>>,
) -> sqlx::Result<()> {
    let (mut kinds, mut keys, mut contents) = (vec![], vec![], vec![]);
    let (mut removed_kinds, mut removed_keys) = (vec![], vec![]);
    for ((kind, key), document) in documents {
        match document {
            Some(document) => {
                kinds.push(*kind);
                keys.push(*key);
                contents.push(&document[..]);
            }
            None => {
                removed_kinds.push(*kind);
                removed_keys.push(*key);
            }
        }
    }
    if !kinds.is_empty() {
        let insertion = sqlx::query(
            "INSERT INTO xavantes.documents (kind, key, content)
             SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[]) AS d (kind, key, content) ORDER BY kind, key
             ON CONFLICT (kind, key) DO UPDATE SET content = excluded.content",
        );
        insertion.bind(kinds).bind(keys).bind(contents).execute(&mut *transaction).await?;
    }
    if !removed_kinds.is_empty() {
        let removal = sqlx::query(
            "DELETE FROM xavantes.documents d USING unnest($1::text[], $2::text[]) AS r (kind, key)
             WHERE d.kind = r.kind AND d.key = r.key",
        );
        removal.bind(removed_kinds).bind(removed_keys).execute(transaction).await?;
    }
    Ok(())
}
