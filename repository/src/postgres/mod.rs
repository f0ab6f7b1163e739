//! The store in a PostgreSQL database that several nodes share.
//!
//! A session is one opened store of a node, and owns processes. Other sessions may claim them when the lease of the
//! session has expired by the clock of the database. Every claim gives the process a new epoch. Every change of a process
//! requires that its session and epoch are still the same, so a node that lost its lease without noticing does no harm.
//!
//! | module | is about |
//! |---|---|
//! | `committer` | the task that makes all changes |
//! | `transaction` | one transaction with many changes |
//! | `statements` | the SQL of changes |
//! | `ownership` | the processes that this store owns, and how it claims them |
//! | `lease` | the session and its lease |
//! | `queries` | reading journals, documents and processes |
//! | `migrations` | the tables and their migrations |
//! | `database_connection` | connecting, retrying and errors |

mod committer;
mod database_connection;
mod lease;
mod migrations;
mod ownership;
mod queries;
mod statements;
mod transaction;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::{Connection, PgConnection, PgPool};

use self::database_connection::{connect, options, pool, to_error};
use self::lease::Session;
use crate::committer_handle::{CommitterHandle, EndDocument};
use crate::error::{Error, check_name};

use crate::repository::{Claimed, Entry, Journal, OwnerLease, PageRequest, Repository};

/// The store in PostgreSQL. The committer makes its changes.
pub(crate) struct PostgresStore {
    realm: String,
    committer: CommitterHandle,
    pool: PgPool,
}

impl PostgresStore {
    pub(crate) async fn open(url: &str, node: &str) -> Result<Self, Error> {
        let options = options(url)?;
        let mut connection = connect(&options).await.map_err(to_error)?;
        let realm = migrations::check(&mut connection).await?;
        let session = Session::begin(&mut connection, node).await.map_err(to_error)?;
        statements::remove_orphaned_records(&mut connection).await.map_err(to_error)?;
        let pool = pool(options.clone());
        let (committer, requests) = CommitterHandle::new();
        committer::start(options, connection, pool.clone(), session, node.into(), requests);
        Ok(Self { realm, committer, pool })
    }
}

/// Creates the tables or brings them up to date.
pub(crate) async fn migrate(url: &str) -> Result<Vec<String>, Error> {
    let mut connection = PgConnection::connect_with(&options(url)?).await.map_err(to_error)?;
    let applied = migrations::migrate(&mut connection).await;
    // The end of the program closes the connection anyway.
    let _ = connection.close().await;
    applied
}

/// Refuses an id that no process can have, because PostgreSQL refuses NUL in texts.
fn check_id(process: &str) -> Result<(), Error> {
    check_name(process).map_err(|_| Error::Unknown(process.into()))
}

#[async_trait]
impl Repository for PostgresStore {
    fn realm(&self) -> &str {
        &self.realm
    }

    async fn create(&self, process: &str, head: Bytes) -> Result<u64, Error> {
        check_name(process)?;
        self.committer.create(process, head).await
    }

    async fn append(&self, process: &str, record: Bytes) -> Result<(), Error> {
        check_id(process)?;
        self.committer.append(process, record).await
    }

    async fn compact(&self, process: &str, snapshot: Bytes) -> Result<(), Error> {
        check_id(process)?;
        self.committer.compact(process, snapshot).await
    }

    async fn close(&self, process: &str, summary: Bytes) -> Result<(), Error> {
        check_id(process)?;
        self.committer.close(process, summary, None).await
    }

    async fn close_with(
        &self,
        process: &str,
        summary: Bytes,
        kind: &str,
        document: Option<Bytes>,
    ) -> Result<(), Error> {
        check_id(process)?;
        check_name(kind)?;
        let document = EndDocument { kind: kind.into(), content: document };
        self.committer.close(process, summary, Some(document)).await
    }

    async fn reopen(&self, process: &str, summary: &Bytes, snapshot: Bytes) -> Result<u64, Error> {
        check_id(process)?;
        self.committer.reopen(process, summary, snapshot).await
    }

    async fn claim(&self) -> Result<Claimed, Error> {
        self.committer.claim().await
    }

    async fn load(&self, process: &str) -> Result<Journal, Error> {
        check_id(process)?;
        self.committer.load(process).await
    }

    async fn list(&self) -> Result<Vec<Entry>, Error> {
        queries::list(&self.pool).await
    }

    async fn page(&self, request: &PageRequest) -> Result<Vec<Entry>, Error> {
        queries::page(&self.pool, request).await
    }

    async fn ids(&self, prefix: &str, max_items: usize) -> Result<Vec<String>, Error> {
        if prefix.contains('\0') {
            return Ok(Vec::new());
        }
        queries::ids(&self.pool, prefix, max_items).await
    }

    async fn find(&self, process: &str) -> Result<Option<Entry>, Error> {
        if check_name(process).is_err() {
            return Ok(None);
        }
        queries::find(&self.pool, process).await
    }

    async fn lease(&self, process: &str) -> Result<Option<OwnerLease>, Error> {
        if check_name(process).is_err() {
            return Ok(None);
        }
        queries::lease(&self.pool, process).await
    }

    async fn forget(&self, processes: &[String]) -> Result<Vec<String>, Error> {
        let valid = processes.iter().filter(|process| check_name(process).is_ok());
        self.committer.forget(valid.cloned().collect()).await
    }

    async fn put(&self, kind: &str, key: &str, document: Bytes) -> Result<(), Error> {
        check_name(kind)?;
        check_name(key)?;
        self.committer.put(kind, key, document).await
    }

    async fn get(&self, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
        if check_name(kind).and(check_name(key)).is_err() {
            return Ok(None);
        }
        self.committer.get(kind, key).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
        if check_name(kind).is_err() {
            return Ok(Vec::new());
        }
        self.committer.documents(kind).await
    }

    async fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        if check_name(kind).and(check_name(key)).is_err() {
            return Ok(());
        }
        self.committer.remove(kind, key).await
    }

    async fn shut_down(&self) {
        self.committer.shut_down().await;
    }
}
