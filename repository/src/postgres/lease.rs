//! The session of a PostgreSQL store. The session owns its processes while it renews its lease.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::{PgConnection, PgPool};

use super::database_connection::with_timeout;
use crate::names::random_name;

/// Duration of a lease, as an interval of PostgreSQL. Other sessions may claim the processes of a session that does not
/// renew its lease within this time.
pub(super) const LEASE: &str = "10 seconds";
/// The same duration.
pub(super) const LEASE_TIME: Duration = Duration::from_secs(10);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The current session of a store. The store begins another session if it finds that another node ended this one.
#[derive(Clone)]
pub(super) struct Session {
    id: Arc<Mutex<String>>,
}

impl Session {
    /// Begins a session. Ends earlier sessions of the same node, which belong to earlier runs of it.
    pub(super) async fn begin(connection: &mut PgConnection, node: &str) -> sqlx::Result<Self> {
        sqlx::query("DELETE FROM xavantes.owners WHERE node = $1").bind(node).execute(&mut *connection).await?;
        // Other sessions have claimed the processes of such an old session, or can still claim them without its row.
        sqlx::query("DELETE FROM xavantes.owners WHERE lease_until < clock_timestamp() - interval '1 day'")
            .execute(&mut *connection)
            .await?;
        let id = random_name();
        insert(&id, node).execute(connection).await?;
        Ok(Self { id: Arc::new(Mutex::new(id)) })
    }

    pub(super) fn id(&self) -> String {
        self.id.lock().clone()
    }

    /// Renews the lease until the task ends.
    pub(super) async fn renew_forever(self, pool: PgPool, node: String) {
        loop {
            let pause = match with_timeout(RENEWAL_INTERVAL, self.renew(&pool, &node)).await {
                Ok(()) => RENEWAL_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "cannot renew the lease in the repository");
                    RETRY_INTERVAL
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
            // The processes stay with the old session until another session claims them.
            tracing::error!(node, "another node of the same name has taken over in the repository");
            let id = random_name();
            insert(&id, node).execute(pool).await?;
            *self.id.lock() = id;
        }
        Ok(())
    }

    /// Ends the lease, so that other sessions can claim the processes at once.
    pub(super) async fn end(&self, pool: &PgPool) -> sqlx::Result<()> {
        let end = sqlx::query("DELETE FROM xavantes.owners WHERE session = $1").bind(self.id());
        end.execute(pool).await.map(drop)
    }
}

fn insert(session: &str, node: &str) -> sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let sql = "INSERT INTO xavantes.owners (session, node, lease_until)
               VALUES ($1, $2, clock_timestamp() + $3::text::interval)";
    sqlx::query(sql).bind(session.to_owned()).bind(node.to_owned()).bind(LEASE)
}
