//! The store on a real file system: restart, resumed transfers, eviction, and staging of directories in and out.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;
use xavantes_files::{Error, FileStore, Manifest, Reception, StageIn, StoreUsage, WorkingDirectory};
use xavantes_model::digest::Digest;

fn folder() -> TempDir {
    tempfile::tempdir().expect("the disk has space")
}

fn store(folder: &Path) -> FileStore {
    FileStore::open(folder, 1 << 30).expect("the folder is writable")
}

fn add(store: &FileStore, text: &str) -> Digest {
    store.add(&mut text.as_bytes(), text.len() as u64).expect("the disk has space").0
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

fn text(store: &FileStore, digest: &Digest) -> String {
    std::io::read_to_string(store.hold(digest).unwrap().open().unwrap()).unwrap()
}

/// The number of files in a folder and below.
fn files_in(path: &Path) -> usize {
    let inner = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    inner.map(|path| if path.is_dir() { files_in(&path) } else { 1 }).sum()
}

#[test]
fn objects_survive_a_restart_and_incomplete_ones_do_not() {
    let folder = folder();
    let first = store(folder.path());
    let kept = add(&first, "kept");
    assert_eq!(kept, digest(b"kept"));
    assert_eq!(add(&first, "kept"), kept);
    let Ok(Reception::Welcome(mut half)) = first.receive(digest(b"whole"), 5) else {
        panic!("the store does not have it")
    };
    half.write(b"wh").unwrap();
    drop(half);
    assert_eq!(first.offset(&digest(b"whole")), 2);
    first.pin("process", &[kept]).unwrap();
    drop(first);
    let again = store(folder.path());
    assert_eq!(again.usage(), StoreUsage { bytes: 4, objects: 1 });
    assert_eq!(text(&again, &kept), "kept");
    assert_eq!(again.offset(&digest(b"whole")), 0);
    assert_eq!(files_in(&folder.path().join("coming")), 0);
    assert_eq!(again.owners(), ["process"]);
    again.release("process", &[]);
    assert!(again.owners().is_empty());
    assert!(store(folder.path()).owners().is_empty());
}

#[test]
fn an_interrupted_transfer_resumes_and_is_checked_as_a_whole() {
    let folder = folder();
    let store = store(folder.path());
    let whole = digest(b"whole");
    let begin = || match store.receive(whole, 5) {
        Ok(Reception::Welcome(receiving)) => receiving,
        other => panic!("{other:?}"),
    };
    let mut first = begin();
    first.write(b"wh").unwrap();
    assert!(matches!(store.receive(whole, 5), Err(Error::Busy(_))));
    drop(first);
    let mut second = begin();
    assert_eq!(second.offset(), 2);
    second.write(b"ole").unwrap();
    assert!(!store.has(&whole), "an object is invisible before the check");
    second.finish().unwrap();
    assert_eq!(text(&store, &whole), "whole");
    assert!(matches!(store.receive(whole, 5), Ok(Reception::Here)));
    // The store keeps nothing of wrong bytes, too few or too many.
    for wrong in [&b"wrong bytes"[..11], b"", b"right bytes and more"] {
        let Ok(Reception::Welcome(mut receiving)) = store.receive(digest(b"right bytes"), 11) else { panic!() };
        let written = receiving.write(wrong);
        assert!(written.and_then(|()| receiving.finish()).is_err());
        assert_eq!(store.offset(&digest(b"right bytes")), 0);
    }
    assert_eq!(store.usage(), StoreUsage { bytes: 5, objects: 1 });
    assert_eq!(files_in(&folder.path().join("coming")), 0);
}

#[test]
fn pinned_and_held_objects_stay_and_others_are_evicted() {
    let folder = folder();
    let store = FileStore::open(folder.path(), 10).unwrap();
    let (old, pinned, used) = (add(&store, "old"), add(&store, "pin"), add(&store, "use"));
    store.pin("process", &[pinned]).unwrap();
    let hold = store.hold(&used).unwrap();
    let new = add(&store, "new");
    assert_eq!([old, pinned, used, new].map(|digest| store.has(&digest)), [false, true, true, true]);
    let refused = store.add(&mut &b"large"[..], 5).unwrap_err().to_string();
    assert!(refused.contains("no room for 5 bytes: of 10 bytes 6 are in use"), "{refused}");
    drop(hold);
    store.release("process", &[]);
    add(&store, "0123456789");
    assert_eq!(store.usage(), StoreUsage { bytes: 10, objects: 1 });
    assert_eq!(files_in(&folder.path().join("objects")), 1);
    assert!(matches!(store.hold(&new), Err(Error::Missing(_))));
}

#[test]
fn a_full_store_gives_up_interrupted_transfers() {
    let folder = folder();
    let store = FileStore::open(folder.path(), 10).unwrap();
    let Ok(Reception::Welcome(mut half)) = store.receive(digest(b"12345678"), 8) else { panic!() };
    half.write(b"1234").unwrap();
    let other = add(&store, "abcde");
    assert!(store.has(&other), "what is announced takes no room");
    assert!(store.add(&mut &b"abcdefg"[..], 7).is_err(), "what has arrived does");
    drop(half);
    add(&store, "abcdefg");
    assert_eq!(store.offset(&digest(b"12345678")), 0);
}

#[test]
fn a_query_with_an_owner_pins_what_the_store_has() {
    let (folder, work) = (folder(), folder());
    let store = FileStore::open(folder.path(), 1000).unwrap();
    fs::create_dir(work.path().join("tree")).unwrap();
    fs::write(work.path().join("tree/inner"), "inner").unwrap();
    let whole = WorkingDirectory::open(work.path()).unwrap().stage_out(&store, "tree", true).unwrap().digest;
    let (here, gone) = (add(&store, "here"), digest(b"gone"));
    let has = |owner| store.has_all(&[here, gone], &[whole, gone], owner).unwrap();
    assert_eq!(has(None), [true, false, true, false]);
    assert!(store.owners().is_empty());
    assert_eq!(has(Some("process")), [true, false, true, false]);
    // The store evicts everything that is not pinned.
    add(&store, &"x".repeat(900));
    assert!(store.add(&mut &[0; 990][..], 990).is_err());
    assert_eq!(has(None), [true, false, true, false]);
    store.release("process", &[]);
    store.add(&mut &[0; 990][..], 990).unwrap();
    assert_eq!(has(None), [false; 4]);
}

#[test]
fn a_directory_is_staged_in_as_it_was_staged_out() {
    let (folder, work, out) = (folder(), folder(), folder());
    let store = store(folder.path());
    let at = |path: &str| work.path().join("tree").join(path);
    fs::create_dir_all(at("sub/deeper")).unwrap();
    fs::create_dir_all(at("nothing/in/it")).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("sub/odd\nname ü"), "odd").unwrap();
    fs::write(at("sub/deeper/run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(at("sub/deeper/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("deeper/run", at("sub/link")).unwrap();
    symlink("../empty", at("sub/up")).unwrap();
    symlink("not there", at("dangling")).unwrap();
    let place = WorkingDirectory::open(work.path()).unwrap();
    let stored = place.stage_out(&store, "tree", true).unwrap();
    assert_eq!((stored.size, stored.objects.len()), (13, 4));
    assert_eq!(place.stage_out(&store, "tree", true).unwrap(), stored, "equal directories have equal digests");
    let manifest = store.manifest(&stored.digest).unwrap();
    let target = WorkingDirectory::open(out.path()).unwrap();
    let mut stage_in = StageIn::read_only(&store, &target);
    stage_in.directory("copy", &manifest).unwrap();
    let staged = stage_in.finish();
    assert_eq!(target.stage_out(&store, "copy", true).unwrap().digest, stored.digest);
    let run = fs::metadata(out.path().join("copy/sub/deeper/run")).unwrap();
    assert_eq!(run.permissions().mode() & 0o777, 0o555);
    assert_eq!(fs::read_to_string(out.path().join("copy/sub/odd\nname ü")).unwrap(), "odd");
    assert!(out.path().join("copy/nothing/in/it").is_dir());
    assert!(staged.changed().is_empty());
    // A program of the same user can write to a read-only file. The store notices.
    let path = out.path().join("copy/sub/odd\nname ü");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, "other").unwrap();
    assert_eq!(staged.changed(), ["copy/sub/odd\nname ü"]);
    assert!(!store.has(&digest(b"odd")));
    // Writable copies belong to the user.
    let own = folder_with_copy(&store);
    assert_eq!(fs::read_to_string(own.path().join("file")).unwrap(), "copied");
}

fn folder_with_copy(store: &FileStore) -> TempDir {
    let own = folder();
    let place = WorkingDirectory::open(own.path()).unwrap();
    let copied = add(store, "copied");
    let mut stage_in = StageIn::writable(store, &place);
    stage_in.file("file", &copied, false).unwrap();
    // A file that exists with the same content stays.
    stage_in.file("file", &copied, false).unwrap();
    let other = add(store, "other");
    assert!(stage_in.file("file", &other, false).unwrap_err().to_string().contains("already"));
    fs::write(own.path().join("file"), "changed").unwrap();
    assert!(stage_in.finish().changed().is_empty());
    assert_eq!(text(store, &copied), "copied");
    fs::write(own.path().join("file"), "copied").unwrap();
    own
}

#[test]
fn objects_that_a_program_changed_leave_the_store_when_the_attempt_ends() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let (changed, whole) = (add(&store, "changed"), add(&store, "whole"));
    let place = WorkingDirectory::open(work.path()).unwrap();
    let mut stage_in = StageIn::read_only(&store, &place);
    stage_in.file("changed", &changed, false).unwrap();
    stage_in.file("whole", &whole, false).unwrap();
    let staged = stage_in.finish();
    fs::set_permissions(work.path().join("changed"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(work.path().join("changed"), "something else").unwrap();
    drop(staged);
    assert!(!store.has(&changed) && store.has(&whole));
    // The same content can be stored again.
    add(&store, "changed");
    assert_eq!(text(&store, &changed), "changed");
}

/// Waits until the clock of the file system advances, so that the next change gets another change time.
fn next_moment(folder: &Path) {
    let now = || {
        fs::write(folder.join("moment"), "").unwrap();
        fs::metadata(folder.join("moment")).unwrap().modified().unwrap()
    };
    let (before, began) = (now(), std::time::Instant::now());
    while now() == before {
        assert!(began.elapsed().as_secs() < 60, "the clock of the file system does not advance");
    }
    fs::remove_file(folder.join("moment")).unwrap();
}

#[test]
fn changes_of_objects_are_noticed_even_if_a_program_hides_them() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let place = WorkingDirectory::open(work.path()).unwrap();
    let stage = |path: &str, digest: &Digest| {
        let mut stage_in = StageIn::read_only(&store, &place);
        stage_in.file(path, digest, false).unwrap();
        stage_in.finish()
    };
    // One of three attempts writes to the object and sets the modification time back.
    let object = add(&store, "right");
    let (before, writer, after) = (stage("a/before", &object), stage("b/writer", &object), stage("after", &object));
    assert!(before.changed().is_empty());
    before.unlink();
    let at = work.path().join("b/writer");
    let time = fs::metadata(&at).unwrap().modified().unwrap();
    next_moment(work.path());
    fs::set_permissions(&at, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&at, "wrong").unwrap();
    fs::File::options().write(true).open(&at).unwrap().set_modified(time).unwrap();
    assert_eq!(writer.changed(), ["b/writer"]);
    assert!(!store.has(&object));
    assert_eq!(after.changed(), ["after"], "each attempt learns what another one changed");
    // The link still leads to the changed file after the object was stored again.
    assert_eq!(add(&store, "right"), object);
    assert_eq!(after.changed(), ["after"]);
    drop((before, writer, after));
    assert_eq!(text(&store, &object), "right");
    // A change after the attempt ended.
    let late = add(&store, "late");
    let staged = stage("kept", &late);
    assert!(staged.changed().is_empty());
    drop(staged);
    fs::set_permissions(work.path().join("kept"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(text(&store, &late), "late");
    next_moment(work.path());
    fs::write(work.path().join("kept"), "fake").unwrap();
    assert!(matches!(store.hold(&late), Err(Error::Missing(_))));
    // A change while the store is closed.
    let last = add(&store, "last");
    let staged = stage("last", &last);
    fs::set_permissions(work.path().join("last"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(work.path().join("last"), "fake").unwrap();
    std::mem::forget(staged);
    let again = FileStore::open(folder.path(), 1 << 30).unwrap();
    assert!(matches!(again.hold(&last), Err(Error::Missing(_))));
}

#[test]
fn links_are_removed_and_files_of_the_program_stay() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let place = WorkingDirectory::open(work.path()).unwrap();
    let object = add(&store, "object");
    let mut stage_in = StageIn::read_only(&store, &place);
    for path in ["a/b/c", "d", "e"] {
        stage_in.file(path, &object, false).unwrap();
    }
    let staged = stage_in.finish();
    fs::remove_file(work.path().join("e")).unwrap();
    fs::write(work.path().join("e"), "by the program").unwrap();
    staged.unlink();
    assert_eq!(
        (files_in(work.path()), fs::read_to_string(work.path().join("e")).unwrap()),
        (1, "by the program".into())
    );
    assert!(staged.changed().is_empty());
    staged.unlink();
    drop(staged);
    assert_eq!(text(&store, &object), "object");
}

#[test]
fn nothing_outside_is_staged_out() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let at = |path: &str| work.path().join(path);
    symlink("/etc/passwd", at("passwd")).unwrap();
    symlink("../../../../../../etc/passwd", at("relative")).unwrap();
    symlink("/etc", at("etc")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("dir/file"), "x").unwrap();
    symlink("dir/file", at("inside")).unwrap();
    symlink("loop", at("loop")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    let place = WorkingDirectory::open(work.path()).unwrap();
    let stage_out = |path: &str, directory| place.stage_out(&store, path, directory).map_err(|error| error.to_string());
    assert!(stage_out("inside", false).is_ok());
    let before = store.usage();
    for (path, why) in [
        ("passwd", "leads out of the directory through a symbolic link"),
        ("relative", "leads out of the directory"),
        ("etc/passwd", "leads out of the directory"),
        ("fifo", "neither a file nor a directory"),
        ("dir", "is a directory"),
        ("absent", "is not there"),
        ("/etc/passwd", "is absolute"),
        ("../x", "leads out of the directory with"),
        ("loop", "symbolic link"),
    ] {
        let error = stage_out(path, false).unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    }
    assert!(stage_out("dir/file", true).unwrap_err().contains("not a directory"));
    assert!(stage_out("etc", true).unwrap_err().contains("leads out"));
    assert_eq!(store.usage(), before);
    // The same within a directory.
    fs::create_dir(at("links")).unwrap();
    symlink("/etc/passwd", at("links/passwd")).unwrap();
    assert!(stage_out("links", true).unwrap_err().contains("absolute"));
    fs::create_dir(at("pipes")).unwrap();
    fs::rename(at("fifo"), at("pipes/fifo")).unwrap();
    assert!(stage_out("pipes", true).unwrap_err().contains("neither"));
    use std::os::unix::ffi::OsStrExt;
    fs::create_dir(at("names")).unwrap();
    fs::write(at("names").join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    assert!(stage_out("names", true).unwrap_err().contains("not UTF-8"));
}

#[test]
fn nothing_outside_is_staged_in() {
    let (folder, work, elsewhere) = (folder(), folder(), folder());
    let store = store(folder.path());
    let file = add(&store, "x");
    let place = WorkingDirectory::open(work.path()).unwrap();
    symlink(elsewhere.path(), work.path().join("out")).unwrap();
    let mut stage_in = StageIn::read_only(&store, &place);
    for path in ["out/file", "../file", "/tmp/file", "a/../../file", "", "out"] {
        assert!(stage_in.file(path, &file, false).is_err(), "{path}");
        assert!(stage_in.file(path, &file, true).is_err(), "{path}");
        assert!(stage_in.directory(path, &Manifest::new(vec![]).unwrap()).is_err(), "{path}");
    }
    stage_in.file("a/b/c", &file, false).unwrap();
    assert!(stage_in.file("a/b/c/d", &file, false).unwrap_err().to_string().contains("not a directory"));
    assert_eq!(files_in(elsewhere.path()), 0);
}

#[test]
fn patterns_match_as_in_a_shell() {
    let work = folder();
    for path in ["a.csv", "b.csv", ".hidden.csv", "out/c.csv", "out/deep/d.csv", "new\nline.csv", "x.txt"] {
        let path = work.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let place = WorkingDirectory::open(work.path()).unwrap();
    let find = |pattern: &str| place.find(pattern).unwrap();
    assert_eq!(find("*.csv"), ["a.csv", "b.csv", "new\nline.csv"]);
    assert_eq!(find("out/*"), ["out/c.csv", "out/deep"]);
    assert_eq!(find("**/*.csv").len(), 5);
    assert_eq!(find("[ab].csv"), ["a.csv", "b.csv"]);
    assert_eq!(find("x.txt"), ["x.txt"]);
    assert_eq!(find("y.txt"), Vec::<String>::new());
    assert!(place.find("a[").is_err() && place.find("../x").is_err());
    assert!(place.listing().contains("\"a.csv\""));
}
