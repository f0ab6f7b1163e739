//! Directories of attempts. Each attempt has one, which is removed at its end. A directory in which an attempt left nothing
//! serves other attempts before it is removed: making and removing directories takes longer than many programs run.
//!
//! | entry | content |
//! |---|---|
//! | `work/` | the current directory and the home of the program |
//! | `tmp/` | temporary files |
//! | `script`, `parameters.json`, `results.json` | input and output of the program |
//! | `shared` | the socket for calls of shared objects |
//! | `prelude`, `values.json`, `assigned.json` | input and output where parameters are variables |

#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tracing::warn;

use super::signals::kill_leftover_processes;

/// Names in the directory of an attempt.
const WORK: &str = "work";
const TEMPORARY: &str = "tmp";
/// Upper bound on spare directories.
const MAX_SPARE: usize = 64;
/// Time without attempts after which spare directories are removed.
const SPARE_LIFETIME: Duration = Duration::from_millis(300);
/// Upper bound on the resolution of file system clocks.
const CLOCK_RESOLUTION: Duration = Duration::from_millis(100);

/// The directories of all attempts of a worker.
#[derive(Debug)]
pub(crate) struct WorkDirs {
    /// Has all of them.
    folder: PathBuf,
    /// The user that owned the folder at the beginning.
    owner: u32,
    /// Has the directories of running attempts.
    root: PathBuf,
    /// Has the directories of failed attempts.
    failed: PathBuf,
    /// Number of directories of failed attempts that stay.
    keep: usize,
    next: AtomicU64,
    /// Attempts that have a directory now.
    active: AtomicUsize,
    /// Empty directories that can serve other attempts.
    spare: Mutex<Vec<SpareDir>>,
    /// A task is about to remove the spare directories.
    removing_spares: AtomicBool,
}

/// An empty directory, with the stamps of itself and its two subdirectories.
#[derive(Debug)]
struct SpareDir {
    path: PathBuf,
    stamps: [DirStamp; 3],
}

/// Changes when an entry of a directory is made or removed, or its permissions change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DirStamp {
    inode: u64,
    /// Time of the last change: seconds and nanoseconds.
    changed: (i64, i64),
}

impl DirStamp {
    fn of(metadata: &Metadata) -> Self {
        Self { inode: metadata.ino(), changed: (metadata.ctime(), metadata.ctime_nsec()) }
    }

    /// True if every change after this time (since 1970) makes another stamp. That is not certain on file systems with times
    /// in seconds.
    fn shows_changes_after(&self, time: Duration) -> bool {
        let changed = Duration::new(self.changed.0.try_into().unwrap_or(u64::MAX), self.changed.1 as u32);
        self.changed.1 != 0 && changed.checked_add(CLOCK_RESOLUTION).is_some_and(|certain| certain < time)
    }
}

impl WorkDirs {
    /// Opens the directories in this folder. Kills the processes of a former run, and removes its directories except those of
    /// failed attempts.
    pub fn open(folder: &Path, keep: usize) -> io::Result<Arc<Self>> {
        let folder = std::path::absolute(folder)?;
        if folder.to_str().is_none() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the path of the data directory is not UTF-8"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let owner = fs::symlink_metadata(&folder)?.uid();
        let (root, failed) = (folder.join("work"), folder.join("failed"));
        if root.exists() {
            kill_leftover_processes(&root, &|_| true);
            if let Err(error) = remove_folder(&root) {
                // A container may have made files as another user. They stay; new directories have other names.
                warn!(path = %root.display(), %error, "could not remove directories of a former run of this node");
            }
        }
        let workdirs = Self {
            folder,
            owner,
            root,
            failed,
            keep,
            next: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            spare: Mutex::default(),
            removing_spares: AtomicBool::new(false),
        };
        workdirs.remove_old_failures();
        Ok(Arc::new(workdirs))
    }

    /// The folder that has the directories of running attempts.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// True if directories of failed attempts stay.
    pub fn keeps_failures(&self) -> bool {
        self.keep > 0
    }

    /// An empty directory for an attempt.
    pub fn make(self: &Arc<Self>) -> io::Result<WorkDir> {
        self.active.fetch_add(1, Ordering::AcqRel);
        let spare = self.spare.lock().pop();
        let mut workdir = WorkDir {
            path: PathBuf::new(),
            workdirs: self.clone(),
            closed: true,
            reusable: true,
            written: Vec::new(),
            stamps: None,
            began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        };
        (workdir.path, workdir.stamps) = match spare {
            Some(SpareDir { path, stamps }) => (path, Some(stamps)),
            None => (self.create()?, None),
        };
        workdir.closed = false;
        Ok(workdir)
    }

    fn create(&self) -> io::Result<PathBuf> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        let mut made_root = false;
        let path = loop {
            let path = self.root.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
            match private.create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::NotFound && !made_root => {
                    self.make_root()?;
                    made_root = true;
                }
                Err(error) => return Err(error),
            }
        };
        private.create(path.join(WORK))?;
        private.create(path.join(TEMPORARY))?;
        Ok(path)
    }

    /// Makes the folder of running attempts. Several threads may find that it does not exist yet. A cleaner of temporary files
    /// may have removed the folder around it, and another user may have made a folder in its place.
    fn make_root(&self) -> io::Result<()> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        let make = |folder: &Path| match private.create(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        make(&self.folder)?;
        if fs::symlink_metadata(&self.folder)?.uid() != self.owner {
            let message = format!("another user made {}", self.folder.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, message));
        }
        make(&self.root)
    }

    /// Removes spare directories later, unless attempts run by then.
    fn remove_spares_later(self: &Arc<Self>) {
        if self.spare.lock().is_empty() || self.removing_spares.swap(true, Ordering::AcqRel) {
            return;
        }
        let workdirs = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SPARE_LIFETIME).await;
                if workdirs.active.load(Ordering::Acquire) == 0 {
                    break;
                }
            }
            workdirs.removing_spares.store(false, Ordering::Release);
            let spare = std::mem::take(&mut *workdirs.spare.lock());
            let _ =
                tokio::task::spawn_blocking(move || spare.iter().for_each(|it| drop(remove_folder(&it.path)))).await;
        });
    }

    /// Removes all directories of running attempts.
    pub fn close(&self) {
        let _ = remove_folder(&self.root);
    }

    /// Removes all but the newest directories of failed attempts.
    fn remove_old_failures(&self) {
        let entries = fs::read_dir(&self.failed).into_iter().flatten().flatten();
        let mut all: Vec<_> =
            entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        all.sort();
        let old = all.len().saturating_sub(self.keep);
        for (_, path) in &all[..old] {
            if let Err(error) = remove_folder(path) {
                warn!(path = %path.display(), %error, "could not remove a directory");
            }
        }
    }

    fn keep_failed(&self, path: &Path, name: &str) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.failed)?;
        // The age of the directory counts from the end of the attempt.
        let kept = self.failed.join(name);
        if kept.exists() {
            remove_folder(&kept)?;
        }
        fs::rename(path, &kept)?;
        fs::File::open(&kept)?.set_modified(std::time::SystemTime::now())?;
        self.remove_old_failures();
        Ok(kept)
    }
}

/// The directory of one attempt.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    workdirs: Arc<WorkDirs>,
    closed: bool,
    /// False if processes of the attempt may still use the directory.
    reusable: bool,
    /// Files that this worker wrote for the program.
    written: Vec<PathBuf>,
    /// The stamps of the empty directory, if it served another attempt before.
    stamps: Option<[DirStamp; 3]>,
    /// Start of the attempt, since 1970.
    began: Duration,
}

impl WorkDir {
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

    /// What an interpreter runs instead of the script, if parameters are variables.
    pub fn prelude(&self) -> PathBuf {
        self.path.join("prelude")
    }

    pub fn values(&self) -> PathBuf {
        self.path.join("values.json")
    }

    /// What the prelude writes.
    pub fn assigned(&self) -> PathBuf {
        self.path.join("assigned.json")
    }

    /// The socket on which the program calls shared objects.
    pub fn socket(&self) -> PathBuf {
        self.path.join("shared")
    }

    pub fn results(&self) -> PathBuf {
        self.path.join("results.json")
    }

    /// Writes a file for the program.
    pub fn write(&mut self, file: PathBuf, content: &[u8]) -> io::Result<()> {
        fs::write(&file, content)?;
        self.written.push(file);
        Ok(())
    }

    /// Processes of the attempt may still use the directory, so no other attempt gets it.
    pub fn prevent_reuse(&mut self) {
        self.reusable = false;
    }

    /// The attempt ended. The directory of a failed attempt may stay under this name; then the result is its path.
    pub async fn close(mut self, failed: Option<&str>) -> Option<PathBuf> {
        self.closed = true;
        if let Some(name) = failed.filter(|_| self.workdirs.keep > 0) {
            let (workdirs, path, name) = (self.workdirs.clone(), self.path.clone(), name.to_owned());
            match tokio::task::spawn_blocking(move || workdirs.keep_failed(&path, &name)).await {
                Ok(Ok(kept)) => return Some(kept),
                Ok(Err(error)) => {
                    warn!(path = %self.path.display(), %error, "could not keep the directory of a failed attempt")
                }
                Err(_) => {}
            }
        }
        let stamps = self.empty_stamps().filter(|_| self.workdirs.spare.lock().len() < MAX_SPARE);
        if let Some(stamps) = stamps {
            self.workdirs.spare.lock().push(SpareDir { path: self.path.clone(), stamps });
        } else {
            // Removing many files takes long, so a blocking thread does it.
            let path = self.path.clone();
            let removed = tokio::task::spawn_blocking(move || remove_folder(&path)).await;
            if let Ok(Err(error)) = removed {
                warn!(path = %self.path.display(), %error, "could not remove a directory");
            }
        }
        None
    }

    /// The stamps of the directory, if it is empty and as it was made. Most programs leave nothing.
    fn empty_stamps(&self) -> Option<[DirStamp; 3]> {
        if !self.reusable || !self.written.iter().all(|file| fs::remove_file(file).is_ok()) {
            return None;
        }
        let mut stamps = [DirStamp::default(); 3];
        for (at, (folder, count)) in
            [(&self.path, 2), (&self.work(), 0), (&self.temporary(), 0)].into_iter().enumerate()
        {
            let metadata = fs::symlink_metadata(folder).ok()?;
            stamps[at] = DirStamp::of(&metadata);
            let before = self.stamps.map(|stamps| stamps[at]).filter(|stamp| stamp.shows_changes_after(self.began));
            if before == Some(stamps[at]) {
                continue;
            }
            let private = metadata.is_dir() && metadata.permissions().mode() & 0o7777 == 0o700;
            if !private || fs::read_dir(folder).ok()?.take(count + 1).count() != count {
                return None;
            }
        }
        Some(stamps)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.closed {
            let _ = remove_folder(&self.path);
        }
        if self.workdirs.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.workdirs.remove_spares_later();
        }
    }
}

/// Removes a folder with its content, even if a program removed the permissions for that.
fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            restore_permissions(path);
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

fn restore_permissions(path: &Path) {
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
