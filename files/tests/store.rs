//! The store: what it keeps, what it lets go, what it takes out of directories and lays into them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;
use xavantes_files::{Error, Laying, Manifest, Reception, Store, Workplace};
use xavantes_model::digest::Digest;

fn folder() -> TempDir {
    tempfile::tempdir().expect("there is room")
}

fn store(folder: &Path) -> Store {
    Store::open(folder, 1 << 30).expect("it can be opened")
}

fn add(store: &Store, text: &str) -> Digest {
    store.add(&mut text.as_bytes(), text.len() as u64).expect("there is room").0
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

fn text(store: &Store, digest: &Digest) -> String {
    std::io::read_to_string(store.hold(digest).unwrap().open().unwrap()).unwrap()
}

/// Everything in a folder, below it too.
fn files_in(path: &Path) -> usize {
    let inner = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    inner.map(|path| if path.is_dir() { files_in(&path) } else { 1 }).sum()
}

#[test]
fn what_is_kept_is_there_after_a_restart_and_what_was_half_written_is_not() {
    let folder = folder();
    let first = store(folder.path());
    let kept = add(&first, "kept");
    assert_eq!(kept, digest(b"kept"));
    assert_eq!(add(&first, "kept"), kept);
    let Ok(Reception::Welcome(mut half)) = first.receive(digest(b"whole"), 5) else { panic!("it is not here") };
    half.write(b"wh").unwrap();
    drop(half);
    assert_eq!(first.offset(&digest(b"whole")), 2);
    first.pin("process", &[kept]).unwrap();
    drop(first);
    let again = store(folder.path());
    assert_eq!(again.kept(), (4, 1));
    assert_eq!(text(&again, &kept), "kept");
    assert_eq!(again.offset(&digest(b"whole")), 0);
    assert_eq!(files_in(&folder.path().join("coming")), 0);
    assert_eq!(again.owners(), ["process"]);
    again.release("process", &[]);
    assert!(again.owners().is_empty());
    assert!(store(folder.path()).owners().is_empty());
}

#[test]
fn a_transfer_that_broke_off_goes_on_and_is_checked_as_a_whole() {
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
    assert!(!store.has(&whole), "nothing is visible before it was checked");
    second.finish().unwrap();
    assert_eq!(text(&store, &whole), "whole");
    assert!(matches!(store.receive(whole, 5), Ok(Reception::Here)));
    // Wrong bytes, too few, too many: nothing stays of them.
    for wrong in [&b"wrong bytes"[..11], b"", b"right bytes and more"] {
        let Ok(Reception::Welcome(mut receiving)) = store.receive(digest(b"right bytes"), 11) else { panic!() };
        let written = receiving.write(wrong);
        assert!(written.and_then(|()| receiving.finish()).is_err());
        assert_eq!(store.offset(&digest(b"right bytes")), 0);
    }
    assert_eq!(store.kept(), (5, 1));
    assert_eq!(files_in(&folder.path().join("coming")), 0);
}

#[test]
fn what_is_needed_stays_and_the_rest_makes_room() {
    let folder = folder();
    let store = Store::open(folder.path(), 10).unwrap();
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
    assert_eq!(store.kept(), (10, 1));
    assert_eq!(files_in(&folder.path().join("objects")), 1);
    assert!(matches!(store.hold(&new), Err(Error::Missing(_))));
}

#[test]
fn transfers_that_broke_off_make_room_too() {
    let folder = folder();
    let store = Store::open(folder.path(), 10).unwrap();
    let Ok(Reception::Welcome(mut half)) = store.receive(digest(b"12345678"), 8) else { panic!() };
    half.write(b"1234").unwrap();
    assert!(store.add(&mut &b"abc"[..], 3).is_err());
    drop(half);
    add(&store, "abc");
    assert_eq!(store.offset(&digest(b"12345678")), 0);
}

#[test]
fn what_is_there_stays_for_who_asks_for_it() {
    let (folder, work) = (folder(), folder());
    let store = Store::open(folder.path(), 1000).unwrap();
    fs::create_dir(work.path().join("tree")).unwrap();
    fs::write(work.path().join("tree/inner"), "inner").unwrap();
    let whole = Workplace::open(work.path()).unwrap().take(&store, "tree", true).unwrap().digest;
    let (here, gone) = (add(&store, "here"), digest(b"gone"));
    let has = |owner| store.has_all(&[here, gone], &[whole, gone], owner).unwrap();
    assert_eq!(has(None), [true, false, true, false]);
    assert!(store.owners().is_empty());
    assert_eq!(has(Some("process")), [true, false, true, false]);
    // Everything goes that nobody needs.
    add(&store, &"x".repeat(900));
    assert!(store.add(&mut &[0; 990][..], 990).is_err());
    assert_eq!(has(None), [true, false, true, false]);
    store.release("process", &[]);
    store.add(&mut &[0; 990][..], 990).unwrap();
    assert_eq!(has(None), [false; 4]);
}

#[test]
fn directories_come_out_as_they_went_in() {
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
    let place = Workplace::open(work.path()).unwrap();
    let taken = place.take(&store, "tree", true).unwrap();
    assert_eq!((taken.size, taken.objects.len()), (13, 4));
    assert_eq!(place.take(&store, "tree", true).unwrap(), taken, "the same directory is the same");
    let manifest = store.manifest(&taken.digest).unwrap();
    let target = Workplace::open(out.path()).unwrap();
    let mut laying = Laying::new(&store, &target, false);
    laying.directory("copy", &manifest).unwrap();
    let laid = laying.done();
    assert_eq!(target.take(&store, "copy", true).unwrap().digest, taken.digest);
    let run = fs::metadata(out.path().join("copy/sub/deeper/run")).unwrap();
    assert_eq!(run.permissions().mode() & 0o777, 0o555);
    assert_eq!(fs::read_to_string(out.path().join("copy/sub/odd\nname ü")).unwrap(), "odd");
    assert!(out.path().join("copy/nothing/in/it").is_dir());
    assert!(laid.changed().is_empty());
    // A program of the administrator can write to what is to be read only. That is noticed.
    let path = out.path().join("copy/sub/odd\nname ü");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, "other").unwrap();
    assert_eq!(laid.changed(), ["copy/sub/odd\nname ü"]);
    assert!(!store.has(&digest(b"odd")));
    // Copies belong to whoever gets them.
    let own = folder_with_copy(&store);
    assert_eq!(fs::read_to_string(own.path().join("file")).unwrap(), "copied");
}

fn folder_with_copy(store: &Store) -> TempDir {
    let own = folder();
    let place = Workplace::open(own.path()).unwrap();
    let copied = add(store, "copied");
    let mut laying = Laying::new(store, &place, true);
    laying.file("file", &copied, false).unwrap();
    // What is there already is left alone if it is the same.
    laying.file("file", &copied, false).unwrap();
    let other = add(store, "other");
    assert!(laying.file("file", &other, false).unwrap_err().to_string().contains("already"));
    fs::write(own.path().join("file"), "changed").unwrap();
    assert!(laying.done().changed().is_empty());
    assert_eq!(text(store, &copied), "copied");
    fs::write(own.path().join("file"), "copied").unwrap();
    own
}

#[test]
fn what_a_program_changed_is_not_given_to_others_even_if_it_failed() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let (changed, whole) = (add(&store, "changed"), add(&store, "whole"));
    let place = Workplace::open(work.path()).unwrap();
    let mut laying = Laying::new(&store, &place, false);
    laying.file("changed", &changed, false).unwrap();
    laying.file("whole", &whole, false).unwrap();
    let laid = laying.done();
    fs::set_permissions(work.path().join("changed"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(work.path().join("changed"), "something else").unwrap();
    drop(laid);
    assert!(!store.has(&changed) && store.has(&whole));
    // The same content that came again meanwhile is not touched.
    add(&store, "changed");
    assert_eq!(text(&store, &changed), "changed");
}

/// Waits until the clock of the file system goes on: what is done now is done at another time than before.
fn next_moment(folder: &Path) {
    let now = || {
        fs::write(folder.join("moment"), "").unwrap();
        fs::metadata(folder.join("moment")).unwrap().modified().unwrap()
    };
    let (before, began) = (now(), std::time::Instant::now());
    while now() == before {
        assert!(began.elapsed().as_secs() < 60, "the clock stands still");
    }
    fs::remove_file(folder.join("moment")).unwrap();
}

#[test]
fn what_was_done_to_an_object_is_noticed_whoever_did_it_and_hid_it() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let place = Workplace::open(work.path()).unwrap();
    let lay = |path: &str, digest: &Digest| {
        let mut laying = Laying::new(&store, &place, false);
        laying.file(path, digest, false).unwrap();
        laying.done()
    };
    // Others have it in hand while one writes to it, and sets the time back.
    let object = add(&store, "right");
    let (before, writer, after) = (lay("a/before", &object), lay("b/writer", &object), lay("after", &object));
    assert!(before.changed().is_empty());
    before.lift();
    let at = work.path().join("b/writer");
    let time = fs::metadata(&at).unwrap().modified().unwrap();
    next_moment(work.path());
    fs::set_permissions(&at, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&at, "wrong").unwrap();
    fs::File::options().write(true).open(&at).unwrap().set_modified(time).unwrap();
    assert_eq!(writer.changed(), ["b/writer"]);
    assert!(!store.has(&object));
    assert_eq!(after.changed(), ["after"], "it is told of what others changed, too");
    // Even if it came again meanwhile, which is not touched.
    assert_eq!(add(&store, "right"), object);
    assert_eq!(after.changed(), ["after"]);
    drop((before, writer, after));
    assert_eq!(text(&store, &object), "right");
    // When nobody works with it any more.
    let late = add(&store, "late");
    let laid = lay("kept", &late);
    assert!(laid.changed().is_empty());
    drop(laid);
    fs::set_permissions(work.path().join("kept"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(text(&store, &late), "late");
    next_moment(work.path());
    fs::write(work.path().join("kept"), "fake").unwrap();
    assert!(matches!(store.hold(&late), Err(Error::Missing(_))));
    // When the store is opened again.
    let last = add(&store, "last");
    let laid = lay("last", &last);
    fs::set_permissions(work.path().join("last"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(work.path().join("last"), "fake").unwrap();
    std::mem::forget(laid);
    let again = Store::open(folder.path(), 1 << 30).unwrap();
    assert!(matches!(again.hold(&last), Err(Error::Missing(_))));
}

#[test]
fn what_was_laid_is_lifted() {
    let (folder, work) = (folder(), folder());
    let store = store(folder.path());
    let place = Workplace::open(work.path()).unwrap();
    let object = add(&store, "object");
    let mut laying = Laying::new(&store, &place, false);
    for path in ["a/b/c", "d", "e"] {
        laying.file(path, &object, false).unwrap();
    }
    let laid = laying.done();
    fs::remove_file(work.path().join("e")).unwrap();
    fs::write(work.path().join("e"), "of the program").unwrap();
    laid.lift();
    assert_eq!(
        (files_in(work.path()), fs::read_to_string(work.path().join("e")).unwrap()),
        (1, "of the program".into())
    );
    assert!(laid.changed().is_empty());
    laid.lift();
    drop(laid);
    assert_eq!(text(&store, &object), "object");
}

#[test]
fn nothing_outside_is_taken() {
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
    let place = Workplace::open(work.path()).unwrap();
    let take = |path: &str, directory| place.take(&store, path, directory).map_err(|error| error.to_string());
    assert!(take("inside", false).is_ok());
    let before = store.kept();
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
        let error = take(path, false).unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    }
    assert!(take("dir/file", true).unwrap_err().contains("not a directory"));
    assert!(take("etc", true).unwrap_err().contains("leads out"));
    assert_eq!(store.kept(), before);
    // As parts of a directory.
    fs::create_dir(at("links")).unwrap();
    symlink("/etc/passwd", at("links/passwd")).unwrap();
    assert!(take("links", true).unwrap_err().contains("absolute"));
    fs::create_dir(at("pipes")).unwrap();
    fs::rename(at("fifo"), at("pipes/fifo")).unwrap();
    assert!(take("pipes", true).unwrap_err().contains("neither"));
    use std::os::unix::ffi::OsStrExt;
    fs::create_dir(at("names")).unwrap();
    fs::write(at("names").join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    assert!(take("names", true).unwrap_err().contains("not UTF-8"));
}

#[test]
fn nothing_is_laid_outside() {
    let (folder, work, elsewhere) = (folder(), folder(), folder());
    let store = store(folder.path());
    let file = add(&store, "x");
    let place = Workplace::open(work.path()).unwrap();
    symlink(elsewhere.path(), work.path().join("out")).unwrap();
    let mut laying = Laying::new(&store, &place, false);
    for path in ["out/file", "../file", "/tmp/file", "a/../../file", "", "out"] {
        assert!(laying.file(path, &file, false).is_err(), "{path}");
        assert!(laying.file(path, &file, true).is_err(), "{path}");
        assert!(laying.directory(path, &Manifest::new(vec![]).unwrap()).is_err(), "{path}");
    }
    laying.file("a/b/c", &file, false).unwrap();
    assert!(laying.file("a/b/c/d", &file, false).unwrap_err().to_string().contains("no directory"));
    assert_eq!(files_in(elsewhere.path()), 0);
}

#[test]
fn patterns_find_what_they_say() {
    let work = folder();
    for path in ["a.csv", "b.csv", ".hidden.csv", "out/c.csv", "out/deep/d.csv", "new\nline.csv", "x.txt"] {
        let path = work.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let place = Workplace::open(work.path()).unwrap();
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
