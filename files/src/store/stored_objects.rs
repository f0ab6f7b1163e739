//! Use of objects: holds, links to object files, and the check of objects that may be damaged.

use std::fs::{File, FileTimes};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tracing::warn;
use xavantes_model::digest::Digest;

use crate::error::Error;
use crate::hash::digest_of;
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest};
use crate::store::stamp::Stamp;
use crate::store::store_state::FileStore;

impl FileStore {
    /// Holds an object: the store does not evict it until the hold is dropped.
    pub fn hold(&self, digest: &Digest) -> Result<Hold, Error> {
        let unchecked = {
            let mut state = self.state();
            if !state.index.hold(digest) {
                return Err(Error::Missing(*digest));
            }
            let modified = match state.linked.get(digest) {
                Some(Some(stamp)) => Some(*stamp) != Stamp::of(&self.object_path(digest)),
                Some(None) => true,
                None => false,
            };
            modified || state.unchecked.contains(digest)
        };
        let hold = Hold { store: self.clone(), digest: *digest };
        if unchecked {
            self.check(digest)?;
        }
        Ok(hold)
    }

    /// Reads an object that may have been damaged by a power failure or overwritten. A damaged object is removed.
    fn check(&self, digest: &Digest) -> Result<(), Error> {
        let path = self.object_path(digest);
        let before = Stamp::of(&path);
        let read = File::open(&path).and_then(|mut file| digest_of(&mut file));
        if !read.is_ok_and(|(found, _)| found == *digest) {
            warn!(%digest, "removed a damaged object");
            let mut state = self.state();
            state.index.remove(digest);
            self.remove_object(&mut state, digest);
            return Err(Error::Missing(*digest));
        }
        let mut state = self.state();
        // A different stamp means that the object was modified during the check. The next hold checks it again.
        if Stamp::of(&path) == before {
            // This sets the change time of the inode, so the object counts as newer than the boot of the machine.
            let used = FileTimes::new().set_accessed(SystemTime::now());
            let _ = File::open(&path).and_then(|file| file.set_times(used));
            if state.unchecked.remove(digest) || state.linked.contains_key(digest) {
                state.linked.insert(*digest, Stamp::of(&path));
            }
        }
        Ok(())
    }

    /// Performs an operation that changes the metadata of an object's file but not its content, and records the new stamp.
    fn with_object_file<T>(&self, digest: &Digest, operate: impl FnOnce(&Path) -> T) -> T {
        let (mut state, path) = (self.state(), self.object_path(digest));
        let unmodified = state.linked.get(digest).is_none_or(|known| *known == Stamp::of(&path));
        let done = operate(&path);
        state.linked.insert(*digest, Stamp::of(&path).filter(|_| unmodified));
        done
    }

    /// Reads the manifest of a directory.
    pub fn manifest(&self, digest: &Digest) -> Result<Manifest, Error> {
        let hold = self.hold(digest)?;
        let cannot = "cannot read the manifest of a directory";
        let file = File::open(hold.path()).map_err(Error::io(cannot))?;
        let mut bytes = Vec::new();
        file.take(MAX_MANIFEST_BYTES).read_to_end(&mut bytes).map_err(Error::io(cannot))?;
        Manifest::decode(&bytes)
    }
}

/// Keeps an object in the store until it is dropped.
#[derive(Debug)]
pub struct Hold {
    store: FileStore,
    digest: Digest,
}

impl Hold {
    /// The digest of the object.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Opens the object for reading.
    pub fn open(&self) -> Result<File, Error> {
        File::open(self.path()).map_err(Error::io("cannot read from the file store"))
    }

    fn path(&self) -> PathBuf {
        self.store.object_path(&self.digest)
    }

    /// Calls `make` to make a hard link to the object's file. Returns the inode of the file.
    pub(crate) fn link<E>(&self, make: impl FnOnce(&Path) -> Result<(), E>) -> Result<u64, E> {
        let inode = |path: &Path| Stamp::of(path).map_or(0, |stamp| stamp.inode);
        self.store.with_object_file(&self.digest, |path| make(path).map(|()| inode(path)))
    }

    /// Calls `remove` to remove a hard link to the object's file.
    pub(crate) fn unlink(&self, remove: impl FnOnce()) {
        self.store.with_object_file(&self.digest, |_| remove());
    }

    /// Whether the file that was linked under this inode was modified. Then it is no longer the object.
    pub(crate) fn is_changed(&self, inode: u64) -> bool {
        Stamp::of(&self.path()).is_none_or(|now| now.inode != inode) || self.store.hold(&self.digest).is_err()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.store.state().index.unhold(&self.digest);
    }
}
