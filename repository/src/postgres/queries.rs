//! Reading journals, documents and processes.

use std::time::Duration;

use bytes::Bytes;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use super::database_connection::retry;
use super::lease::{LEASE, LEASE_TIME};
use super::ownership::Owned;
use crate::error::Error;
use crate::repository::{Entry, Journal, OwnerLease, PageRequest};

/// Selects processes. PostgreSQL knows the length of a value without reading it.
macro_rules! select_processes {
    ($condition:expr, $order:literal) => {
        concat!(
            "SELECT process, node, epoch, created, head, summary,
                 (octet_length(head) + coalesce(octet_length(summary), 0)
                     + coalesce((SELECT sum(octet_length(content)) FROM xavantes.records r WHERE r.process = p.process), 0)
                 )::bigint AS size
             FROM xavantes.processes p WHERE ",
            $condition,
            " ORDER BY ",
            $order
        )
    };
}

/// Selects a page of processes: those behind a place ($1, $2), at most $3, until those before one have $4 bytes. `before` is the
/// size of the processes between the place and this one.
macro_rules! select_page {
    ($behind:literal, $condition:literal, $order:literal) => {
        select_processes!(
            concat!(
                "process IN (
                     SELECT process FROM (
                         SELECT process, coalesce(sum(bytes) OVER (ORDER BY ", $order, "
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
                         FROM (
                             SELECT process, created, octet_length(head) + coalesce(octet_length(summary), 0) AS bytes
                             FROM xavantes.processes WHERE (created, process) ", $behind, " ($1, $2)", $condition, "
                             ORDER BY ", $order, " LIMIT $3) q) q
                     WHERE before < $4)"
            ),
            $order
        )
    };
}

/// Lists all processes.
pub(super) async fn list(pool: &PgPool) -> Result<Vec<Entry>, Error> {
    retry(|| async {
        let rows = sqlx::query(select_processes!("true", "process")).fetch_all(pool).await?;
        rows.iter().map(entry).collect()
    })
    .await
}

/// Lists some processes in the order of their creation.
pub(super) async fn page(pool: &PgPool, request: &PageRequest) -> Result<Vec<Entry>, Error> {
    let PageRequest { after, newest_first, unfinished, max_items, max_bytes } = request;
    let statement = match (newest_first, unfinished) {
        (true, false) => select_page!("<", "", "created DESC, process DESC"),
        (false, false) => select_page!(">", "", "created, process"),
        (true, true) => select_page!("<", " AND summary IS NULL", "created DESC, process DESC"),
        (false, true) => select_page!(">", " AND summary IS NULL", "created, process"),
    };
    // No process has one of these numbers.
    let edge = if *newest_first { i64::MAX } else { -1 };
    let (number, process) = match after {
        Some(place) => (i64::try_from(place.number).unwrap_or(i64::MAX), &*place.process),
        None => (edge, ""),
    };
    let [max_items, max_bytes] = [max_items, max_bytes].map(|bound| i64::try_from(*bound).unwrap_or(i64::MAX));
    retry(|| async {
        let rows = sqlx::query(statement).bind(number).bind(process).bind(max_items).bind(max_bytes);
        rows.fetch_all(pool).await?.iter().map(entry).collect()
    })
    .await
}

/// Ids of processes that begin with a text and have no slash.
pub(super) async fn ids(pool: &PgPool, prefix: &str, max_items: usize) -> Result<Vec<String>, Error> {
    // Ids are in the order of their bytes: no text that begins with the prefix follows this one.
    let end = format!("{prefix}{}", char::MAX);
    let max_items = i64::try_from(max_items).unwrap_or(i64::MAX);
    retry(|| async {
        let ids = sqlx::query_scalar(
            "SELECT process FROM xavantes.processes
             WHERE process >= $1 AND process <= $2 AND position('/' IN process) = 0 ORDER BY process LIMIT $3",
        );
        ids.bind(prefix).bind(&end).bind(max_items).fetch_all(pool).await
    })
    .await
}

/// Finds one process.
pub(super) async fn find(pool: &PgPool, process: &str) -> Result<Option<Entry>, Error> {
    retry(|| async {
        let row = sqlx::query(select_processes!("process = $1", "process")).bind(process).fetch_optional(pool).await?;
        row.as_ref().map(entry).transpose()
    })
    .await
}

/// The lease of the owner of a process.
pub(super) async fn lease(pool: &PgPool, process: &str) -> Result<Option<OwnerLease>, Error> {
    let renewed_ms: Option<(i64,)> = retry(|| async {
        let lease = sqlx::query_as(
            "SELECT (extract(epoch FROM clock_timestamp() - o.lease_until + $2::text::interval) * 1000)::bigint
             FROM xavantes.processes p JOIN xavantes.owners o ON o.session = p.owner WHERE p.process = $1",
        );
        lease.bind(process).bind(LEASE).fetch_optional(pool).await
    })
    .await?;
    Ok(renewed_ms.map(|(renewed_ms,)| {
        let renewed = Duration::from_millis(renewed_ms.try_into().unwrap_or_default());
        OwnerLease { renewed, expired: renewed > LEASE_TIME }
    }))
}

fn entry(row: &PgRow) -> sqlx::Result<Entry> {
    Ok(Entry {
        process: row.try_get("process")?,
        head: row.try_get::<Vec<u8>, _>("head")?.into(),
        summary: row.try_get::<Option<Vec<u8>>, _>("summary")?.map(Bytes::from),
        owner: row.try_get("node")?,
        size: row.try_get::<i64, _>("size")?.try_into().unwrap_or_default(),
        number: row.try_get::<i64, _>("created")?.unsigned_abs(),
        epoch: row.try_get::<i64, _>("epoch")?.unsigned_abs(),
    })
}

/// The row of a process.
struct ProcessRow {
    owner: String,
    epoch: i64,
    head: Vec<u8>,
    ended: bool,
}

/// Reads the acknowledged records of a journal.
pub(super) async fn load(pool: &PgPool, process: &str, owned: Option<Owned>) -> Result<Journal, Error> {
    let found = retry(|| async {
        let row = sqlx::query(
            "SELECT owner, epoch, head, summary IS NOT NULL AS ended FROM xavantes.processes WHERE process = $1",
        )
        .bind(process)
        .fetch_optional(pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(ProcessRow {
            owner: row.try_get("owner")?,
            epoch: row.try_get("epoch")?,
            head: row.try_get("head")?,
            ended: row.try_get("ended")?,
        }))
    })
    .await?;
    let unknown = || Error::Unknown(process.into());
    let stored = found.ok_or_else(unknown)?;
    let owned = match owned {
        Some(owned) if stored.owner == owned.session && stored.epoch == owned.epoch => owned,
        _ if stored.ended => return Err(unknown()),
        _ => return Err(Error::NotOwned(process.into())),
    };
    // One statement reads a consistent journal while other transactions remove records.
    let records: Vec<(i64, bool, Vec<u8>)> = retry(|| async {
        sqlx::query_as(
            "SELECT number, is_snapshot, content FROM xavantes.records
             WHERE process = $1 AND number < $2 AND number >= coalesce(
                 (SELECT max(number) FROM xavantes.records WHERE process = $1 AND number < $2 AND is_snapshot), 0)
             ORDER BY number",
        )
        .bind(process)
        .bind(owned.next_record)
        .fetch_all(pool)
        .await
    })
    .await?;
    let first = records.first().filter(|(_, is_snapshot, _)| *is_snapshot).map_or(0, |(number, ..)| *number);
    let epoch = owned.epoch.unsigned_abs();
    let mut journal = Journal { epoch, head: stored.head.into(), snapshot: None, records: Vec::new() };
    let mut expected = first;
    for (number, is_snapshot, content) in records {
        if number != expected {
            break;
        }
        expected += 1;
        if is_snapshot {
            journal.snapshot = Some(content.into());
        } else {
            journal.records.push(content.into());
        }
    }
    if expected == owned.next_record {
        return Ok(journal);
    }
    Err(Error::Damaged {
        process: process.into(),
        file: "table xavantes.records".into(),
        record: expected.try_into().unwrap_or_default(),
        problem: "it is missing; restore the database from a backup".into(),
    })
}

/// Reads the documents of a kind, in the order of keys.
pub(super) async fn documents(pool: &PgPool, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
    let rows: Vec<(String, Vec<u8>)> = retry(|| async {
        let rows = sqlx::query_as("SELECT key, content FROM xavantes.documents WHERE kind = $1 ORDER BY key");
        rows.bind(kind).fetch_all(pool).await
    })
    .await?;
    Ok(rows.into_iter().map(|(key, content)| (key, content.into())).collect())
}

/// Reads one document.
pub(super) async fn document(pool: &PgPool, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
    let row: Option<(Vec<u8>,)> = retry(|| async {
        let row = sqlx::query_as("SELECT content FROM xavantes.documents WHERE kind = $1 AND key = $2");
        row.bind(kind).bind(key).fetch_optional(pool).await
    })
    .await?;
    Ok(row.map(|(content,)| content.into()))
}
