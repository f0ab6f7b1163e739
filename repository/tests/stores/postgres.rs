//! The store in a PostgreSQL database: ownership, leases, migrations and lost connections.

use std::time::{Duration, Instant};

use sqlx::Connection;
use xavantes_repository::testing::Postgres;
use xavantes_repository::{Error, Store, migrate, open_postgres};

use crate::suite::{self, text};

async fn migrated_url(postgres: &Postgres) -> String {
    let url = postgres.url();
    let steps = [
        "step 1: processes and documents",
        "step 2: unique epochs",
        "step 3: order of creation",
        "step 4: unfinished processes",
    ];
    assert_eq!(migrate(&url).await.unwrap(), steps);
    url
}

/// Claims until the store gains a process.
async fn claim_some(store: &Store) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let claimed = store.claim().await.unwrap().gained;
        if !claimed.is_empty() {
            return claimed;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the store gains no process");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_store_passes_the_suite() {
    let Some(postgres) = Postgres::start() else { return };
    let url = migrated_url(&postgres).await;
    let store = open_postgres(&url, "node").await.unwrap();
    suite::run(&store).await;
    let (realm, documents) = (store.realm().to_owned(), store.documents("k").await.unwrap());
    let life = store.load("life").await.unwrap();
    let other = open_postgres(&url, "other").await.unwrap();
    assert_eq!(other.realm(), realm);
    assert_eq!(other.documents("k").await.unwrap(), documents);
    assert_eq!(other.list().await.unwrap(), store.list().await.unwrap());
    assert_eq!(other.find("life").await.unwrap().unwrap().owner, "node");
    let lease = other.lease("life").await.unwrap().unwrap();
    assert!(!lease.expired && lease.renewed < Duration::from_secs(10), "{lease:?}");
    assert_eq!(other.lease("nobody").await.unwrap(), None);
    assert_eq!(other.claim().await.unwrap().gained, [""; 0]);
    assert!(matches!(other.load("life").await, Err(Error::NotOwned(_))));
    assert!(matches!(other.append("life", text("x")).await, Err(Error::NotOwned(_))));
    assert!(matches!(other.close("life", text("x")).await, Err(Error::NotOwned(_))));
    assert!(matches!(other.create("life", text("x")).await, Err(Error::Exists(_))));

    // A store that shuts down ends its lease at once.
    suite::calls_fail_after_shut_down(&store).await;
    assert_eq!(other.lease("life").await.unwrap(), None);
    let expected: Vec<_> = suite::running_after_run().into_iter().collect();
    assert_eq!(other.claim().await.unwrap().gained, expected);
    assert_eq!(other.claim().await.unwrap().gained, [""; 0]);
    let journal = other.load("life").await.unwrap();
    assert!(journal.epoch > life.epoch);
    assert_eq!((journal.head, journal.records), (life.head, life.records));
    assert_eq!(other.find("life").await.unwrap().unwrap().owner, "other");
    other.append("life", text("more")).await.unwrap();
    assert_eq!(other.load("life").await.unwrap().records, [text("more")]);
    other.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_claims_its_processes_at_once() {
    let Some(postgres) = Postgres::start() else { return };
    let url = migrated_url(&postgres).await;
    let former = open_postgres(&url, "node").await.unwrap();
    let epoch = former.create("p", text("head")).await.unwrap();
    former.append("p", text("one")).await.unwrap();
    // The former store is not shut down, and does not notice the new one.
    let store = open_postgres(&url, "node").await.unwrap();
    assert_eq!(store.claim().await.unwrap().gained, ["p"]);
    assert!(matches!(former.append("p", text("two")).await, Err(Error::NotOwned(_))));
    store.append("p", text("two")).await.unwrap();
    let journal = store.load("p").await.unwrap();
    assert!(journal.epoch > epoch);
    assert_eq!((journal.head, journal.records), (text("head"), vec![text("one"), text("two")]));
}

#[test]
fn a_store_with_an_expired_lease_cannot_write() {
    let Some(postgres) = Postgres::start() else { return };
    // No task of this runtime runs between the calls of `block_on`, so the lease expires.
    let frozen = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let alive = tokio::runtime::Runtime::new().unwrap();
    let url = alive.block_on(migrated_url(&postgres));
    let a = frozen.block_on(async {
        let a = open_postgres(&url, "a").await.unwrap();
        for id in ["p", "q"] {
            a.create(id, text("head")).await.unwrap();
            a.append(id, text("by a")).await.unwrap();
        }
        a.close("q", text("summary")).await.unwrap();
        a
    });
    let b = alive.block_on(async {
        let b = open_postgres(&url, "b").await.unwrap();
        assert_eq!(claim_some(&b).await, ["p"]);
        b.append("p", text("by b")).await.unwrap();
        b
    });
    frozen.block_on(async {
        assert!(matches!(a.append("p", text("late")).await, Err(Error::NotOwned(_))));
        assert!(matches!(a.compact("p", text("late")).await, Err(Error::NotOwned(_))));
        assert!(matches!(a.close("p", text("late")).await, Err(Error::NotOwned(_))));
        let refused = a.close_with("p", text("late"), "last", Some(text("late"))).await;
        assert!(matches!(refused, Err(Error::NotOwned(_))), "{refused:?}");
        assert_eq!(a.get("last", "p").await.unwrap(), None, "a former owner stores no last state");
        assert!(matches!(a.load("p").await, Err(Error::NotOwned(_))));
        assert_eq!(a.claim().await.unwrap().lost, ["p"]);
        assert_eq!(a.claim().await.unwrap().lost, [""; 0]);
        // The store can still create processes.
        a.create("r", text("head")).await.unwrap();
        a.append("r", text("by a")).await.unwrap();
    });
    let journal = alive.block_on(b.load("p")).unwrap();
    assert_eq!(journal.records, [text("by a"), text("by b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_without_calls() {
    let Some(postgres) = Postgres::start() else { return };
    let url = migrated_url(&postgres).await;
    let store = open_postgres(&url, "node").await.unwrap();
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut lease = async || -> String {
        let lease = sqlx::query_scalar("SELECT lease_until::text FROM xavantes.owners WHERE node = 'node'");
        lease.fetch_one(&mut connection).await.unwrap()
    };
    let mut seen = lease().await;
    let begun = Instant::now();
    for _ in 0..3 {
        let before = seen.clone();
        while seen == before {
            assert!(begun.elapsed() < Duration::from_secs(120), "the lease is not renewed");
            tokio::time::sleep(Duration::from_millis(100)).await;
            seen = lease().await;
        }
        assert!(seen > before, "{before} {seen}");
    }
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_that_claim_at_once_do_not_gain_the_same_process() {
    let Some(postgres) = Postgres::start() else { return };
    let url = migrated_url(&postgres).await;
    let gone = open_postgres(&url, "gone").await.unwrap();
    let (b, c) = (open_postgres(&url, "b").await.unwrap(), open_postgres(&url, "c").await.unwrap());
    for number in 0..200 {
        gone.create(&format!("{number}"), text("head")).await.unwrap();
    }
    gone.shut_down().await;
    let (of_b, of_c) = tokio::try_join!(b.claim(), c.claim()).unwrap();
    let (mut of_b, mut of_c) = (of_b.gained, of_c.gained);
    of_b.extend(b.claim().await.unwrap().gained);
    of_c.extend(c.claim().await.unwrap().gained);
    for id in &of_b {
        b.append(id, text("b")).await.unwrap();
        assert!(matches!(c.append(id, text("c")).await, Err(Error::NotOwned(_))));
    }
    let mut all = [of_b, of_c].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_are_applied_once_and_checked() {
    let Some(postgres) = Postgres::start() else { return };
    let url = postgres.url();
    let error = open_postgres(&url, "node").await.err().unwrap().to_string();
    assert!(error.contains("xavantes repository migrate --repository URL"), "{error}");
    let (first, second) = tokio::try_join!(migrate(&url), migrate(&url)).unwrap();
    assert_eq!(first.len() + second.len(), 4, "{first:?} {second:?}");
    assert_eq!(migrate(&url).await.unwrap(), [""; 0]);
    open_postgres(&url, "node").await.unwrap().shut_down().await;

    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let newer = sqlx::query(
        "INSERT INTO xavantes._sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'from the future', true, '', 0)",
    );
    newer.execute(&mut connection).await.unwrap();
    for error in [open_postgres(&url, "node").await.err().unwrap(), migrate(&url).await.unwrap_err()] {
        assert!(matches!(&error, Error::Broken(text) if text.contains("version 99")), "{error}");
    }
    let error = open_postgres("postgres://localhost:1/none", "node").await.err().unwrap();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    let error = open_postgres("no address", "node").await.err().unwrap();
    assert!(matches!(error, Error::Broken(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_former_version_keeps_working() {
    let Some(postgres) = Postgres::start() else { return };
    let url = postgres.url();
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let history = "CREATE SCHEMA xavantes;
                   CREATE TABLE xavantes.migrations (
                       version integer PRIMARY KEY, name text NOT NULL, taken timestamptz NOT NULL DEFAULT now());
                   INSERT INTO xavantes.migrations (version, name) VALUES
                       (1, 'processes, journals and documents'), (2, 'epochs that never come again');";
    let tables = include_str!("../../migrations/0001_processes_and_documents.sql");
    let epochs = include_str!("../../migrations/0002_unique_epochs.sql");
    for statements in [history, tables, epochs] {
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    }
    assert!(matches!(open_postgres(&url, "node").await.err(), Some(Error::Broken(_))), "it must be migrated first");
    assert_eq!(migrate(&url).await.unwrap(), ["step 3: order of creation", "step 4: unfinished processes"]);
    let store = open_postgres(&url, "node").await.unwrap();
    store.create("p", text("head")).await.unwrap();
    assert_eq!(migrate(&url).await.unwrap(), [""; 0]);
    store.append("p", text("record")).await.unwrap();
    let realm = store.realm().to_owned();
    store.shut_down().await;
    let store = open_postgres(&url, "node").await.unwrap();
    assert_eq!(store.realm(), realm);
    assert_eq!(store.claim().await.unwrap().gained, ["p"]);
    assert_eq!(store.load("p").await.unwrap().records, [text("record")]);
    store.shut_down().await;

    let newer = sqlx::query("INSERT INTO xavantes.migrations (version, name) VALUES (99, 'from the future')");
    newer.execute(&mut connection).await.unwrap();
    for error in [open_postgres(&url, "node").await.err().unwrap(), migrate(&url).await.unwrap_err()] {
        assert!(matches!(&error, Error::Broken(text) if text.contains("version 99")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_restart_neither_loses_nor_repeats_records() {
    let Some(mut postgres) = Postgres::start() else { return };
    let url = migrated_url(&postgres).await;
    let store = open_postgres(&url, "node").await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for writer in 0..8 {
        let (store, stopped) = (store.clone(), stopped.clone());
        let id = format!("writer {writer}");
        store.create(&id, text("head")).await.unwrap();
        writers.spawn(async move {
            let mut number = 0;
            let mut refused = 0;
            while number == 0 || !*stopped.borrow() {
                // A refused record is repeated with other bytes. The journal must not contain the refused bytes.
                let record = text(format!("{number} {refused}"));
                let kept =
                    if number % 20 == 19 { store.compact(&id, record).await } else { store.append(&id, record).await };
                match kept {
                    Ok(()) => (number, refused) = (number + 1, 0),
                    Err(Error::Unavailable(_)) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            let journal = store.load(&id).await.unwrap();
            let kept: Vec<u64> = journal
                .snapshot
                .iter()
                .chain(&journal.records)
                .map(|record| std::str::from_utf8(record).unwrap().split(' ').next().unwrap().parse().unwrap())
                .collect();
            let first = if number >= 20 { number / 20 * 20 - 1 } else { 0 };
            assert_eq!(kept, (first..number).collect::<Vec<_>>(), "{id}");
        });
    }
    for pause in [0, 0, 7] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        postgres = tokio::task::spawn_blocking(move || {
            postgres.stop();
            std::thread::sleep(Duration::from_secs(pause));
            postgres.resume();
            postgres
        })
        .await
        .unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.send(true).unwrap();
    writers.join_all().await;
    store.shut_down().await;
    drop(postgres);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_and_check_the_certificate() {
    let Some(mut postgres) = Postgres::start() else { return };
    let socket = migrated_url(&postgres).await;
    let database = socket.split(['/', '?']).nth(3).expect("postgres://USER@HOST/DATABASE?…");
    let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certified, other) = (made(), made());
    let port = postgres.encrypt(&certified.cert.pem(), &certified.signing_key.serialize_pem());
    let directory = tempfile::tempdir().unwrap();
    let url = |name: &str, certificate: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, certificate).unwrap();
        let options = format!("sslmode=verify-full&sslrootcert={}", file.display());
        format!("postgres://postgres@localhost:{port}/{database}?{options}")
    };
    let right = url("right.pem", &certified.cert.pem());
    let store = open_postgres(&right, "node").await.unwrap();
    store.create("p", text("head")).await.unwrap();
    let mut connection = sqlx::PgConnection::connect(&right).await.unwrap();
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!(sqlx::query_scalar::<_, bool>(encrypted).fetch_one(&mut connection).await.unwrap());
    let refused = open_postgres(&url("wrong.pem", &other.cert.pem()), "node")
        .await
        .err()
        .expect("the certificate belongs to another server");
    assert!(refused.to_string().to_lowercase().contains("certificate"), "{refused}");
}
