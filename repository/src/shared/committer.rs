//! The task that makes all changes of the shared store.
//!
//! It takes all changes that wait and makes them in one transaction. While the database writes, more gather.
//!
//! If a connection breaks during a commit, nobody knows whether that took place. So nothing that was acknowledged is
//! removed in the same transaction that replaces it, and every transaction begins by undoing what is in doubt. Then it
//! can simply be made again.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, PgPool, Row};
use tokio::sync::{mpsc, oneshot};

use super::lease::{LEASE, Session};
use super::{Patience, SILENCE, in_time, persist};
use crate::requests::{Change, Request, send};
use crate::{Claimed, Error, Journal};

/// After so many bytes of payloads a group is committed even if more requests wait.
const GROUP: u64 = 16 * 1024 * 1024;

pub(super) fn start(
    options: PgConnectOptions,
    connection: PgConnection,
    pool: PgPool,
    session: Session,
    node: String,
    requests: mpsc::Receiver<Request>,
) {
    let renewal = tokio::spawn(session.clone().keep(pool.clone(), node.clone()));
    let state = State { session, node, held: HashMap::new(), doubtful: HashMap::new() };
    let mut committer = Committer { options, connection: Some(connection), pool, state };
    tokio::spawn(async move {
        let ended = committer.run(requests).await;
        renewal.abort();
        if let Some(answer) = ended {
            if let Err(error) = committer.state.session.end(&committer.pool).await {
                tracing::warn!(%error, "the lease in the repository ends by itself");
            }
            committer.pool.close().await;
            // Nobody waits any more if this fails.
            let _ = answer.send(());
        }
    });
}

struct Committer {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    /// For reading.
    pool: PgPool,
    state: State,
}

/// What this store has.
struct State {
    session: Session,
    node: String,
    /// The processes that are this store's, as far as it knows.
    held: HashMap<String, Held>,
    /// Processes that may have been created, by a session, though nobody was told so.
    doubtful: HashMap<String, String>,
}

#[derive(Clone)]
struct Held {
    session: String,
    epoch: i64,
    /// The number of the next record.
    next: i64,
    /// More than what was acknowledged may be in the database.
    in_doubt: bool,
}

/// What a transaction does to a process.
struct Plan<'a> {
    held: Held,
    /// From the next number on.
    records: Vec<&'a Bytes>,
    /// The first of the records is one.
    has_snapshot: bool,
    summary: Option<&'a Bytes>,
}

/// What a transaction that was committed has done.
struct Done {
    /// With the epochs of processes that were created.
    verdicts: Vec<Result<u64, Error>>,
    held: HashMap<String, Held>,
    closed: Vec<String>,
    garbage: Garbage,
}

/// Records that are not needed any more: those before a number of a process, as long as it is still this owner's.
#[derive(Default)]
struct Garbage {
    processes: Vec<String>,
    owners: Vec<String>,
    epochs: Vec<i64>,
    before: Vec<i64>,
}

impl Garbage {
    fn add(&mut self, process: &str, held: &Held, before: i64) {
        self.processes.push(process.into());
        self.owners.push(held.session.clone());
        self.epochs.push(held.epoch);
        self.before.push(before);
    }
}

impl Committer {
    /// Until it is to end, or nobody can ask any more. Gives who waits for the end.
    async fn run(&mut self, mut requests: mpsc::Receiver<Request>) -> Option<oneshot::Sender<()>> {
        let mut next = None;
        loop {
            let request = match next.take() {
                Some(request) => request,
                None => requests.recv().await?,
            };
            match request {
                Request::Change(change, answer) => {
                    let mut bytes = change.adds().unwrap_or_default();
                    // What is forgotten may have been closed just before, and may be created again just after.
                    let mut complete = matches!(change, Change::Forget(_));
                    let mut changes = vec![change];
                    let mut answers = vec![answer];
                    while !complete && bytes < GROUP {
                        match requests.try_recv() {
                            Ok(Request::Change(change, answer)) if !matches!(change, Change::Forget(_)) => {
                                bytes += change.adds().unwrap_or_default();
                                changes.push(change);
                                answers.push(answer);
                            }
                            Ok(other) => {
                                next = Some(other);
                                complete = true;
                            }
                            Err(_) => break,
                        }
                    }
                    let (verdicts, garbage) = self.commit(&changes).await;
                    for (answer, verdict) in answers.into_iter().zip(verdicts) {
                        send(answer, verdict);
                    }
                    self.remove(garbage).await;
                }
                Request::Claim(answer) => send(answer, self.claim().await),
                Request::Load(process, answer) => {
                    let (pool, held) = (self.pool.clone(), self.state.held.get(&process).cloned());
                    tokio::spawn(async move { send(answer, load(&pool, &process, held).await) });
                }
                Request::Get(kind, key, answer) => {
                    let pool = self.pool.clone();
                    tokio::spawn(async move { send(answer, document(&pool, &kind, &key).await) });
                }
                Request::Documents(kind, answer) => {
                    let pool = self.pool.clone();
                    tokio::spawn(async move { send(answer, documents(&pool, &kind).await) });
                }
                Request::ShutDown(answer) => return Some(answer),
            }
        }
    }

    async fn commit(&mut self, changes: &[Change]) -> (Vec<Result<u64, Error>>, Garbage) {
        let patience = Patience::new();
        loop {
            match in_time(SILENCE, self.try_commit(changes)).await {
                Ok(done) => {
                    self.state.resolve_doubts();
                    self.state.held.extend(done.held);
                    for process in &done.closed {
                        self.state.held.remove(process);
                    }
                    return (done.verdicts, done.garbage);
                }
                Err(error) => {
                    if let Err(error) = patience.after(error).await {
                        return (changes.iter().map(|_| Err(error.clone())).collect(), Garbage::default());
                    }
                }
            }
        }
    }

    async fn claim(&mut self) -> Result<Claimed, Error> {
        let patience = Patience::new();
        loop {
            match in_time(SILENCE, self.try_claim()).await {
                Ok(mut now) => {
                    self.state.resolve_doubts();
                    let before = std::mem::take(&mut self.state.held);
                    let (mut kept, mut lost) = (HashMap::new(), Vec::new());
                    for (process, held) in before {
                        // What was lost to another node and came back is lost first, and gained the next time.
                        let found = now.remove(&process);
                        if found.is_some_and(|now| now.session == held.session && now.epoch == held.epoch) {
                            kept.insert(process, held);
                        } else {
                            lost.push(process);
                        }
                    }
                    let mut gained: Vec<String> = now.keys().cloned().collect();
                    gained.sort();
                    kept.extend(now);
                    self.state.held = kept;
                    return Ok(Claimed { gained, lost });
                }
                Err(error) => patience.after(error).await?,
            }
        }
    }

    /// A connection on which something failed is not used again.
    async fn try_commit(&mut self, changes: &[Change]) -> sqlx::Result<Done> {
        let mut connection = self.connection().await?;
        let done = self.state.commit(&mut connection, changes).await?;
        self.connection = Some(connection);
        Ok(done)
    }

    async fn try_claim(&mut self) -> sqlx::Result<HashMap<String, Held>> {
        let mut connection = self.connection().await?;
        let claimed = self.state.claim(&mut connection).await?;
        self.connection = Some(connection);
        Ok(claimed)
    }

    async fn connection(&mut self) -> sqlx::Result<PgConnection> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => connect(&self.options).await,
        }
    }

    /// If it fails, the records stay until the process is compacted again or forgotten.
    async fn remove(&mut self, garbage: Garbage) {
        let (Some(connection), false) = (&mut self.connection, garbage.processes.is_empty()) else { return };
        let removal = sqlx::query(
            "DELETE FROM xavantes.records r
             USING unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS g (process, owner, epoch, before),
                 xavantes.processes p
             WHERE r.process = g.process AND r.number < g.before
                 AND p.process = g.process AND p.owner = g.owner AND p.epoch = g.epoch",
        );
        let Garbage { processes, owners, epochs, before } = garbage;
        let removal = removal.bind(processes).bind(owners).bind(epochs).bind(before).execute(connection);
        if let Err(error) = in_time(SILENCE, removal).await {
            tracing::debug!(%error, "old records were not removed");
            self.connection = None;
        }
    }
}

/// Commits have to be durable, whatever the database does for others.
pub(super) async fn connect(options: &PgConnectOptions) -> sqlx::Result<PgConnection> {
    let mut connection = PgConnection::connect_with(options).await?;
    let durable = "SELECT set_config('synchronous_commit', 'on', false)
                   WHERE current_setting('synchronous_commit') = 'off'";
    sqlx::query(durable).execute(&mut connection).await?;
    Ok(connection)
}

/// Removes the journals of ended processes that nobody removes any more.
pub(super) async fn remove_left_records(connection: &mut PgConnection) -> sqlx::Result<()> {
    let removal = sqlx::query(
        "DELETE FROM xavantes.records r USING xavantes.processes p
         WHERE r.process = p.process AND p.summary IS NOT NULL
             AND NOT EXISTS (SELECT FROM xavantes.owners o WHERE o.session = p.owner)",
    );
    removal.execute(connection).await.map(|_| ())
}

impl State {
    /// One transaction with all changes, and what comes of each. Nothing but doubts is noted here yet.
    async fn commit(&mut self, connection: &mut PgConnection, changes: &[Change]) -> sqlx::Result<Done> {
        let session = self.session.id();
        let mut transaction = connection.begin().await?;
        self.undo_doubts(&mut transaction).await?;
        let created = self.create(&mut transaction, &session, changes).await?;
        let rows = lock(&mut transaction, changes).await?;

        let mut plans: HashMap<&str, Plan> = HashMap::new();
        let mut verdicts = Vec::new();
        let mut documents: HashMap<(&str, &str), Option<&Bytes>> = HashMap::new();
        for change in changes {
            verdicts.push(match change {
                Change::Create(process, _) => match created.get(process) {
                    Some(epoch) if !plans.contains_key(&process[..]) => {
                        let held = Held { session: session.clone(), epoch: *epoch, next: 0, in_doubt: false };
                        plans.insert(process, Plan { held, records: Vec::new(), has_snapshot: false, summary: None });
                        Ok(epoch.unsigned_abs())
                    }
                    _ => Err(Error::Exists(process.clone())),
                },
                Change::Append(process, record) => self.plan(&mut plans, &rows, process).map(|plan| {
                    plan.records.push(record);
                    0
                }),
                Change::Compact(process, snapshot) => self.plan(&mut plans, &rows, process).map(|plan| {
                    plan.records = vec![snapshot];
                    plan.has_snapshot = true;
                    0
                }),
                Change::Close(process, summary) => self.plan(&mut plans, &rows, process).map(|plan| {
                    plan.records = Vec::new();
                    plan.has_snapshot = false;
                    plan.summary = Some(summary);
                    0
                }),
                Change::Forget(processes) => {
                    forget(&mut transaction, processes).await?;
                    Ok(0)
                }
                Change::Put(kind, key, document) => {
                    documents.insert((kind, key), Some(document));
                    Ok(0)
                }
                Change::Remove(kind, key) => {
                    documents.insert((kind, key), None);
                    Ok(0)
                }
            });
        }
        write_records(&mut transaction, &plans).await?;
        write_summaries(&mut transaction, &plans).await?;
        write_documents(&mut transaction, &documents).await?;

        // From here on nobody knows what took place unless the database says so.
        self.doubtful.extend(created.keys().map(|process| (process.clone(), session.clone())));
        for process in plans.keys() {
            if let Some(held) = self.held.get_mut(*process) {
                held.in_doubt = true;
            }
        }
        transaction.commit().await?;

        let mut done = Done { verdicts, held: HashMap::new(), closed: Vec::new(), garbage: Garbage::default() };
        for (process, Plan { mut held, records, has_snapshot, summary }) in plans {
            if summary.is_some() {
                done.garbage.add(process, &held, i64::MAX);
                done.closed.push(process.into());
                continue;
            }
            if has_snapshot {
                done.garbage.add(process, &held, held.next);
            }
            held.next += records.len() as i64;
            done.held.insert(process.into(), held);
        }
        Ok(done)
    }

    /// What was not acknowledged is taken back: records, an end, a creation.
    async fn undo_doubts(&self, transaction: &mut PgConnection) -> sqlx::Result<()> {
        let in_doubt: Vec<_> = self.held.iter().filter(|(_, held)| held.in_doubt).collect();
        if !in_doubt.is_empty() {
            let undo = sqlx::query(
                "WITH mine AS (
                     UPDATE xavantes.processes p SET summary = NULL
                     FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS d (process, owner, epoch, next)
                     WHERE p.process = d.process AND p.owner = d.owner AND p.epoch = d.epoch
                     RETURNING p.process, d.next)
                 DELETE FROM xavantes.records r USING mine WHERE r.process = mine.process AND r.number >= mine.next",
            );
            undo.bind(in_doubt.iter().map(|(process, _)| &process[..]).collect::<Vec<_>>())
                .bind(in_doubt.iter().map(|(_, held)| &held.session[..]).collect::<Vec<_>>())
                .bind(in_doubt.iter().map(|(_, held)| held.epoch).collect::<Vec<_>>())
                .bind(in_doubt.iter().map(|(_, held)| held.next).collect::<Vec<_>>())
                .execute(&mut *transaction)
                .await?;
        }
        if !self.doubtful.is_empty() {
            let (processes, sessions): (Vec<_>, Vec<_>) =
                self.doubtful.iter().map(|(process, session)| (&process[..], &session[..])).unzip();
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

    /// They have been undone, durably.
    fn resolve_doubts(&mut self) {
        self.doubtful.clear();
        self.held.values_mut().for_each(|held| held.in_doubt = false);
    }

    /// Gives those that were not there yet, with their epochs. The lease is renewed with it: after a silence the new ones
    /// are safe too.
    async fn create(
        &self,
        transaction: &mut PgConnection,
        session: &str,
        changes: &[Change],
    ) -> sqlx::Result<HashMap<String, i64>> {
        let mut heads: HashMap<&str, &Bytes> = HashMap::new();
        for change in changes {
            if let Change::Create(process, head) = change {
                heads.entry(process).or_insert(head);
            }
        }
        if heads.is_empty() {
            return Ok(HashMap::new());
        }
        let (processes, heads): (Vec<_>, Vec<_>) =
            heads.into_iter().map(|(process, head)| (process, &head[..])).unzip();
        let created = sqlx::query_as(
            "WITH renewed AS (
                 UPDATE xavantes.owners SET lease_until = clock_timestamp() + $5::text::interval WHERE session = $3)
             INSERT INTO xavantes.processes (process, owner, node, epoch, created, head)
             SELECT process, $3, $4, epoch, epoch, head FROM (
                 SELECT process, head, nextval('xavantes.epochs') AS epoch
                 FROM unnest($1::text[], $2::bytea[]) AS c (process, head)) AS c ORDER BY process
             ON CONFLICT DO NOTHING RETURNING process, epoch",
        );
        let created = created.bind(processes).bind(heads).bind(session).bind(&self.node[..]).bind(LEASE);
        Ok(created.fetch_all(transaction).await?.into_iter().collect())
    }

    /// What is to be done to a process, if it is still this store's.
    fn plan<'a, 'p>(
        &self,
        plans: &'p mut HashMap<&'a str, Plan<'a>>,
        rows: &HashMap<String, Locked>,
        process: &'a str,
    ) -> Result<&'p mut Plan<'a>, Error> {
        if !plans.contains_key(process) {
            let row = rows.get(process).filter(|row| !row.ended).ok_or_else(|| Error::Unknown(process.into()))?;
            let held = self.held.get(process).filter(|held| row.owner == held.session && row.epoch == held.epoch);
            let held = held.ok_or_else(|| Error::NotOwned(process.into()))?.clone();
            let held = Held { in_doubt: false, ..held };
            plans.insert(process, Plan { held, records: Vec::new(), has_snapshot: false, summary: None });
        }
        let plan = plans.get_mut(process).filter(|plan| plan.summary.is_none());
        plan.ok_or_else(|| Error::Unknown(process.into()))
    }

    /// Takes what belongs to nobody who lives. Gives all that is this session's now, also what it got by a claim that it
    /// never heard of.
    async fn claim(&mut self, connection: &mut PgConnection) -> sqlx::Result<HashMap<String, Held>> {
        let session = self.session.id();
        let mut transaction = connection.begin().await?;
        self.undo_doubts(&mut transaction).await?;
        let silent: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT p.owner FROM xavantes.processes p LEFT JOIN xavantes.owners o ON o.session = p.owner
             WHERE p.summary IS NULL AND p.owner <> $1 AND (o.session IS NULL OR o.lease_until < clock_timestamp())",
        )
        .bind(&session[..])
        .fetch_all(&mut *transaction)
        .await?;
        if !silent.is_empty() {
            let take = sqlx::query(
                "UPDATE xavantes.processes SET owner = $1, node = $2, epoch = nextval('xavantes.epochs')
                 WHERE process IN (
                     SELECT process FROM xavantes.processes WHERE summary IS NULL AND owner = ANY ($3)
                     FOR UPDATE SKIP LOCKED)",
            );
            take.bind(&session[..]).bind(&self.node[..]).bind(silent).execute(&mut *transaction).await?;
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
            let held = Held {
                session: session.clone(),
                epoch: row.try_get("epoch")?,
                next: row.try_get("next")?,
                in_doubt: false,
            };
            claimed.insert(process, held);
        }
        Ok(claimed)
    }
}

/// A process in the database, which nobody else can change until the transaction ends.
struct Locked {
    owner: String,
    epoch: i64,
    ended: bool,
}

async fn lock(transaction: &mut PgConnection, changes: &[Change]) -> sqlx::Result<HashMap<String, Locked>> {
    let processes: HashSet<&str> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Append(process, _) | Change::Compact(process, _) | Change::Close(process, _) => Some(&process[..]),
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
            Locked { owner: row.try_get("owner")?, epoch: row.try_get("epoch")?, ended: row.try_get("ended")? };
        Ok((row.try_get("process")?, locked))
    };
    rows.iter().map(locked).collect()
}

async fn forget(transaction: &mut PgConnection, processes: &[String]) -> sqlx::Result<()> {
    let removal = sqlx::query(
        "WITH gone AS (
             DELETE FROM xavantes.processes WHERE process = ANY ($1) AND summary IS NOT NULL RETURNING process)
         DELETE FROM xavantes.records r USING gone WHERE r.process = gone.process",
    );
    removal.bind(processes).execute(transaction).await.map(|_| ())
}

async fn write_records(transaction: &mut PgConnection, plans: &HashMap<&str, Plan<'_>>) -> sqlx::Result<()> {
    let (mut processes, mut numbers, mut are_snapshots, mut contents) = (vec![], vec![], vec![], vec![]);
    for (process, plan) in plans {
        for (number, record) in (plan.held.next..).zip(&plan.records) {
            processes.push(*process);
            numbers.push(number);
            are_snapshots.push(plan.has_snapshot && number == plan.held.next);
            contents.push(&record[..]);
        }
    }
    if processes.is_empty() {
        return Ok(());
    }
    let insertion = sqlx::query(
        "INSERT INTO xavantes.records (process, number, is_snapshot, content)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::bytea[])",
    );
    insertion.bind(processes).bind(numbers).bind(are_snapshots).bind(contents).execute(transaction).await.map(|_| ())
}

async fn write_summaries(transaction: &mut PgConnection, plans: &HashMap<&str, Plan<'_>>) -> sqlx::Result<()> {
    let (processes, summaries): (Vec<_>, Vec<_>) =
        plans.iter().filter_map(|(process, plan)| Some((*process, &plan.summary?[..]))).unzip();
    if processes.is_empty() {
        return Ok(());
    }
    let update = sqlx::query(
        "UPDATE xavantes.processes p SET summary = s.summary
         FROM unnest($1::text[], $2::bytea[]) AS s (process, summary) WHERE p.process = s.process",
    );
    update.bind(processes).bind(summaries).execute(transaction).await.map(|_| ())
}

async fn write_documents(
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

/// Reads a journal as far as it was acknowledged.
async fn load(pool: &PgPool, process: &str, held: Option<Held>) -> Result<Journal, Error> {
    let found = persist(|| async {
        let row = sqlx::query(
            "SELECT owner, epoch, head, summary IS NOT NULL AS ended FROM xavantes.processes WHERE process = $1",
        )
        .bind(process)
        .fetch_optional(pool)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let owner = (row.try_get::<String, _>("owner")?, row.try_get::<i64, _>("epoch")?);
        Ok(Some((owner, row.try_get::<Vec<u8>, _>("head")?, row.try_get::<bool, _>("ended")?)))
    })
    .await?;
    let unknown = || Error::Unknown(process.into());
    let (owner, head, ended) = found.ok_or_else(unknown)?;
    let held = match held {
        Some(held) if owner == (held.session.clone(), held.epoch) => held,
        _ if ended => return Err(unknown()),
        _ => return Err(Error::NotOwned(process.into())),
    };
    // One statement sees the journal at one moment, whatever is removed meanwhile.
    let records: Vec<(i64, bool, Vec<u8>)> = persist(|| async {
        sqlx::query_as(
            "SELECT number, is_snapshot, content FROM xavantes.records
             WHERE process = $1 AND number < $2 AND number >= coalesce(
                 (SELECT max(number) FROM xavantes.records WHERE process = $1 AND number < $2 AND is_snapshot), 0)
             ORDER BY number",
        )
        .bind(process)
        .bind(held.next)
        .fetch_all(pool)
        .await
    })
    .await?;
    let first = records.first().filter(|(_, is_snapshot, _)| *is_snapshot).map_or(0, |(number, ..)| *number);
    let epoch = held.epoch.unsigned_abs();
    let mut journal = Journal { epoch, head: head.into(), snapshot: None, records: Vec::new() };
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
    if expected == held.next {
        return Ok(journal);
    }
    Err(Error::Damaged {
        process: process.into(),
        file: "table xavantes.records".into(),
        record: expected.try_into().unwrap_or_default(),
        problem: "it is missing; restore the database from a backup".into(),
    })
}

async fn documents(pool: &PgPool, kind: &str) -> Result<Vec<(String, Bytes)>, Error> {
    let rows: Vec<(String, Vec<u8>)> = persist(|| async {
        let rows = sqlx::query_as("SELECT key, content FROM xavantes.documents WHERE kind = $1 ORDER BY key");
        rows.bind(kind).fetch_all(pool).await
    })
    .await?;
    Ok(rows.into_iter().map(|(key, content)| (key, content.into())).collect())
}

async fn document(pool: &PgPool, kind: &str, key: &str) -> Result<Option<Bytes>, Error> {
    let row: Option<(Vec<u8>,)> = persist(|| async {
        let row = sqlx::query_as("SELECT content FROM xavantes.documents WHERE kind = $1 AND key = $2");
        row.bind(kind).bind(key).fetch_optional(pool).await
    })
    .await?;
    Ok(row.map(|(content,)| content.into()))
}
