//! The directories of attempts. Each attempt has one of its own, which goes away with it. One in which nothing was left
//! may serve another attempt before it goes: to make and remove directories takes longer than many a program.
//!
//! | in it | is |
//! |---|---|
//! | `work/` | where the program begins; its home |
//! | `tmp/` | for its temporary files |
//! | `script`, `parameters.json`, `results.json` | what goes in and comes out |

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::warn;

use super::register;

/// In the directory of an attempt.
const WORK: &str = "work";
const TEMPORARY: &str = "tmp";

/// The directories of all attempts of a worker.
#[derive(Debug)]
pub(crate) struct Folders {
    /// Of those that run.
    root: PathBuf,
    /// Of those that failed.
    failed: PathBuf,
    /// So many of the latter are kept.
    keep: usize,
    next: AtomicU64,
    /// Attempts that have a directory.
    active: AtomicUsize,
    /// Directories in which nothing was left.
    spare: Mutex<Vec<Spare>>,
    /// Somebody is about to remove those.
    tidying: AtomicBool,
}

/// A directory in which nothing was left: itself, and the two in it, as they were then.
#[derive(Debug)]
struct Spare {
    path: PathBuf,
    stamps: [Stamp; 3],
}

/// Tells whether something was made or removed in a directory, or its permissions changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    /// When it was last changed; seconds and nanoseconds.
    changed: (i64, i64),
}

/// Clocks of file systems stand still for less than this.
const TICK: Duration = Duration::from_millis(100);

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self { inode: about.ino(), changed: (about.ctime(), about.ctime_nsec()) }
    }

    /// Whether every change after this time, since 1970, makes it another one. Those of some file systems tell seconds only.
    fn tells_changes_after(&self, time: Duration) -> bool {
        let changed = Duration::new(self.changed.0.try_into().unwrap_or(u64::MAX), self.changed.1 as u32);
        self.changed.1 != 0 && changed.checked_add(TICK).is_some_and(|sure| sure < time)
    }
}

/// Directories without an attempt that are kept at most; those of a moment without programs are removed.
const MOST_SPARE: usize = 64;
const MOMENT: Duration = Duration::from_millis(300);

impl Folders {
    /// In this folder. What a former life has left there is ended and removed, except for failures that are kept.
    pub fn open(folder: &Path, keep: usize) -> io::Result<Arc<Self>> {
        let folder = std::path::absolute(folder)?;
        if folder.to_str().is_none() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "its path is not UTF-8"));
        }
        let (root, failed) = (folder.join("work"), folder.join("failed"));
        if root.exists() {
            register::end_all_in(&root, &|_| true);
            if let Err(error) = remove(&root) {
                // What a container made as another user may stay; new directories have other names.
                warn!(path = %root.display(), %error, "what a former life of this node has left cannot be removed");
            }
        }
        let folders = Self {
            root,
            failed,
            keep,
            next: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            spare: Mutex::default(),
            tidying: AtomicBool::new(false),
        };
        folders.forget_old_failures();
        Ok(Arc::new(folders))
    }

    /// Where they are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Directories of attempts that failed are kept.
    pub fn keeps_failures(&self) -> bool {
        self.keep > 0
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One in which there is nothing.
    pub fn make(self: &Arc<Self>) -> io::Result<Folder> {
        self.active.fetch_add(1, Ordering::AcqRel);
        let spare = self.spare().pop();
        let mut folder = Folder {
            path: PathBuf::new(),
            folders: self.clone(),
            gone: true,
            written: Vec::new(),
            stamps: None,
            began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        };
        (folder.path, folder.stamps) = match spare {
            Some(Spare { path, stamps }) => (path, Some(stamps)),
            None => (self.create()?, None),
        };
        folder.gone = false;
        Ok(folder)
    }

    fn create(&self) -> io::Result<PathBuf> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        let mut rooted = false;
        let path = loop {
            let path = self.root.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
            match private.create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                // Several may find that the root is not there yet.
                Err(error) if error.kind() == ErrorKind::NotFound && !rooted => {
                    DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
                    rooted = true;
                }
                Err(error) => return Err(error),
            }
        };
        private.create(path.join(WORK))?;
        private.create(path.join(TEMPORARY))?;
        Ok(path)
    }

    /// Removes spare directories, unless there are programs again in a moment.
    fn tidy_soon(self: &Arc<Self>) {
        if self.spare().is_empty() || self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        let folders = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(MOMENT).await;
                if folders.active.load(Ordering::Acquire) == 0 {
                    break;
                }
            }
            folders.tidying.store(false, Ordering::Release);
            let spare = std::mem::take(&mut *folders.spare());
            let _ = tokio::task::spawn_blocking(move || spare.iter().for_each(|it| drop(remove(&it.path)))).await;
        });
    }

    /// Removes everything.
    pub fn close(&self) {
        let _ = remove(&self.root);
    }

    /// The newest are kept.
    fn forget_old_failures(&self) {
        let entries = fs::read_dir(&self.failed).into_iter().flatten().flatten();
        let mut all: Vec<_> =
            entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        all.sort();
        let old = all.len().saturating_sub(self.keep);
        for (_, path) in &all[..old] {
            if let Err(error) = remove(path) {
                warn!(path = %path.display(), %error, "a directory cannot be removed");
            }
        }
    }

    fn keep(&self, path: &Path, name: &str) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.failed)?;
        // The attempt ended now, whatever was written when.
        let kept = self.failed.join(name);
        if kept.exists() {
            remove(&kept)?;
        }
        fs::rename(path, &kept)?;
        fs::File::open(&kept)?.set_modified(std::time::SystemTime::now())?;
        self.forget_old_failures();
        Ok(kept)
    }
}

/// The directory of one attempt.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    folders: Arc<Folders>,
    gone: bool,
    /// Files that were put there for the program.
    written: Vec<PathBuf>,
    /// As it was when nothing was in it, if it has served before.
    stamps: Option<[Stamp; 3]>,
    /// When the attempt began, since 1970.
    began: Duration,
}

impl Folder {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    pub fn temporary(&self) -> PathBuf {
        self.path.join(TEMPORARY)
    }

    pub fn script(&self) -> PathBuf {
        self.path.join("script")
    }

    pub fn parameters(&self) -> PathBuf {
        self.path.join("parameters.json")
    }

    pub fn results(&self) -> PathBuf {
        self.path.join("results.json")
    }

    /// Puts something there for the program.
    pub fn write(&mut self, file: PathBuf, content: &[u8]) -> io::Result<()> {
        fs::write(&file, content)?;
        self.written.push(file);
        Ok(())
    }

    /// Processes of the attempt may still use it: it serves no other one.
    pub fn spoil(&mut self) {
        self.written.push(self.path.clone());
    }

    /// The attempt is over. One that failed may be kept, under this name; tells where.
    pub async fn close(mut self, failed: Option<&str>) -> Option<PathBuf> {
        self.gone = true;
        if let Some(name) = failed.filter(|_| self.folders.keep > 0) {
            let (folders, path, name) = (self.folders.clone(), self.path.clone(), name.to_owned());
            match tokio::task::spawn_blocking(move || folders.keep(&path, &name)).await {
                Ok(Ok(kept)) => return Some(kept),
                Ok(Err(error)) => warn!(path = %self.path.display(), %error, "a failure cannot be kept"),
                Err(_) => {}
            }
        }
        let clean = self.clean().filter(|_| self.folders.spare().len() < MOST_SPARE);
        if let Some(stamps) = clean {
            self.folders.spare().push(Spare { path: self.path.clone(), stamps });
        } else {
            // There may be much in it.
            let path = self.path.clone();
            let removed = tokio::task::spawn_blocking(move || remove(&path)).await;
            if let Ok(Err(error)) = removed {
                warn!(path = %self.path.display(), %error, "a directory cannot be removed");
            }
        }
        None
    }

    /// As it is, if there is nothing in it but what was made, as it was made. Most programs leave nothing.
    fn clean(&self) -> Option<[Stamp; 3]> {
        if !self.written.iter().all(|file| fs::remove_file(file).is_ok()) {
            return None;
        }
        let mut stamps = [Stamp::default(); 3];
        for (at, (folder, count)) in
            [(&self.path, 2), (&self.work(), 0), (&self.temporary(), 0)].into_iter().enumerate()
        {
            let about = fs::symlink_metadata(folder).ok()?;
            stamps[at] = Stamp::of(&about);
            let before = self.stamps.map(|stamps| stamps[at]).filter(|stamp| stamp.tells_changes_after(self.began));
            if before == Some(stamps[at]) {
                continue;
            }
            let private = about.is_dir() && about.permissions().mode() & 0o7777 == 0o700;
            if !private || fs::read_dir(folder).ok()?.take(count + 1).count() != count {
                return None;
            }
        }
        Some(stamps)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.gone {
            let _ = remove(&self.path);
        }
        if self.folders.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.folders.tidy_soon();
        }
    }
}

/// Removes a folder with everything in it, also what a program has taken our rights from.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

fn open_up(path: &Path) {
    let mut open = vec![path.to_owned()];
    while let Some(folder) = open.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("xavantes-folders-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[tokio::test]
    async fn the_first_ones_may_be_made_at_once() {
        let place = place("first");
        for _ in 0..200 {
            let folders = Folders::open(&place, 0).expect("there is room");
            let barrier = std::sync::Barrier::new(4);
            let make = || {
                barrier.wait();
                folders.create().map(drop)
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
                threads.into_iter().for_each(|it| it.join().expect("it does not panic").expect("there is room"));
            });
            folders.close();
        }
        let _ = fs::remove_dir_all(&place);
    }

    #[tokio::test]
    async fn directories_go_away_with_their_attempts() {
        let place = place("gone");
        let folders = Folders::open(&place, 0).expect("there is room");
        let (one, two) = (folders.make().expect("there is room"), folders.make().expect("there is room"));
        assert_ne!(one.path(), two.path());
        fs::write(one.script(), "x").expect("there is room");
        let inner = one.work().join("a/b");
        fs::create_dir_all(&inner).expect("there is room");
        fs::write(inner.join("file"), "x").expect("there is room");
        fs::set_permissions(&inner, Permissions::from_mode(0o0)).expect("it is ours");
        let (first, second) = (one.path().to_owned(), two.path().to_owned());
        assert_eq!(one.close(Some("failed")).await, None);
        drop(two);
        assert!(!first.exists() && !second.exists());
        // One in which nothing is left serves again, if it is as it was.
        let one = folders.make().expect("there is room");
        let first = one.path().to_owned();
        one.close(None).await;
        let mut again = folders.make().expect("there is room");
        assert_eq!(again.path(), first);
        again.write(again.script(), b"x").expect("there is room");
        again.close(None).await;
        for spoil in [
            |path: &Path| fs::set_permissions(path.join("work"), Permissions::from_mode(0o755)),
            |path: &Path| fs::write(path.join("tmp/x"), ""),
        ] {
            let again = folders.make().expect("there is room");
            let path = again.path().to_owned();
            assert_eq!(fs::read_dir(&path).expect("it is there").count(), 2);
            spoil(&path).expect("it is ours");
            again.close(None).await;
            assert!(!path.exists());
        }
        // The same for one that has served for so long that its times tell.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let old = loop {
            assert!(std::time::Instant::now() < deadline, "times pass");
            let again = folders.make().expect("there is room");
            if again.stamps.is_some_and(|stamps| stamps.iter().all(|stamp| stamp.tells_changes_after(again.began))) {
                break again;
            }
            again.close(None).await;
        };
        let path = old.path().to_owned();
        assert_eq!(old.clean(), old.stamps);
        fs::write(old.work().join("x"), "").expect("it is ours");
        assert_eq!(old.clean(), None);
        old.close(None).await;
        assert!(!path.exists());
        folders.make().expect("there is room").close(None).await;
        while fs::read_dir(folders.root()).expect("it is there").count() > 0 {
            assert!(std::time::Instant::now() < deadline, "spare directories are removed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Those of a former life.
        let left = folders.make().expect("there is room");
        fs::write(left.work().join("file"), "x").expect("there is room");
        std::mem::forget(left);
        Folders::open(&place, 0).expect("there is room");
        assert!(!folders.root().exists());
        fs::remove_dir_all(&place).ok();
    }

    #[tokio::test]
    async fn the_newest_failures_are_kept() {
        let place = place("kept");
        let folders = Folders::open(&place, 2).expect("there is room");
        let mut kept = Vec::new();
        for name in ["a", "b", "c"] {
            let folder = folders.make().expect("there is room");
            fs::write(folder.work().join(name), name).expect("there is room");
            kept.push(folder.close(Some(name)).await.expect("it is kept"));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(kept.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(fs::read_to_string(kept[2].join("work/c")).expect("it is kept"), "c");
        let done = folders.make().expect("there is room");
        assert_eq!(done.close(None).await, None);
        Folders::open(&place, 1).expect("there is room");
        assert_eq!(kept.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, false, true]);
        fs::remove_dir_all(&place).ok();
    }
}
