//! The tables of the PostgreSQL store. The files in `migrations/` create them; their order never changes.
//!
//! The first versions of the program recorded their migrations in `xavantes.migrations`, and now sqlx records them in
//! `xavantes._sqlx_migrations`. A database with only the former keeps working and is taken over by the next [`migrate`].

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlSafeStr};

use super::database_connection::to_error;
use crate::error::Error;

const HISTORY: &str = "xavantes._sqlx_migrations";
const OLD_HISTORY: &str = "xavantes.migrations";

/// Version, description and statements of each migration. A database records a digest of the statements, so a file never
/// changes after its release. The list spares the macro of sqlx, which compiles its PostgreSQL client a second time.
const MIGRATIONS: [(i64, &str, &str); 4] = [
    (1, "processes and documents", include_str!("../../migrations/0001_processes_and_documents.sql")),
    (2, "unique epochs", include_str!("../../migrations/0002_unique_epochs.sql")),
    (3, "order of creation", include_str!("../../migrations/0003_order_of_creation.sql")),
    (4, "unfinished processes", include_str!("../../migrations/0004_unfinished_processes.sql")),
];

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.map(|(version, description, statements)| {
        let statements = statements.into_sql_str();
        Migration::new(version, description.into(), MigrationType::Simple, statements, false)
    });
    let mut migrator = Migrator::with_migrations(migrations.into());
    migrator.dangerous_set_table_name(HISTORY);
    migrator.create_schema("xavantes");
    migrator
}

/// Applies the missing migrations. Returns one line for each.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<Vec<String>, Error> {
    let migrator = migrator();
    // Two programs that migrate at once take turns. The lock ends with the connection.
    connection.lock().await.map_err(from_migrate_error)?;
    let before = version(connection).await?;
    refuse_newer(&migrator, before)?;
    if recorded_version(connection).await? < before {
        migrator.skip(&mut *connection, Some(before)).await.map_err(from_migrate_error)?;
    }
    migrator.run(&mut *connection).await.map_err(from_migrate_error)?;
    let applied = migrator.iter().filter(|migration| migration.version > before);
    Ok(applied.map(|migration| format!("step {}: {}", migration.version, migration.description)).collect())
}

/// Checks that the tables are up to date. Returns the realm.
pub(super) async fn check(connection: &mut PgConnection) -> Result<String, Error> {
    let migrator = migrator();
    let version = version(connection).await?;
    refuse_newer(&migrator, version)?;
    if version < newest(&migrator) {
        return Err(Error::Broken(
            "the database has not been prepared for this version: run `xavantes repository migrate --repository URL`"
                .into(),
        ));
    }
    sqlx::query_scalar("SELECT realm FROM xavantes.repository").fetch_one(connection).await.map_err(to_error)
}

fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or_default()
}

fn refuse_newer(migrator: &Migrator, version: i64) -> Result<(), Error> {
    let known = newest(migrator);
    if version <= known {
        return Ok(());
    }
    Err(Error::Broken(format!(
        "the database has tables of version {version}; this version of Xavantes knows versions up to {known}: \
         use a newer one"
    )))
}

/// Version of the last migration, 0 without any.
async fn version(connection: &mut PgConnection) -> Result<i64, Error> {
    Ok(recorded_version(connection).await?.max(old_version(connection).await?))
}

/// Version of the last migration that sqlx recorded, 0 without any.
async fn recorded_version(connection: &mut PgConnection) -> Result<i64, Error> {
    if !has_table(connection, HISTORY).await? {
        return Ok(0);
    }
    let version = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM xavantes._sqlx_migrations");
    version.fetch_one(connection).await.map_err(to_error)
}

/// Version of the last migration that a former version of the program recorded, 0 without any.
async fn old_version(connection: &mut PgConnection) -> Result<i64, Error> {
    if !has_table(connection, OLD_HISTORY).await? {
        return Ok(0);
    }
    let version = sqlx::query_scalar("SELECT coalesce(max(version), 0)::bigint FROM xavantes.migrations");
    version.fetch_one(connection).await.map_err(to_error)
}

async fn has_table(connection: &mut PgConnection, name: &str) -> Result<bool, Error> {
    let found = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(name);
    found.fetch_one(connection).await.map_err(to_error)
}

fn from_migrate_error(error: MigrateError) -> Error {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => to_error(error),
        error => Error::Broken(format!("the database cannot be migrated: {error}")),
    }
}
