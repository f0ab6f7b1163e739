//! The tables of the shared store, and how they come about.

use sqlx::{Connection, PgConnection};

use super::failed;
use crate::{Error, random_name};

/// Each step is taken once, in this order, and never changed afterwards.
const STEPS: &[(&str, &str)] = &[
    (
        "processes, journals and documents",
        r#"
    CREATE TABLE xavantes.repository (realm text NOT NULL);

    -- A session is a store that a node has open. It has what it has as long as it renews its lease.
    CREATE TABLE xavantes.owners (
        session text PRIMARY KEY,
        node text NOT NULL,
        lease_until timestamptz NOT NULL
    );

    -- The epoch counts the owners that a process has had.
    CREATE TABLE xavantes.processes (
        process text COLLATE "C" PRIMARY KEY,
        owner text NOT NULL,
        node text NOT NULL,
        epoch bigint NOT NULL,
        head bytea NOT NULL,
        summary bytea
    );
    CREATE INDEX running ON xavantes.processes (owner) WHERE summary IS NULL;

    CREATE TABLE xavantes.records (
        process text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        is_snapshot boolean NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (process, number)
    );

    CREATE TABLE xavantes.documents (
        kind text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (kind, key)
    );
    "#,
    ),
    (
        "epochs that never come again",
        r#"
    -- An id may be used again when its process is forgotten; then too the epoch is larger than before.
    CREATE SEQUENCE xavantes.epochs;
    SELECT setval('xavantes.epochs', coalesce(max(epoch), 0) + 1) FROM xavantes.processes;
    ALTER TABLE xavantes.processes ADD COLUMN created bigint NOT NULL DEFAULT 1;
    "#,
    ),
];

/// Any number that other programs in the same database are not likely to use for their locks.
const LOCK: i64 = 0x7861_7661_6e74_6573;

/// Takes the steps that have not been taken.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<Vec<String>, Error> {
    let mut transaction = connection.begin().await.map_err(failed)?;
    // Two that do this at once take turns; the lock ends with the transaction.
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await.map_err(failed)?;
    sqlx::raw_sql(
        "CREATE SCHEMA IF NOT EXISTS xavantes;
         CREATE TABLE IF NOT EXISTS xavantes.migrations (
             version integer PRIMARY KEY, name text NOT NULL, taken timestamptz NOT NULL DEFAULT now());",
    )
    .execute(&mut *transaction)
    .await
    .map_err(failed)?;
    let taken = version(&mut transaction).await?.unwrap_or_default();
    refuse_newer(taken)?;
    let mut told = Vec::new();
    for (version, (name, step)) in (1i32..).zip(STEPS).skip(taken) {
        sqlx::raw_sql(*step).execute(&mut *transaction).await.map_err(failed)?;
        if version == 1 {
            let realm = sqlx::query("INSERT INTO xavantes.repository (realm) VALUES ($1)").bind(random_name());
            realm.execute(&mut *transaction).await.map_err(failed)?;
        }
        let note = sqlx::query("INSERT INTO xavantes.migrations (version, name) VALUES ($1, $2)");
        note.bind(version).bind(*name).execute(&mut *transaction).await.map_err(failed)?;
        told.push(format!("step {version}: {name}"));
    }
    transaction.commit().await.map_err(failed)?;
    Ok(told)
}

/// Gives the realm, if the tables are as they should be.
pub(super) async fn check(connection: &mut PgConnection) -> Result<String, Error> {
    let taken = version(connection).await?.unwrap_or_default();
    refuse_newer(taken)?;
    if taken < STEPS.len() {
        return Err(Error::Broken(
            "the database has not been prepared for this version: run `xavantes repository migrate --repository URL`"
                .into(),
        ));
    }
    sqlx::query_scalar("SELECT realm FROM xavantes.repository").fetch_one(connection).await.map_err(failed)
}

/// How many steps have been taken, if any.
async fn version(connection: &mut PgConnection) -> Result<Option<usize>, Error> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('xavantes.migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    if !there {
        return Ok(None);
    }
    let version: Option<i32> = sqlx::query_scalar("SELECT max(version) FROM xavantes.migrations")
        .fetch_one(connection)
        .await
        .map_err(failed)?;
    Ok(version.and_then(|version| usize::try_from(version).ok()))
}

fn refuse_newer(taken: usize) -> Result<(), Error> {
    let known = STEPS.len();
    if taken <= known {
        return Ok(());
    }
    Err(Error::Broken(format!(
        "the database has tables of version {taken}; this version of Xavantes knows versions up to {known}: use a newer one"
    )))
}
