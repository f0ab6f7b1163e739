//! The file store of a node: in its data directory, or in a temporary directory that ends with the node.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tempfile::TempDir;
use xavantes_files::{Fetcher, FileStore};

use crate::error::Error;
use crate::node_directory::DataDir;

/// The files of a node, and the means to fetch more from others.
pub(crate) struct NodeFiles {
    pub(crate) fetcher: Fetcher,
    _temporary: Option<TemporaryDir>,
}

impl NodeFiles {
    /// Opens the store. `address` is where other nodes reach this one.
    pub(crate) fn open(limit_bytes: u64, data_dir: Option<&DataDir>, address: &str) -> Result<Self, Error> {
        let (path, temporary) = match data_dir {
            Some(data_dir) => (data_dir.files(), None),
            None => {
                let within = std::env::temp_dir();
                let temporary = TemporaryDir::new(&within).map_err(|cause| Error::DataDir { path: within, cause })?;
                (temporary.dir.path().join("files"), Some(temporary))
            }
        };
        let store = FileStore::open(&path, limit_bytes).map_err(|cause| Error::DataDir { path, cause })?;
        Ok(Self { fetcher: Fetcher::new(store, address), _temporary: temporary })
    }
}

/// A directory that is removed with the node. If the node is killed, the next one that needs such a directory removes
/// it.
struct TemporaryDir {
    dir: TempDir,
    _lock: File,
}

impl TemporaryDir {
    const PREFIX: &str = "xavantes-files-";

    fn new(within: &Path) -> std::io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(Self::PREFIX).permissions(private).tempdir_in(within)?;
        Self::remove_abandoned(within, dir.path().symlink_metadata()?.uid());
        // The file is locked before it gets its name, so that no other node finds it unlocked.
        let (unnamed, named) = (dir.path().join("coming"), dir.path().join("lock"));
        let lock = File::create(&unnamed)?;
        lock.try_lock()?;
        std::fs::rename(unnamed, named)?;
        Ok(Self { dir, _lock: lock })
    }

    /// Removes the directories of nodes of this user that were killed.
    fn remove_abandoned(within: &Path, user: u32) {
        for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(Self::PREFIX)
                && entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
                && let Ok(lock) = File::open(entry.path().join("lock"))
                && lock.try_lock().is_ok()
            {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_node_removes_the_directory_of_a_killed_one() {
        let within = tempfile::tempdir().unwrap();
        let left = within.path().join("xavantes-files-left");
        std::fs::create_dir_all(left.join("files")).unwrap();
        std::fs::write(left.join("lock"), "").unwrap();
        let other = within.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let first = TemporaryDir::new(within.path()).unwrap();
        let second = TemporaryDir::new(within.path()).unwrap();
        assert!(!left.exists() && other.exists());
        assert!(first.dir.path().exists() && second.dir.path().exists());
        drop((first, second));
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 1);
    }
}
