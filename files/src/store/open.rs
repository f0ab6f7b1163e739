//! Opens a store: reads its folder and rebuilds the index.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tracing::{info, warn};
use xavantes_model::digest::Digest;

use crate::counters::Counters;
use crate::store::file_index::ObjectIndex;
use crate::store::pins::read_pins;
use crate::store::stamp::boot_time;
use crate::store::store_state::{FileStore, StoreInner, StoreState};

/// Upper bound on interrupted transfers that can be resumed; each has an open file.
// The compiler evaluates this `unwrap`.
const MAX_INTERRUPTED: NonZeroUsize = NonZeroUsize::new(64).unwrap();

impl FileStore {
    /// Opens a store in a folder, which is created if necessary. The store keeps at most `limit` bytes of objects.
    pub fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        let create_private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        create_private(folder)?;
        let incomplete = folder.join("coming");
        if incomplete.exists() {
            fs::remove_dir_all(&incomplete)?;
        }
        for name in ["objects", "coming", "pins"] {
            create_private(&folder.join(name))?;
        }
        let mut index = ObjectIndex::new(limit);
        for entry in fs::read_dir(folder.join("pins"))? {
            let path = entry?.path();
            match fs::read(&path).map(|bytes| read_pins(&bytes)) {
                Ok(Some((owner, digests))) => drop(index.pin(&owner, &digests)),
                Ok(None) => warn!(path = %path.display(), "ignored a damaged list of needed files"),
                Err(error) => warn!(path = %path.display(), %error, "cannot read a list of needed files"),
            }
        }
        let unchecked = index_objects(&folder.join("objects"), &mut index)?;
        let usage = index.usage();
        info!(objects = usage.objects, bytes = usage.bytes, "file store opened");
        let state = StoreState {
            index,
            unchecked,
            linked: HashMap::new(),
            receiving: HashSet::new(),
            interrupted: LruCache::new(MAX_INTERRUPTED),
        };
        Ok(Self(Arc::new(StoreInner {
            folder: folder.to_owned(),
            state: Mutex::new(state),
            counters: Counters::default(),
            next_temporary: AtomicU64::new(0),
        })))
    }
}

/// Adds all objects of a folder to the index, in the order of their last use. Returns those that may be damaged.
fn index_objects(folder: &Path, index: &mut ObjectIndex) -> io::Result<HashSet<Digest>> {
    let booted = boot_time();
    let mut found = BTreeMap::new();
    let mut unchecked = HashSet::new();
    for prefix in fs::read_dir(folder)? {
        let prefix = prefix?;
        // An object that cannot be listed counts as absent. Nodes that need it fetch it again.
        let entries = match fs::read_dir(prefix.path()) {
            Ok(entries) => entries,
            Err(error) => {
                warn!(path = %prefix.path().display(), %error, "cannot read a directory of the file store");
                continue;
            }
        };
        for entry in entries.flatten() {
            let name = format!("{}{}", prefix.file_name().display(), entry.file_name().display());
            let Ok(digest) = name.parse::<Digest>() else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            let changed = Duration::from_secs(metadata.ctime().try_into().unwrap_or(0));
            if changed < booted || metadata.nlink() > 1 {
                unchecked.insert(digest);
            }
            found.insert((metadata.atime(), metadata.atime_nsec(), digest), metadata.len());
        }
    }
    for ((.., digest), size) in found {
        index.add(digest, size);
    }
    Ok(unchecked)
}
