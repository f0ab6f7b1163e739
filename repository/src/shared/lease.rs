//! The session of a shared store: what it has is its own as long as it renews its lease.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use super::in_time;
use crate::random_name;

/// Whoever does not renew for so long may lose what it has.
pub(super) const LEASE: &str = "10 seconds";
const RENEWAL: Duration = Duration::from_secs(3);
/// After a failure it is tried again sooner.
const RETRY: Duration = Duration::from_millis(500);

/// The current session; a store gets another one if its lease has been ended by others.
#[derive(Clone)]
pub(super) struct Session(Arc<Mutex<String>>);

impl Session {
    /// Begins, and ends former lives of this node: others of the same name.
    pub(super) async fn begin(connection: &mut PgConnection, node: &str) -> sqlx::Result<Self> {
        sqlx::query("DELETE FROM xavantes.owners WHERE node = $1").bind(node).execute(&mut *connection).await?;
        // Who is silent for so long has lost everything, or will at the next claim.
        sqlx::query("DELETE FROM xavantes.owners WHERE lease_until < clock_timestamp() - interval '1 day'")
            .execute(&mut *connection)
            .await?;
        let session = random_name();
        insert(&session, node).execute(connection).await?;
        Ok(Self(Arc::new(Mutex::new(session))))
    }

    pub(super) fn id(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Renews it for ever.
    pub(super) async fn keep(self, pool: PgPool, node: String) {
        loop {
            let pause = match in_time(RENEWAL, self.renew(&pool, &node)).await {
                Ok(()) => RENEWAL,
                Err(error) => {
                    tracing::warn!(%error, "the lease in the repository could not be renewed");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn renew(&self, pool: &PgPool, node: &str) -> sqlx::Result<()> {
        let renewal = sqlx::query(
            "UPDATE xavantes.owners SET lease_until = clock_timestamp() + $2::text::interval WHERE session = $1",
        );
        if renewal.bind(self.id()).bind(LEASE).execute(pool).await?.rows_affected() == 0 {
            // What it had stays with the old session, and goes to whoever claims it.
            tracing::error!(node, "another node of the same name has taken over in the repository");
            let session = random_name();
            insert(&session, node).execute(pool).await?;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = session;
        }
        Ok(())
    }

    /// Whoever wants can have at once what it had.
    pub(super) async fn end(&self, pool: &PgPool) -> sqlx::Result<()> {
        let end = sqlx::query("DELETE FROM xavantes.owners WHERE session = $1").bind(self.id());
        end.execute(pool).await.map(|_| ())
    }
}

fn insert(session: &str, node: &str) -> sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let sql = "INSERT INTO xavantes.owners (session, node, lease_until)
               VALUES ($1, $2, clock_timestamp() + $3::text::interval)";
    sqlx::query(sql).bind(session.to_owned()).bind(node.to_owned()).bind(LEASE)
}
