//! Flipped bits and cut files: the store opens, no acknowledged record is silently gone, and other processes go on.
//!
//! `DAMAGE_FLIPS`, `DAMAGE_CUTS` and `DAMAGE_SEED` set how many bits are flipped, how many files are cut, and which.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::TempDir;
use xavantes_repository::{Error, Store, open_sled};

use crate::suite::{noise, text};

/// What a store had acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// Snapshots and records of running processes.
    running: BTreeMap<String, (Option<Bytes>, Vec<Bytes>)>,
    /// Summaries of ended processes.
    ended: BTreeMap<String, Bytes>,
    forgotten: Vec<String>,
    documents: BTreeMap<String, Bytes>,
}

/// Fills a store: journals of about `journal_bytes` with and without snapshots, ended and forgotten processes, documents, and
/// payloads in blobs.
async fn fill(store: &Store, processes: u64, journal_bytes: usize) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in 0..processes {
        let id = format!("running-{number}");
        store.create(&id, noise(200, number)).await.unwrap();
        let journal = acknowledged.running.entry(id.clone()).or_default();
        for record in 0..20 {
            let bytes = noise(journal_bytes / 20, number * 100 + record);
            if number % 2 == 0 && record == 11 {
                store.compact(&id, bytes.clone()).await.unwrap();
                *journal = (Some(bytes), Vec::new());
            } else {
                store.append(&id, bytes.clone()).await.unwrap();
                journal.1.push(bytes);
            }
        }
        for kind in ["ended", "forgotten"] {
            let id = format!("{kind}-{number}");
            store.create(&id, noise(100, number)).await.unwrap();
            store.append(&id, noise(300, number)).await.unwrap();
            store.close(&id, noise(250, number + 7)).await.unwrap();
            if kind == "forgotten" {
                store.forget(std::slice::from_ref(&id)).await.unwrap();
                acknowledged.forgotten.push(id);
            } else {
                acknowledged.ended.insert(id, noise(250, number + 7));
            }
        }
        let (key, document) = (format!("document-{number}"), noise(150, number + 9));
        store.put("kind", &key, text("replaced")).await.unwrap();
        store.put("kind", &key, document.clone()).await.unwrap();
        store.put("kind", "removed", text("removed")).await.unwrap();
        store.remove("kind", "removed").await.unwrap();
        acknowledged.documents.insert(key, document);
    }
    let (id, large) = ("running-blob".to_owned(), noise(2 << 20, 5));
    store.create(&id, noise(200, 1)).await.unwrap();
    store.append(&id, large.clone()).await.unwrap();
    acknowledged.running.insert(id, (None, vec![large]));
    acknowledged
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(file.file_name());
        if file.path().is_dir() {
            copy(&file.path(), &target);
        } else {
            fs::copy(file.path(), target).unwrap();
        }
    }
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if fs::metadata(&path).unwrap().len() > 0 && path.file_name().is_none_or(|name| name != "lock") {
            found.push(path);
        }
    }
}

/// The state of a store after damage.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    damaged: Vec<String>,
    /// Documents that are gone. Their owners make them again.
    documents_gone: usize,
}

/// Checks that every process is whole or damaged, and that the store is usable. Panics otherwise.
async fn check(store: &Store, acknowledged: &Acknowledged, context: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let claimed = store.claim().await.unwrap().gained;
    let listed: Vec<_> = store.list().await.unwrap().into_iter().map(|entry| entry.process).collect();
    for (id, (snapshot, records)) in &acknowledged.running {
        assert!(listed.contains(id) && claimed.contains(id), "{context}: {id} is gone");
        match store.load(id).await {
            Ok(journal) => assert!(
                journal.records == *records && journal.snapshot == *snapshot,
                "{context}: {id} has {} records instead of {}",
                journal.records.len(),
                records.len()
            ),
            Err(Error::Damaged { .. }) => outcome.damaged.push(id.clone()),
            Err(error) => panic!("{context}: {id}: {error}"),
        }
    }
    for (id, summary) in &acknowledged.ended {
        assert!(listed.contains(id), "{context}: {id} is gone");
        match store.find(id).await {
            Ok(Some(entry)) => assert_eq!(entry.summary.as_ref(), Some(summary), "{context}: {id}"),
            Err(Error::Damaged { .. }) => outcome.damaged.push(id.clone()),
            other => panic!("{context}: {id}: {other:?}"),
        }
    }
    for id in &acknowledged.forgotten {
        assert!(!listed.contains(id), "{context}: {id} is back");
    }
    let documents: BTreeMap<_, _> = store.documents("kind").await.unwrap().into_iter().collect();
    assert!(!documents.contains_key("removed"), "{context}");
    for (key, document) in &acknowledged.documents {
        match documents.get(key) {
            Some(found) => assert!(found == document || *found == text("replaced"), "{context}: {key}"),
            None => outcome.documents_gone += 1,
        }
    }
    outcome
}

/// Damages a copy of a store, and checks it twice.
async fn damage_and_check(template: &Path, acknowledged: &Acknowledged, damage: &Damage, seed: u64) -> Outcome {
    let directory = TempDir::new().unwrap();
    copy(template, directory.path());
    let mut all = Vec::new();
    files(directory.path(), &mut all);
    let context = damage.apply(&all, seed);
    let store = match open_sled(directory.path(), "node").await {
        Ok(store) => store,
        Err(error) => panic!("{context}: the store does not open: {error}"),
    };
    let outcome = check(&store, acknowledged, &context).await;
    store.create("new", text("head")).await.unwrap();
    store.append("new", text("record")).await.unwrap();
    for id in acknowledged.running.keys().filter(|id| !outcome.damaged.contains(id)) {
        store.append(id, text("more")).await.unwrap();
        store.compact(id, text("snapshot")).await.unwrap();
    }
    store.shut_down().await;

    // The second start finds the same damage, and all that was added.
    let store = open_sled(directory.path(), "node").await.unwrap();
    let claimed = store.claim().await.unwrap().gained;
    assert!(claimed.contains(&"new".to_owned()), "{context}");
    assert_eq!(store.load("new").await.unwrap().records, [text("record")], "{context}");
    for id in acknowledged.running.keys() {
        match store.load(id).await {
            Ok(journal) => assert_eq!(journal.snapshot, Some(text("snapshot")), "{context}: {id}"),
            Err(Error::Damaged { .. }) => assert!(outcome.damaged.contains(id), "{context}: {id}"),
            Err(error) => panic!("{context}: {id}: {error}"),
        }
    }
    for id in &outcome.damaged {
        assert!(matches!(store.find(id).await, Err(Error::Damaged { .. })), "{context}: {id}");
        store.forget(std::slice::from_ref(id)).await.unwrap();
        assert!(matches!(store.find(id).await, Ok(None)), "{context}: {id}");
    }
    store.shut_down().await;
    outcome
}

#[derive(Clone)]
enum Damage {
    Flip,
    Cut,
    Delete(&'static str),
}

impl Damage {
    /// Returns what was done.
    fn apply(&self, files: &[PathBuf], seed: u64) -> String {
        let random = |salt: u64, below: u64| {
            let bytes = noise(8, seed.wrapping_mul(31).wrapping_add(salt));
            u64::from_le_bytes(bytes[..8].try_into().unwrap()) % below
        };
        let named = |end: &str| files.iter().find(|file| file.ends_with(end)).expect("the file is there");
        // Most damage is where most bytes are, and some of it in every file.
        let file = match self {
            Self::Delete(name) => named(name),
            _ if random(1, 4) > 0 => named("db/db"),
            _ => &files[random(2, files.len() as u64) as usize],
        };
        let mut bytes = fs::read(file).unwrap();
        // Nothing is behind the end of the log in a file of sled.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1).max(1);
        let name = file.display();
        match self {
            Self::Flip => {
                let bit = random(3, used * 8);
                bytes[bit as usize / 8] ^= 1 << (bit % 8);
                fs::write(file, bytes).unwrap();
                format!("seed {seed}: flipped bit {bit} of {name}")
            }
            Self::Cut => {
                let length = random(4, used);
                bytes.truncate(length as usize);
                fs::write(file, bytes).unwrap();
                format!("seed {seed}: cut {name} to {length} bytes")
            }
            Self::Delete(_) => {
                fs::remove_file(file).unwrap();
                format!("deleted {name}")
            }
        }
    }
}

/// A small and a large store, each closed in order and as a kill leaves it.
async fn templates() -> Vec<(TempDir, Acknowledged)> {
    let mut templates = Vec::new();
    for (processes, journal_bytes) in [(8, 4_000), (24, 400_000)] {
        for is_closed in [true, false] {
            let directory = TempDir::new().unwrap();
            let store = open_sled(directory.path(), "node").await.unwrap();
            let acknowledged = fill(&store, processes, journal_bytes).await;
            let template = TempDir::new().unwrap();
            if is_closed {
                store.shut_down().await;
                copy(directory.path(), template.path());
            } else {
                copy(directory.path(), template.path());
                store.shut_down().await;
            }
            templates.push((template, acknowledged));
        }
    }
    templates
}

fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_never_silent_and_never_stops_the_store() {
    let templates = templates().await;
    let (flips, cuts, first) = (count("DAMAGE_FLIPS", 20), count("DAMAGE_CUTS", 5), count("DAMAGE_SEED", 1));
    let (mut whole, mut damaged, mut documents) = (0, 0, 0);
    let kinds =
        std::iter::repeat_n(Damage::Flip, flips as usize).chain(std::iter::repeat_n(Damage::Cut, cuts as usize));
    for (seed, damage) in (first..).zip(kinds) {
        let (template, acknowledged) = &templates[seed as usize % templates.len()];
        let outcome = damage_and_check(template.path(), acknowledged, &damage, seed).await;
        if outcome == Outcome::default() {
            whole += 1
        } else {
            damaged += 1
        }
        documents += usize::from(outcome.documents_gone > 0);
        eprintln!("seed {seed}: {outcome:?}");
    }
    println!(
        "{flips} flips and {cuts} cuts: {whole} stores whole again, {damaged} with damage, {documents} without some documents"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_files_are_noticed() {
    let templates = templates().await;
    for (template, acknowledged) in &templates[..2] {
        for name in ["db/db", "db/conf", "witness", "realm", "format"] {
            let outcome = damage_and_check(template.path(), acknowledged, &Damage::Delete(name), 1).await;
            let all_damaged = acknowledged.running.len() + acknowledged.ended.len();
            let expected = if name == "db/db" { all_damaged } else { 0 };
            assert_eq!(outcome.damaged.len(), expected, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_process_can_be_ended() {
    let (directory, copied) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open_sled(directory.path(), "node").await.unwrap();
    store.create("missing", text("head")).await.unwrap();
    store.shut_down().await;
    copy(directory.path(), copied.path());
    fs::remove_file(copied.path().join("db/db")).unwrap();
    let store = open_sled(copied.path(), "node").await.unwrap();
    assert_eq!(store.claim().await.unwrap().gained, ["missing"]);
    assert!(matches!(store.load("missing").await, Err(Error::Damaged { .. })));
    store.close("missing", text("summary")).await.unwrap();
    store.shut_down().await;
    let store = open_sled(copied.path(), "node").await.unwrap();
    assert_eq!(store.find("missing").await.unwrap().unwrap().summary, Some(text("summary")));
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_and_a_damaged_one_is_refused() {
    let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open_sled(directory.path(), "node").await.unwrap();
    let acknowledged = fill(&store, 4, 3_000).await;
    let (file, target) = (other.path().join("backup"), other.path().join("restored"));
    std::io::copy(&mut store.backup().await.unwrap(), &mut fs::File::create(&file).unwrap()).unwrap();
    store.create("later", text("head")).await.unwrap();
    let realm = store.realm().to_owned();
    store.shut_down().await;

    let bytes = fs::read(&file).unwrap();
    for change in [0, 9, 100, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
        let mut damaged = bytes.clone();
        match damaged.get_mut(change) {
            Some(byte) => *byte ^= 1,
            None => damaged.truncate(bytes.len() - 1),
        }
        let path = other.path().join("damaged");
        fs::write(&path, damaged).unwrap();
        let error = xavantes_repository::restore_sled(&path, &target).await.unwrap_err().to_string();
        assert!(error.contains("cut off or damaged") && !target.exists(), "{error}");
    }
    let content = xavantes_repository::restore_sled(&file, &target).await.unwrap();
    assert_eq!((content.processes, content.blobs), (9, 1));
    let error = xavantes_repository::restore_sled(&file, &target).await.unwrap_err().to_string();
    assert!(error.contains("there is a repository"), "{error}");
    let inspection = xavantes_repository::check_sled(&target).await.unwrap();
    assert!(inspection.is_whole() && inspection.processes == 9, "{inspection:?}");
    let store = open_sled(&target, "node").await.unwrap();
    assert_eq!(store.realm(), realm);
    assert_eq!(check(&store, &acknowledged, "restored").await, Outcome::default());
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_changes_nothing_and_a_repair_keeps_what_can_be_read() {
    let directory = TempDir::new().unwrap();
    let store = open_sled(directory.path(), "node").await.unwrap();
    fill(&store, 4, 3_000).await;
    store.shut_down().await;
    let mut all = Vec::new();
    files(directory.path(), &mut all);
    let blob = all.iter().find(|file| file.parent().is_some_and(|parent| parent.ends_with("blobs"))).unwrap();
    fs::write(blob, "something else").unwrap();
    let database = directory.path().join("db/db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[3000] ^= 1;
    fs::write(&database, &bytes).unwrap();
    let contents = || all.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = contents();
    for _ in 0..2 {
        let inspection = xavantes_repository::check_sled(directory.path()).await.unwrap();
        assert!(inspection.database_incomplete || inspection.database_unreadable.is_some(), "{inspection:?}");
        assert!(!inspection.is_whole() && inspection.damaged.iter().any(|(id, _)| id == "running-blob"));
        assert_eq!(contents(), before);
        assert!(fs::read_dir(directory.path()).unwrap().all(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            !name.starts_with("check") && !name.starts_with("damaged")
        }));
    }
    let inspection = xavantes_repository::repair_sled(directory.path()).await.unwrap();
    assert!(inspection.restored > 0 && inspection.moved_to.is_some_and(|path| path.join("db").exists()));
    let again = xavantes_repository::check_sled(directory.path()).await.unwrap();
    assert!(!again.database_incomplete && again.database_unreadable.is_none());
    assert_eq!(again.damaged, inspection.damaged);
    let missing = xavantes_repository::check_sled(&directory.path().join("none")).await.unwrap_err();
    assert!(missing.to_string().contains("there is no repository"), "{missing}");
}
