//! The store in a PostgreSQL database, which several nodes share.
//!
//! A process belongs to a session, which is a store that a node has open. Others may claim it when the session's lease is
//! over, by the clock of the database; every claim gives the process a new epoch. All changes of a process are made on
//! the condition that session and epoch are still the same, so whoever was taken for dead cannot do harm.

mod committer;
mod lease;
mod schema;

use std::str::FromStr;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::{Connection, PgConnection, PgPool, Row};

use self::lease::Session;
use crate::requests::{Change, Queue, Request, ended};
use crate::{Claimed, Entry, Error, Journal, Repository, check_name};

/// For so long something is tried again that failed because the database does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that does not answer for so long is taken for broken. Large payloads may take a while.
const SILENCE: Duration = Duration::from_secs(60);

/// A handle: the committer does the work, except for reading.
pub(crate) struct Shared {
    realm: String,
    queue: Queue,
    pool: PgPool,
}

impl Shared {
    pub(crate) async fn open(url: &str, node: &str) -> Result<Self, Error> {
        let options = options(url)?;
        let mut connection = committer::connect(&options).await.map_err(failed)?;
        let realm = schema::check(&mut connection).await?;
        let session = Session::begin(&mut connection, node).await.map_err(failed)?;
        committer::remove_left_records(&mut connection).await.map_err(failed)?;
        let pool = PgPoolOptions::new().max_connections(4).acquire_timeout(PATIENCE).connect_lazy_with(options.clone());
        let (queue, requests) = Queue::new();
        committer::start(options, connection, pool.clone(), session, node.into(), requests);
        Ok(Self { realm, queue, pool })
    }

    async fn entries(&self, condition: &'static str, process: &str) -> Result<Vec<Entry>, Error> {
        persist(|| async {
            let rows = sqlx::query(condition).bind(process).fetch_all(&self.pool).await?;
            rows.iter().map(entry).collect()
        })
        .await
    }
}

pub(crate) async fn migrate(url: &str) -> Result<Vec<String>, Error> {
    let mut connection = PgConnection::connect_with(&options(url)?).await.map_err(failed)?;
    let told = schema::migrate(&mut connection).await?;
    // It is closed anyway.
    let _ = connection.close().await;
    Ok(told)
}

fn options(url: &str) -> Result<PgConnectOptions, Error> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::Broken(format!("this is not the address of a PostgreSQL database: {error}")))?;
    Ok(options.application_name("xavantes"))
}

/// The database may answer if it is asked again later.
fn is_temporary(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => true,
        // Connections, resources, being shut down, and transactions that were in each other's way.
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| ["08", "53", "57P", "40", "25006", "XX"].iter().any(|prefix| code.starts_with(prefix))),
        _ => false,
    }
}

fn failed(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::PoolClosed => ended(),
        error if is_temporary(&error) => Error::Unavailable(format!("the database: {error}")),
        error => Error::Broken(format!("the database: {error}")),
    }
}

/// Tries for a while.
async fn persist<T, F: Future<Output = sqlx::Result<T>>>(mut attempt: impl FnMut() -> F) -> Result<T, Error> {
    let patience = Patience::new();
    loop {
        match in_time(SILENCE, attempt()).await {
            Ok(result) => return Ok(result),
            Err(error) => patience.after(error).await?,
        }
    }
}

async fn in_time<T>(limit: Duration, attempt: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silence = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(silence)
}

/// Of somebody who has tried since then.
struct Patience(Instant);

impl Patience {
    fn new() -> Self {
        Self(Instant::now())
    }

    /// Waits a moment if it is worth trying again, and gives up otherwise.
    async fn after(&self, error: sqlx::Error) -> Result<(), Error> {
        if !is_temporary(&error) || self.0.elapsed() > PATIENCE {
            return Err(failed(error));
        }
        tracing::debug!(%error, "the database is asked again");
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(())
    }
}

fn entry(row: &PgRow) -> sqlx::Result<Entry> {
    Ok(Entry {
        process: row.try_get("process")?,
        head: row.try_get::<Vec<u8>, _>("head")?.into(),
        summary: row.try_get::<Option<Vec<u8>>, _>("summary")?.map(Bytes::from),
        owner: row.try_get("node")?,
        size: row.try_get::<i64, _>("size")?.try_into().unwrap_or_default(),
    })
}

/// The database must not be asked for what cannot be there.
fn possible(process: &str) -> Result<(), Error> {
    check_name(process).map_err(|_| Error::Unknown(process.into()))
}

/// The length of what is kept is known without reading it.
macro_rules! entries_where {
    ($condition:literal) => {
        concat!(
            "SELECT process, node, head, summary,
                 (octet_length(head) + coalesce(octet_length(summary), 0)
                     + coalesce((SELECT sum(octet_length(content)) FROM xavantes.records r WHERE r.process = p.process), 0)
                 )::bigint AS size
             FROM xavantes.processes p WHERE ",
            $condition,
            " ORDER BY process"
        )
    };
}

#[async_trait]
impl Repository for Shared {
    fn realm(&self) -> &str {
        &self.realm
    }

    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        check_name(process)?;
        self.queue.create(process, head).await
    }

    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        possible(process)?;
        self.queue.change(Change::Append(process.into(), record)).await
    }

    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        possible(process)?;
        self.queue.change(Change::Compact(process.into(), snapshot)).await
    }

    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error> {
        possible(process)?;
        self.queue.change(Change::Close(process.into(), summary)).await
    }

    async fn claim(&self) -> Result<Claimed, Error> {
        self.queue.ask(Request::Claim).await
    }

    async fn load(&self, process: &str) -> Result<Journal, Error> {
        possible(process)?;
        self.queue.ask(|answer| Request::Load(process.into(), answer)).await
    }

    async fn list(&self) -> Result<Vec<Entry>, Error> {
        self.entries(entries_where!("$1 = ''"), "").await
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        if check_name(process).is_err() {
            return Ok(None);
        }
        Ok(self.entries(entries_where!("process = $1"), process).await?.pop())
    }

    async fn forget(&self, processes: &[String]) -> Result<(), Error> {
        let possible = processes.iter().filter(|process| check_name(process).is_ok());
        self.queue.change(Change::Forget(possible.cloned().collect())).await
    }

    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        check_name(kind)?;
        check_name(key)?;
        self.queue.change(Change::Put(kind.into(), key.into(), document)).await
    }

    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        if check_name(kind).and(check_name(key)).is_err() {
            return Ok(None);
        }
        self.queue.ask(|answer| Request::Get(kind.into(), key.into(), answer)).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        if check_name(kind).is_err() {
            return Ok(Vec::new());
        }
        self.queue.ask(|answer| Request::Documents(kind.into(), answer)).await
    }

    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        if check_name(kind).and(check_name(key)).is_err() {
            return Ok(());
        }
        self.queue.change(Change::Remove(kind.into(), key.into())).await
    }

    async fn shut_down(&self) {
        self.queue.shut_down().await;
    }
}
