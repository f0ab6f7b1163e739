use super::*;

#[tokio::test]
async fn several_threads_may_make_the_first_directories() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("node");
    for _ in 0..200 {
        let workdirs = WorkDirs::open(&folder, 0).expect("the disk has space");
        let barrier = std::sync::Barrier::new(4);
        let make = || {
            barrier.wait();
            workdirs.create().map(drop)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads
                .into_iter()
                .for_each(|it| it.join().expect("the thread does not panic").expect("the disk has space"));
        });
        workdirs.close();
    }
}

#[tokio::test]
async fn a_folder_that_was_removed_is_made_again_but_never_taken_from_another_user() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("node");
    let workdirs = WorkDirs::open(&folder, 0).expect("the disk has space");
    fs::remove_dir_all(&folder).expect("this user owns it");
    let made = workdirs.create().expect("the disk has space");
    assert!(made.starts_with(&folder));
    let mode = fs::symlink_metadata(&folder).expect("it is there").mode();
    assert_eq!(mode & 0o7777, 0o700);
    fs::remove_dir_all(&folder).expect("this user owns it");
    fs::create_dir(&folder).expect("the disk has space");
    // Only the superuser can give a folder away.
    if std::os::unix::fs::chown(&folder, Some(65534), None).is_ok() {
        let refused = workdirs.create().expect_err("somebody else owns the folder");
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    }
}

#[tokio::test]
async fn directories_are_removed_with_their_attempts_or_reused() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("node");
    let workdirs = WorkDirs::open(&folder, 0).expect("the disk has space");
    let (one, two) = (workdirs.make().expect("the disk has space"), workdirs.make().expect("the disk has space"));
    assert_ne!(one.path(), two.path());
    fs::write(one.script(), "x").expect("the disk has space");
    let inner = one.work().join("a/b");
    fs::create_dir_all(&inner).expect("the disk has space");
    fs::write(inner.join("file"), "x").expect("the disk has space");
    fs::set_permissions(&inner, Permissions::from_mode(0o0)).expect("this user owns it");
    let (first, second) = (one.path().to_owned(), two.path().to_owned());
    assert_eq!(one.close(Some("failed")).await, None);
    drop(two);
    assert!(!first.exists() && !second.exists());
    // A directory that stays empty and unchanged serves again.
    let one = workdirs.make().expect("the disk has space");
    let first = one.path().to_owned();
    one.close(None).await;
    let mut again = workdirs.make().expect("the disk has space");
    assert_eq!(again.path(), first);
    again.write(again.script(), b"x").expect("the disk has space");
    again.close(None).await;
    for spoil in [
        |path: &Path| fs::set_permissions(path.join("work"), Permissions::from_mode(0o755)),
        |path: &Path| fs::write(path.join("tmp/x"), ""),
    ] {
        let again = workdirs.make().expect("the disk has space");
        let path = again.path().to_owned();
        assert_eq!(fs::read_dir(&path).expect("the folder exists").count(), 2);
        spoil(&path).expect("this user owns it");
        again.close(None).await;
        assert!(!path.exists());
    }
    // The same for a directory that is old enough for its stamps to show changes.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let old = loop {
        assert!(std::time::Instant::now() < deadline, "clocks go on");
        let again = workdirs.make().expect("the disk has space");
        if again.stamps.is_some_and(|stamps| stamps.iter().all(|stamp| stamp.shows_changes_after(again.began))) {
            break again;
        }
        again.close(None).await;
    };
    let path = old.path().to_owned();
    assert_eq!(old.empty_stamps(), old.stamps);
    fs::write(old.work().join("x"), "").expect("this user owns it");
    assert_eq!(old.empty_stamps(), None);
    old.close(None).await;
    assert!(!path.exists());
    workdirs.make().expect("the disk has space").close(None).await;
    while fs::read_dir(workdirs.root()).expect("the folder exists").count() > 0 {
        assert!(std::time::Instant::now() < deadline, "spare directories are removed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Directories of a former run.
    let left = workdirs.make().expect("the disk has space");
    fs::write(left.work().join("file"), "x").expect("the disk has space");
    std::mem::forget(left);
    WorkDirs::open(&folder, 0).expect("the disk has space");
    assert!(!workdirs.root().exists());
}

#[tokio::test]
async fn the_newest_directories_of_failed_attempts_stay() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("node");
    let workdirs = WorkDirs::open(&folder, 2).expect("the disk has space");
    let mut kept = Vec::new();
    for name in ["a", "b", "c"] {
        let workdir = workdirs.make().expect("the disk has space");
        fs::write(workdir.work().join(name), name).expect("the disk has space");
        kept.push(workdir.close(Some(name)).await.expect("the directory stays"));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(kept.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(fs::read_to_string(kept[2].join("work/c")).expect("the directory stays"), "c");
    let done = workdirs.make().expect("the disk has space");
    assert_eq!(done.close(None).await, None);
    WorkDirs::open(&folder, 1).expect("the disk has space");
    assert_eq!(kept.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, false, true]);
}
