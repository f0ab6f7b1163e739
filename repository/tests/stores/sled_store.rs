//! The store in a directory: recovery, damage, kills and full disks.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use xavantes_repository::{Error, Journal, Store, open_sled};

use crate::suite::{self, noise, text};

async fn open(directory: &Path) -> Store {
    open_sled(directory, "node").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sled_store_passes_the_suite() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).await;
    suite::run(&store).await;
    let (realm, documents) = (store.realm().to_owned(), store.documents("k").await.unwrap());
    let life = store.load("life").await.unwrap();
    let listed = store.list().await.unwrap();
    suite::calls_fail_after_shut_down(&store).await;

    let store = open_sled(directory.path(), "renamed").await.unwrap();
    assert_eq!(store.realm(), realm);
    assert_eq!(store.documents("k").await.unwrap(), documents);
    assert_eq!(store.list().await.unwrap(), listed);
    assert!(matches!(store.load("life").await, Err(Error::NotOwned(_))), "the store has not claimed it");
    let expected: Vec<_> = suite::running_after_run().into_iter().collect();
    assert_eq!(store.claim().await.unwrap().gained, expected);
    assert_eq!(store.claim().await.unwrap().gained, [""; 0]);
    assert_eq!(store.load("life").await.unwrap(), life);
    assert_eq!(store.find("life").await.unwrap().unwrap().owner, "renamed");
    assert_eq!(store.find("compacted").await.unwrap().unwrap().owner, "node");
    // sled does not sync its files for large pages, so it must not create any.
    assert_eq!(fs::read_dir(directory.path().join("db/blobs")).unwrap().count(), 0);
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_stay_in_the_log_and_blobs_are_removed_with_their_records() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).await;
    let ids: Vec<_> = (0..60).map(|number| format!("{number:01000}")).collect();
    for (seed, id) in ids.iter().enumerate() {
        // The largest payload without a blob.
        store.create(id, noise(12 << 10, seed as u64)).await.unwrap();
        for number in 0..40 {
            store.append(id, noise(12 << 10, number)).await.unwrap();
        }
    }
    for (seed, id) in ids.iter().enumerate() {
        store.close(id, noise(12 << 10, seed as u64 + 1000)).await.unwrap();
    }
    assert_eq!(fs::read_dir(directory.path().join("db/blobs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(directory.path().join("blobs")).unwrap().count(), 0);

    // Journal records of medium size are split into parts. Larger ones are blobs.
    let (parts, large) = (noise(500_000, 3), noise(2 << 20, 2));
    store.create("blobs", noise(20_000, 1)).await.unwrap();
    store.append("blobs", parts.clone()).await.unwrap();
    store.append("blobs", large.clone()).await.unwrap();
    store.append("blobs", text("small")).await.unwrap();
    assert_eq!(store.load("blobs").await.unwrap().records, [parts, large, text("small")]);
    assert_eq!(fs::read_dir(directory.path().join("db/blobs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(directory.path().join("blobs")).unwrap().count(), 2);
    store.compact("blobs", text("small")).await.unwrap();
    store.close("blobs", text("small")).await.unwrap();
    store.forget(&["blobs".into()]).await.unwrap();
    store.shut_down().await;
    assert_eq!(fs::read_dir(directory.path().join("blobs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_has_one_user_at_a_time() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).await;
    let error = open_sled(directory.path(), "other").await.err().unwrap().to_string();
    assert!(error.contains("is in use by another node"), "{error}");
    assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
    store.create("still works", text("head")).await.unwrap();
    store.shut_down().await;
    open(directory.path()).await.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_a_newer_format_is_not_changed() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("format"), format!("3 {:08x}\n", crc32fast::hash(b"3"))).unwrap();
    let error = open_sled(directory.path(), "node").await.err().unwrap().to_string();
    assert!(error.contains("has format 3") && error.contains("newer"), "{error}");
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["format"]);
}

/// Creates three processes with five entries of one record each, and one ended process.
async fn create_three_processes(directory: &Path) {
    let store = open(directory).await;
    for id in ["a", "b", "c"] {
        store.create(id, text("head")).await.unwrap();
        for number in 0..5 {
            store.append(id, text(number.to_string())).await.unwrap();
        }
    }
    store.create("ended", text("head")).await.unwrap();
    store.close("ended", text("summary")).await.unwrap();
    store.shut_down().await;
}

#[tokio::test]
async fn a_process_that_ended_before_a_restart_can_be_reopened() {
    let directory = tempfile::tempdir().unwrap();
    create_three_processes(directory.path()).await;
    let store = open(directory.path()).await;
    store.reopen("ended", &text("summary"), noise(200 << 10, 1)).await.unwrap();
    store.append("ended", text("more")).await.unwrap();
    store.shut_down().await;
    let store = open(directory.path()).await;
    assert_eq!(store.claim().await.unwrap().gained, ["a", "b", "c", "ended"]);
    let journal = store.load("ended").await.unwrap();
    assert_eq!((journal.snapshot, journal.records), (Some(noise(200 << 10, 1)), vec![text("more")]));
    store.shut_down().await;
}

/// Changes the records of a tree directly in sled. Removes records that become empty. Makes a new database, so that the
/// file does not contain the records as they were.
fn tamper(directory: &Path, changed: &str, change: impl Fn(usize, &mut Vec<u8>)) {
    let (path, old_path) = (directory.join("db"), directory.join("old"));
    // The store may release the lock of the database a moment after its end.
    let mut tries = 0;
    let config = || sled::Config::new().segment_size(2 << 20);
    let old = loop {
        match config().path(&path).open() {
            Ok(old) => break old,
            Err(error) if tries == 1000 => panic!("{error}"),
            Err(_) => tries += 1,
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    fs::rename(&path, &old_path).unwrap();
    let new = config().path(&path).open().unwrap();
    for name in ["processes", "journal", "documents", "meta"] {
        let tree = new.open_tree(name).unwrap();
        for (number, item) in old.open_tree(name).unwrap().iter().map(Result::unwrap).enumerate() {
            let mut value = item.1.to_vec();
            if name == changed {
                change(number, &mut value);
            }
            if !value.is_empty() {
                tree.insert(&item.0, value).unwrap();
            }
        }
    }
    new.flush().unwrap();
    drop((old, new));
    fs::remove_dir_all(old_path).unwrap();
}

/// A record as the first format framed it.
fn frame_of_first_format(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(&[&[1], &(key.len() as u64).to_le_bytes()[..], key, payload].concat());
    [&[1], &checksum.to_le_bytes()[..], payload].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_the_first_format_is_brought_up_to_date() {
    let directory = TempDir::new().unwrap();
    let realm = "0123456789abcdef0123456789abcdef";
    fs::write(directory.path().join("format"), "1\n").unwrap();
    fs::write(directory.path().join("realm"), format!("{realm}\n")).unwrap();
    let db = sled::Config::new().path(directory.path().join("db")).segment_size(2 << 20).open().unwrap();
    let insert = |tree: &str, key: &[u8], payload: &[u8]| {
        db.open_tree(tree).unwrap().insert(key, frame_of_first_format(key, payload)).unwrap();
    };
    // Number 1, owner, head, no summary.
    insert("processes", b"p", b"\x01\x04node\x00\x04head\x00");
    let key = [1u64.to_be_bytes(), 0u64.to_be_bytes()].concat();
    insert("journal", &key, b"\x00\x01\x00\x06record");
    insert("documents", &[&1u64.to_be_bytes()[..], b"kd"].concat(), b"\x00\x08document");
    db.flush().unwrap();
    drop(db);
    for records in 1..4 {
        let store = open(directory.path()).await;
        assert_eq!(store.realm(), realm);
        assert_eq!(store.claim().await.unwrap().gained, ["p"]);
        let journal = store.load("p").await.unwrap();
        assert_eq!((journal.head, journal.records.len()), (text("head"), records));
        assert_eq!(store.get("k", "d").await.unwrap(), Some(text("document")));
        store.append("p", text("more")).await.unwrap();
        store.shut_down().await;
        assert!(fs::read_to_string(directory.path().join("format")).unwrap().starts_with("2 "));
    }
}

/// Changes the last record of the second process, and the last two of the third.
fn tamper_with_ends(directory: &Path) {
    tamper(directory, "journal", |number, value| match number {
        9 => *value.last_mut().unwrap() ^= 1,
        13 => value.truncate(3),
        14 => value.clear(),
        _ => {}
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unfinished_end_of_a_journal_is_cut_off() {
    let directory = TempDir::new().unwrap();
    create_three_processes(directory.path()).await;
    tamper_with_ends(directory.path());
    // Without a witness, nothing says that the store had acknowledged these records.
    fs::remove_file(directory.path().join("witness")).unwrap();
    for _ in 0..2 {
        let store = open(directory.path()).await;
        assert_eq!(store.claim().await.unwrap().gained, ["a", "b", "c"]);
        for (id, length) in [("a", 5), ("b", 4), ("c", 3)] {
            let records = store.load(id).await.unwrap().records;
            let expected: Vec<_> = (0..length).map(|number| text(number.to_string())).collect();
            assert_eq!(records, expected);
        }
        store.shut_down().await;
    }
    let store = open(directory.path()).await;
    store.claim().await.unwrap();
    store.append("c", text("new")).await.unwrap();
    assert_eq!(store.load("c").await.unwrap().records.last(), Some(&text("new")));
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_records_at_the_end_of_a_journal_are_missed() {
    let directory = TempDir::new().unwrap();
    create_three_processes(directory.path()).await;
    tamper_with_ends(directory.path());
    for _ in 0..2 {
        let store = open(directory.path()).await;
        assert_eq!(store.claim().await.unwrap().gained, ["a", "b", "c"]);
        assert_eq!(store.load("a").await.unwrap().records.len(), 5);
        for (id, first) in [("b", 4), ("c", 3)] {
            let error = store.load(id).await.unwrap_err();
            assert!(matches!(error, Error::Damaged { record, .. } if record == first), "{error:?}");
            assert!(error.to_string().contains("records up to number 4 are missing"), "{error}");
        }
        store.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_lost_its_end_is_no_damage() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).await;
    store.create("kept", text("head")).await.unwrap();
    store.create("forgotten", text("head")).await.unwrap();
    store.put("k", "removed", text("document")).await.unwrap();
    let early = fs::read(directory.path().join("witness")).unwrap();
    store.append("kept", text("record")).await.unwrap();
    store.close("forgotten", text("summary")).await.unwrap();
    store.forget(&["forgotten".into()]).await.unwrap();
    store.remove("k", "removed").await.unwrap();
    store.shut_down().await;
    // As a power failure leaves it: the last frames are not on the disk.
    fs::write(directory.path().join("witness"), early).unwrap();
    let store = open(directory.path()).await;
    assert_eq!(store.claim().await.unwrap().gained, ["kept"]);
    assert_eq!(store.load("kept").await.unwrap().records, [text("record")]);
    assert_eq!(store.list().await.unwrap().len(), 1);
    let names = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("damaged")));
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_affects_one_process() {
    for what in ["flipped", "missing"] {
        let directory = TempDir::new().unwrap();
        create_three_processes(directory.path()).await;
        tamper(directory.path(), "journal", |number, value| match (number, what) {
            (7, "flipped") => value[6] ^= 1,
            (7, _) => value.clear(),
            _ => {}
        });
        for _ in 0..2 {
            let store = open(directory.path()).await;
            assert_eq!(store.claim().await.unwrap().gained, ["a", "b", "c"]);
            assert_eq!(store.load("a").await.unwrap().records.len(), 5);
            assert_eq!(store.load("c").await.unwrap().records.len(), 5);
            let error = store.load("b").await.unwrap_err();
            assert!(matches!(&error, Error::Damaged { process, record: 2, .. } if process == "b"), "{error:?}");
            let error = error.to_string();
            assert!(error.contains("db/db, record 2") && error.contains("xavantes forget --force b"), "{error}");
            assert!(matches!(store.append("b", text("x")).await, Err(Error::Damaged { .. })));
            store.shut_down().await;
        }
        let store = open(directory.path()).await;
        store.forget(&["a".into(), "b".into()]).await.unwrap();
        assert_eq!(store.claim().await.unwrap().gained, ["a", "c"]);
        store.create("b", text("again")).await.unwrap();
        assert_eq!(store.load("b").await.unwrap().records, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_head_or_blob_affects_one_process() {
    let directory = TempDir::new().unwrap();
    create_three_processes(directory.path()).await;
    let store = open(directory.path()).await;
    store.create("blob", noise(20_000, 1)).await.unwrap();
    store.append("blob", noise(2 << 20, 2)).await.unwrap();
    store.shut_down().await;
    // "a", "b", "blob", "c", "ended"
    tamper(directory.path(), "processes", |number, value| value[6] ^= u8::from(number == 1));
    let blob = directory.path().join("blobs").join(blake3::hash(&noise(2 << 20, 2)).to_hex().as_str());
    fs::write(&blob, "something else").unwrap();

    let store = open(directory.path()).await;
    assert_eq!(store.claim().await.unwrap().gained, ["a", "b", "blob", "c"]);
    assert_eq!(store.load("a").await.unwrap().records.len(), 5);
    assert!(matches!(store.load("b").await, Err(Error::Damaged { .. })));
    assert!(matches!(store.find("b").await, Err(Error::Damaged { .. })));
    assert!(matches!(store.create("b", text("head")).await, Err(Error::Exists(_))));
    let error = store.load("blob").await.unwrap_err();
    assert!(matches!(&error, Error::Damaged { file, record: 0, .. } if Path::new(file) == blob), "{error:?}");
    let listed = store.list().await.unwrap();
    let heads: Vec<_> = listed.iter().map(|entry| (&entry.process[..], entry.head.len())).collect();
    assert_eq!(heads, [("a", 4), ("b", 0), ("blob", 20_000), ("c", 4), ("ended", 4)]);
    store.forget(&["b".into(), "blob".into()]).await.unwrap();
    store.shut_down().await;

    let store = open(directory.path()).await;
    assert_eq!(store.claim().await.unwrap().gained, ["a", "c"]);
    assert_eq!(fs::read_dir(directory.path().join("blobs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_killed_database_do_not_prevent_opening() {
    let directory = TempDir::new().unwrap();
    create_three_processes(directory.path()).await;
    fs::write(directory.path().join("db/snap.0000000000000001.generating"), "half").unwrap();
    fs::write(directory.path().join("blobs/partial"), "half").unwrap();
    let store = open(directory.path()).await;
    assert_eq!(store.list().await.unwrap().len(), 4);
    assert!(!directory.path().join("blobs/partial").exists());
}

const DIRECTORY_VARIABLE: &str = "XAVANTES_TEST_KILLED_DIRECTORY";

/// Not a test: the program that [`a_kill_loses_no_acknowledged_record`] kills. Writes to several processes and prints
/// each acknowledged record.
#[test]
fn killed_writer() {
    let Ok(directory) = std::env::var(DIRECTORY_VARIABLE) else { return };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = open(directory.as_ref()).await;
        let mut writers = tokio::task::JoinSet::new();
        for id in store.claim().await.unwrap().gained {
            let store = store.clone();
            writers.spawn(async move {
                let Journal { snapshot, records, .. } = store.load(&id).await.unwrap();
                let last = records.last().or(snapshot.as_ref()).map_or(0, number);
                println!("\nloaded {id} {last}");
                for next in last + 1.. {
                    // Small and large records, and small and large snapshots.
                    let size = if next % 97 == 0 { 30_000 } else { next as usize % 300 };
                    let record = [text(format!("{next} ")), noise(size, next)].concat().into();
                    if next % 50 == 0 {
                        store.compact(&id, record).await.unwrap();
                    } else {
                        store.append(&id, record).await.unwrap();
                    }
                    println!("\nkept {id} {next}");
                }
            });
        }
        while writers.join_next().await.is_some() {}
    });
}

fn number(record: &bytes::Bytes) -> u64 {
    let text = String::from_utf8_lossy(record);
    text.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_loses_no_acknowledged_record() {
    let rounds = std::env::var("KILL_ROUNDS").map_or(10, |rounds| rounds.parse().unwrap());
    let directory = TempDir::new().unwrap();
    let ids: Vec<_> = (0..8).map(|number| format!("p{number}")).collect();
    let store = open(directory.path()).await;
    for id in &ids {
        store.create(id, text("head")).await.unwrap();
    }
    store.shut_down().await;
    let mut kept = std::collections::HashMap::new();
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sled_store::killed_writer", "--nocapture"])
            .env(DIRECTORY_VARIABLE, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut left = 500 + round * 137;
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // A last line without its end does not count.
        while output.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            let words: Vec<_> = line.trim_end().split(' ').collect();
            if let ["kept", id, number] = words[..] {
                kept.insert(id.to_owned(), number.parse::<u64>().unwrap());
                left -= 1;
                if left == 0 {
                    // The loop also reads the lines that the child prints before it dies.
                    child.kill().unwrap();
                }
            }
            line.clear();
        }
        child.wait().unwrap();
        assert!(left <= 0, "the child ended before the kill");

        let store = open(directory.path()).await;
        assert_eq!(store.claim().await.unwrap().gained, ids);
        for id in &ids {
            let Journal { snapshot, records, .. } = store.load(id).await.unwrap();
            let numbers: Vec<_> = snapshot.iter().chain(&records).map(number).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "round {round}, {id}: {numbers:?}");
            let last = numbers.last().copied().unwrap_or(0);
            let acknowledged = kept.get(id).copied().unwrap_or(0);
            // At most one more record: the kill came before its acknowledgement was printed.
            assert!((acknowledged..=acknowledged + 1).contains(&last), "round {round}, {id}: {acknowledged}, {last}");
        }
        store.shut_down().await;
    }
}

/// A small file system. Drop unmounts it.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_additions_and_recovers() {
    let Some(disk) = SmallDisk::mount("120m") else {
        eprintln!("SKIPPED: this test needs the right to mount a file system");
        return;
    };
    let directory = disk.0.path().join("data");
    let store = open(&directory).await;
    store.create("p", text("head")).await.unwrap();
    let mut kept = 0;
    let error = loop {
        match store.append("p", noise(1 << 20, kept)).await {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 120, "the disk does not fill up");
    };
    assert!(matches!(&error, Error::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("less than 64 MiB are free on the disk of"), "{error}");
    // Larger than the free space including the reserve.
    assert!(matches!(store.put("k", "d", noise(119 << 20, 1)).await, Err(Error::Unavailable(_))));
    assert!(kept > 10, "{kept}");
    assert_eq!(store.load("p").await.unwrap().records.len() as u64, kept);

    // With free space again, the store continues.
    for file in fs::read_dir(directory.join("blobs")).unwrap() {
        assert_ne!(file.unwrap().file_name(), "partial");
    }
    store.remove("k", "d").await.unwrap();
    let remounted = Command::new("mount").args(["-o", "remount,size=300m"]).arg(disk.0.path()).status().unwrap();
    assert!(remounted.success());
    store.append("p", noise(1 << 20, kept)).await.unwrap();
    store.shut_down().await;
    let store = open(&directory).await;
    store.claim().await.unwrap();
    let records = store.load("p").await.unwrap().records;
    assert!(records.iter().enumerate().all(|(number, record)| *record == noise(1 << 20, number as u64)));
    assert_eq!(records.len() as u64, kept + 1);
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_process_stays_when_the_disk_refuses_to_reopen_it() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).await;
    let summary = noise(200 << 10, 1);
    store.create("ended", text("head")).await.unwrap();
    store.close("ended", summary.clone()).await.unwrap();
    // The next blob does not fit on the disk.
    std::os::unix::fs::symlink("/dev/full", directory.path().join("blobs/partial")).unwrap();
    assert!(matches!(store.reopen("ended", &summary, noise(200 << 10, 2)).await, Err(Error::Unavailable(_))));
    assert_eq!(store.find("ended").await.unwrap().unwrap().summary, Some(summary.clone()));
    store.shut_down().await;
    let store = open(directory.path()).await;
    assert_eq!(store.find("ended").await.unwrap().unwrap().summary, Some(summary));
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_changes_nothing_and_the_store_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount("160m") else {
        eprintln!("SKIPPED: this test needs the right to mount a file system");
        return;
    };
    let directory = disk.0.path().join("data");
    let store = open(&directory).await;
    store.create("runs", text("head")).await.unwrap();
    store.append("runs", text("one")).await.unwrap();
    store.put("kind", "kept", text("first")).await.unwrap();
    for number in 0..200 {
        let id = format!("ended {number:03}");
        store.create(&id, noise(3000, number)).await.unwrap();
        store.close(&id, noise(3000, number)).await.unwrap();
    }
    // Another program takes all space, with the reserve. Removals have no need of the reserve, so sled itself fails.
    let ballast = disk.0.path().join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    drop(file);
    let mut forgotten = 0;
    let error = loop {
        match store.forget(&[format!("ended {forgotten:03}")]).await {
            Ok(_) => forgotten += 1,
            Err(error) => break error,
        }
        assert!(forgotten < 200, "sled has not failed");
    };
    assert!(matches!(&error, Error::Unavailable(_)), "{error:?}");
    // The store says what it waits for.
    let refused = [
        store.append("runs", text("refused")).await,
        store.put("kind", "kept", text("refused")).await,
        store.create("refused", text("head")).await.map(drop),
        store.list().await.map(drop),
        store.find("runs").await.map(drop),
    ];
    assert!(refused.iter().all(|it| matches!(it, Err(Error::Unavailable(_)))), "{refused:?}");

    fs::remove_file(&ballast).unwrap();
    let began = std::time::Instant::now();
    while let Err(error) = store.append("runs", text("two")).await {
        assert!(matches!(error, Error::Unavailable(_)) && began.elapsed().as_secs() < 60, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let check = async |store: &xavantes_repository::Store, records: &[&str]| {
        assert_eq!(store.load("runs").await.unwrap().records, records);
        assert_eq!(store.get("kind", "kept").await.unwrap(), Some(text("first")));
        assert_eq!(store.find("refused").await.unwrap(), None);
        // The removal that failed was taken back, and those before it hold.
        assert_eq!(store.list().await.unwrap().len(), 200 - forgotten + 1);
        let found = store.find(&format!("ended {forgotten:03}")).await.unwrap().unwrap();
        assert_eq!(found.summary, Some(noise(3000, forgotten as u64)));
    };
    check(&store, &["one", "two"]).await;
    assert_eq!(store.claim().await.unwrap().gained, [""; 0], "the store still owns its processes");
    store.append("runs", text("three")).await.unwrap();
    store.shut_down().await;
    let store = open(&directory).await;
    assert_eq!(store.claim().await.unwrap().gained, ["runs"]);
    check(&store, &["one", "two", "three"]).await;
    store.shut_down().await;
}

/// Bytes on the disk that all files of a directory take.
fn disk_use(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap());
    files
        .map(|file| if file.path().is_dir() { disk_use(&file.path()) } else { file.metadata().unwrap().blocks() * 512 })
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_processes_take_no_space() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..25 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..40 {
                let id = format!("{number} {writer}");
                store.create(&id, noise(3000, writer)).await.unwrap();
                for record in 0..20 {
                    let bytes = noise(3000, record);
                    if record == 9 { store.compact(&id, bytes).await } else { store.append(&id, bytes).await }.unwrap();
                }
                store.close(&id, noise(3000, writer)).await.unwrap();
                store.forget(&[id]).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    assert_eq!(store.list().await.unwrap(), []);
    store.shut_down().await;
    // The test wrote 66 MB.
    assert!(disk_use(directory.path()) < 40_000_000, "{}", disk_use(directory.path()));
}
