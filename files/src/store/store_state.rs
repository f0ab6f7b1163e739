//! The handle of a store and the state behind it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use xavantes_model::digest::Digest;

use crate::counters::{Counters, TransferCounts};
use crate::store::file_index::{ObjectIndex, StoreUsage};
use crate::store::stamp::Stamp;

/// A content-addressed object store; cheap to clone.
#[derive(Debug, Clone)]
pub struct FileStore(pub(super) Arc<StoreInner>);

#[derive(Debug)]
pub(super) struct StoreInner {
    pub folder: PathBuf,
    pub state: Mutex<StoreState>,
    pub counters: Counters,
    /// Number that names the next temporary file.
    pub next_temporary: AtomicU64,
}

#[derive(Debug)]
pub(super) struct StoreState {
    pub index: ObjectIndex,
    /// Objects that may be damaged: older than the boot of the machine, or with links when the store was opened. A check
    /// removes them from this set.
    pub unchecked: HashSet<Digest>,
    /// Objects that have or had hard links outside the store, with the stamp after the last operation of the store.
    /// `None`: the object was modified from outside and needs a check.
    pub linked: HashMap<Digest, Option<Stamp>>,
    /// Objects that a transfer receives at this moment.
    pub receiving: HashSet<Digest>,
    /// Transfers that were interrupted and can be resumed.
    pub interrupted: LruCache<Digest, PartialObject>,
}

/// The part of an object that has arrived.
#[derive(Debug)]
pub(super) struct PartialObject {
    pub path: PathBuf,
    pub file: File,
    pub hasher: Box<blake3::Hasher>,
    /// Size of the whole object.
    pub size: u64,
    /// Bytes written so far, for which space is reserved.
    pub written: u64,
}

impl FileStore {
    pub(super) fn state(&self) -> MutexGuard<'_, StoreState> {
        self.0.state.lock()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Bytes and objects that were transferred since the store was opened.
    pub fn transfer_counts(&self) -> TransferCounts {
        self.0.counters.read()
    }

    /// Size and number of the objects.
    pub fn usage(&self) -> StoreUsage {
        self.state().index.usage()
    }

    /// At most `limit` objects, the most recently used first.
    pub fn latest(&self, limit: usize) -> Vec<Digest> {
        self.state().index.latest(limit)
    }

    /// Whether the store has an object.
    pub fn has(&self, digest: &Digest) -> bool {
        self.state().index.size(digest).is_some()
    }

    /// The path of an object's file.
    pub(super) fn object_path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (prefix, rest) = name.split_at(2);
        self.0.folder.join("objects").join(prefix).join(rest)
    }

    /// The path of the file that lists the pins of an owner.
    pub(super) fn pins_path(&self, owner: &str) -> PathBuf {
        self.0.folder.join("pins").join(blake3::hash(owner.as_bytes()).to_hex().as_str())
    }

    /// Removes the file of an object that the index no longer has. Should this fail, the file costs space until the store is
    /// opened again.
    pub(super) fn remove_object(&self, state: &mut StoreState, digest: &Digest) {
        state.unchecked.remove(digest);
        state.linked.remove(digest);
        let _ = fs::remove_file(self.object_path(digest));
    }

    /// Removes an incomplete object and frees the space reserved for it.
    pub(super) fn discard_partial(&self, state: &mut StoreState, partial: &PartialObject) {
        state.index.unreserve(partial.written);
        // Opening the store removes a file that stays behind.
        let _ = fs::remove_file(&partial.path);
    }
}
