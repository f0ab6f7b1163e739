//! Connections to the database, the repetition of statements that fail temporarily, and the translation of errors.

use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

use crate::error::Error;

/// The store repeats a statement that fails temporarily for this long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A connection without an answer for this long counts as broken. Large payloads take a while.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Upper bound on connections for reading, because a database has few connections for many nodes.
const MAX_READ_CONNECTIONS: u32 = 4;

/// SQLSTATE prefixes of temporary errors: connections (08), resources (53), shutdown of the server (57P), transactions
/// in conflict (40), a server that is read-only during a failover (25006), internal errors (XX).
const TEMPORARY_STATES: [&str; 6] = ["08", "53", "57P", "40", "25006", "XX"];

pub(super) fn options(url: &str) -> Result<PgConnectOptions, Error> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::Broken(format!("this is not the address of a PostgreSQL database: {error}")))?;
    Ok(options.application_name("xavantes"))
}

/// Connections for reading.
pub(super) fn pool(options: PgConnectOptions) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(MAX_READ_CONNECTIONS).acquire_timeout(RETRY_TIMEOUT);
    pool.connect_lazy_with(options)
}

/// Connects for writing. Overrides a default of the database under which commits are not durable.
pub(super) async fn connect(options: &PgConnectOptions) -> sqlx::Result<PgConnection> {
    let mut connection = PgConnection::connect_with(options).await?;
    let durable = "SELECT set_config('synchronous_commit', 'on', false)
                   WHERE current_setting('synchronous_commit') = 'off'";
    sqlx::query(durable).execute(&mut connection).await?;
    Ok(connection)
}

/// The same statement may succeed later.
fn is_temporary(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => {
            error.code().is_some_and(|code| TEMPORARY_STATES.iter().any(|prefix| code.starts_with(prefix)))
        }
        _ => false,
    }
}

pub(super) fn to_error(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::PoolClosed => Error::ended(),
        error if is_temporary(&error) => Error::Unavailable(format!("the database: {error}")),
        error => Error::Broken(format!("the database: {error}")),
    }
}

/// Repeats an attempt while it fails temporarily.
pub(super) async fn retry<T, F: Future<Output = sqlx::Result<T>>>(mut attempt: impl FnMut() -> F) -> Result<T, Error> {
    let retries = Retries::new();
    loop {
        match with_timeout(STATEMENT_TIMEOUT, attempt()).await {
            Ok(result) => return Ok(result),
            Err(error) => retries.wait_after(error).await?,
        }
    }
}

pub(super) async fn with_timeout<T>(
    limit: Duration,
    attempt: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let timed_out = |_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(timed_out)
}

/// The repetitions of one statement.
pub(super) struct Retries {
    began: Instant,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self { began: Instant::now() }
    }

    /// Waits before the next attempt. Returns the error if it is permanent or the retries took too long.
    pub(super) async fn wait_after(&self, error: sqlx::Error) -> Result<(), Error> {
        if !is_temporary(&error) || self.began.elapsed() > RETRY_TIMEOUT {
            return Err(to_error(error));
        }
        tracing::debug!(%error, "statement failed; trying again");
        tokio::time::sleep(RETRY_INTERVAL).await;
        Ok(())
    }
}
