//! The processes that a PostgreSQL store owns, and the changes whose outcome it does not know.
//!
//! If a connection breaks during a commit, the store does not know whether the commit took place. So a transaction never
//! removes acknowledged data that it replaces, and every transaction begins by undoing the unconfirmed changes. The store
//! can therefore repeat a failed transaction.

use std::collections::HashMap;

use sqlx::{Connection, PgConnection, Row};

use super::lease::Session;
use crate::repository::Claimed;

/// The processes of a store.
pub(super) struct Ownership {
    pub(super) session: Session,
    pub(super) node: String,
    /// Processes that this store owns, as far as it knows.
    pub(super) owned: HashMap<String, Owned>,
    /// Processes with the session that may have created them in an unconfirmed transaction.
    pub(super) unconfirmed_creations: HashMap<String, String>,
}

/// A process that the store owns.
#[derive(Clone)]
pub(super) struct Owned {
    pub(super) session: String,
    pub(super) epoch: i64,
    /// Number of the next record.
    pub(super) next_record: i64,
    /// The database may have changes of the process that the store did not acknowledge.
    pub(super) unconfirmed: bool,
}

impl Ownership {
    pub(super) fn new(session: Session, node: String) -> Self {
        Self { session, node, owned: HashMap::new(), unconfirmed_creations: HashMap::new() }
    }

    /// Undoes unconfirmed records, ends and creations.
    pub(super) async fn undo_unconfirmed(&self, transaction: &mut PgConnection) -> sqlx::Result<()> {
        let unconfirmed: Vec<_> = self.owned.iter().filter(|(_, owned)| owned.unconfirmed).collect();
        if !unconfirmed.is_empty() {
            let undo = sqlx::query(
                "WITH mine AS (
                     UPDATE xavantes.processes p SET summary = NULL
                     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS d (process, owner, epoch, next)
                     WHERE p.process = d.process AND p.owner = d.owner AND p.epoch = d.epoch
                     RETURNING p.process, d.next)
                 DELETE FROM xavantes.records r USING mine WHERE r.process = mine.process AND r.number >= mine.next",
            );
            undo.bind(unconfirmed.iter().map(|(process, _)| &process[..]).collect::<Vec<_>>())
                .bind(unconfirmed.iter().map(|(_, owned)| &owned.session[..]).collect::<Vec<_>>())
                .bind(unconfirmed.iter().map(|(_, owned)| owned.epoch).collect::<Vec<_>>())
                .bind(unconfirmed.iter().map(|(_, owned)| owned.next_record).collect::<Vec<_>>())
                .execute(&mut *transaction)
                .await?;
        }
        if !self.unconfirmed_creations.is_empty() {
            let (processes, sessions): (Vec<_>, Vec<_>) =
                self.unconfirmed_creations.iter().map(|(process, session)| (&process[..], &session[..])).unzip();
            let undo = sqlx::query(
                "WITH mine AS (
                     DELETE FROM xavantes.processes p USING unnest($1::text[], $2::text[]) AS d (process, owner)
                     WHERE p.process = d.process AND p.owner = d.owner AND p.epoch = p.created
                     RETURNING p.process)
                 DELETE FROM xavantes.records r USING mine WHERE r.process = mine.process",
            );
            undo.bind(processes).bind(sessions).execute(transaction).await?;
        }
        Ok(())
    }

    /// Notes that [`undo_unconfirmed`](Self::undo_unconfirmed) is durable.
    pub(super) fn on_undone(&mut self) {
        self.unconfirmed_creations.clear();
        self.owned.values_mut().for_each(|owned| owned.unconfirmed = false);
    }

    /// Claims the running processes of sessions without a valid lease. Returns all processes of this session, including
    /// those of an earlier claim whose answer was lost.
    pub(super) async fn claim(&self, connection: &mut PgConnection) -> sqlx::Result<HashMap<String, Owned>> {
        let session = self.session.id();
        let mut transaction = connection.begin().await?;
        self.undo_unconfirmed(&mut transaction).await?;
        let expired: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT p.owner FROM xavantes.processes p LEFT JOIN xavantes.owners o ON o.session = p.owner
             WHERE p.summary IS NULL AND p.owner <> $1 AND (o.session IS NULL OR o.lease_until < clock_timestamp())",
        )
        .bind(&session[..])
        .fetch_all(&mut *transaction)
        .await?;
        if !expired.is_empty() {
            let claim = sqlx::query(
                "UPDATE xavantes.processes SET owner = $1, node = $2, epoch = nextval('xavantes.epochs')
                 WHERE process IN (
                     SELECT process FROM xavantes.processes WHERE summary IS NULL AND owner = ANY ($3)
                     FOR UPDATE SKIP LOCKED)",
            );
            claim.bind(&session[..]).bind(&self.node[..]).bind(expired).execute(&mut *transaction).await?;
        }
        let rows = sqlx::query(
            "SELECT process, epoch,
                 coalesce((SELECT max(number) + 1 FROM xavantes.records r WHERE r.process = p.process), 0) AS next
             FROM xavantes.processes p WHERE summary IS NULL AND owner = $1",
        )
        .bind(&session[..])
        .fetch_all(&mut *transaction)
        .await?;
        transaction.commit().await?;
        let mut claimed = HashMap::new();
        for row in rows {
            let process: String = row.try_get("process")?;
            let owned = Owned {
                session: session.clone(),
                epoch: row.try_get("epoch")?,
                next_record: row.try_get("next")?,
                unconfirmed: false,
            };
            claimed.insert(process, owned);
        }
        Ok(claimed)
    }

    /// Takes over the result of a [`claim`](Self::claim).
    pub(super) fn on_claimed(&mut self, mut now: HashMap<String, Owned>) -> Claimed {
        self.on_undone();
        let mut lost = Vec::new();
        let mut kept = HashMap::new();
        for (process, owned) in std::mem::take(&mut self.owned) {
            // A process that another node owned in between is lost in this claim, and gained in the next one.
            let found = now.remove(&process);
            if found.is_some_and(|now| now.session == owned.session && now.epoch == owned.epoch) {
                kept.insert(process, owned);
            } else {
                lost.push(process);
            }
        }
        let mut gained: Vec<String> = now.keys().cloned().collect();
        gained.sort();
        kept.extend(now);
        self.owned = kept;
        Claimed { gained, lost }
    }
}
