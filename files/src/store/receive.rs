//! New objects. A transfer names its object in advance, and can be interrupted and resumed. A local reader is stored under the
//! digest of its bytes.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use tracing::debug;
use xavantes_model::digest::Digest;

use crate::error::Error;
use crate::hash;
use crate::store::store_state::{FileStore, PartialObject, StoreState};

const CANNOT_WRITE: &str = "cannot write to the file store";

/// The answer to a transfer that offers an object.
#[derive(Debug)]
pub enum Reception {
    /// The store has the object already.
    Here,
    /// The store receives the object, from [`Receiving::offset`] on.
    Welcome(Box<Receiving>),
}

impl FileStore {
    /// Begins to receive an object, or resumes an interrupted transfer.
    pub fn receive(&self, digest: Digest, size: u64) -> Result<Reception, Error> {
        let interrupted = {
            let mut state = self.state();
            if touch_intact(&mut state, &digest) {
                return Ok(Reception::Here);
            }
            if !state.receiving.insert(digest) {
                return Err(Error::Busy(digest));
            }
            state.interrupted.pop(&digest)
        };
        match self.resume_or_begin(interrupted, size) {
            Ok(partial) => {
                let receiving = Receiving { store: self.clone(), digest, partial: Some(partial) };
                Ok(Reception::Welcome(Box::new(receiving)))
            }
            Err(error) => {
                self.state().receiving.remove(&digest);
                Err(error)
            }
        }
    }

    fn resume_or_begin(&self, interrupted: Option<PartialObject>, size: u64) -> Result<PartialObject, Error> {
        match interrupted {
            Some(partial) if partial.size == size => return Ok(partial),
            Some(other_size) => self.discard_partial(&mut self.state(), &other_size),
            None => {}
        }
        // An announcement takes no space: bytes take it when they arrive.
        self.check_fits(size)?;
        let (path, file) = self.create_temporary()?;
        Ok(PartialObject { path, file, hasher: Box::default(), size, written: 0 })
    }

    /// The bytes of an object that the store has: all, or those of an interrupted transfer.
    pub fn offset(&self, digest: &Digest) -> u64 {
        let state = self.state();
        match state.index.size(digest) {
            Some(all) => all,
            None => state.interrupted.peek(digest).map_or(0, |partial| partial.written),
        }
    }

    /// Stores the bytes of a reader, about `expected` of them. Returns their digest and number.
    pub fn add(&self, source: &mut impl Read, expected: u64) -> Result<(Digest, u64), Error> {
        self.reserve(expected)?;
        let added = self.create_temporary().and_then(|(path, mut file)| {
            let mut hasher = blake3::Hasher::new();
            let stored = hash::copy_hashed(source, &mut hasher, |bytes| file.write_all(bytes))
                .map_err(Error::io("cannot store a file"))
                .and_then(|size| {
                    let digest = hash::finish(&hasher);
                    self.commit(&path, digest, size).map(|()| (digest, size))
                });
            if stored.is_err() {
                let _ = fs::remove_file(&path);
            }
            stored
        });
        self.state().index.unreserve(expected);
        added
    }

    /// Creates a file for the bytes of a new object.
    fn create_temporary(&self) -> Result<(PathBuf, File), Error> {
        let number = self.0.next_temporary.fetch_add(1, Ordering::Relaxed);
        let path = self.0.folder.join("coming").join(number.to_string());
        let file = File::options().write(true).create_new(true).mode(0o444).open(&path);
        Ok((path, file.map_err(Error::io(CANNOT_WRITE))?))
    }

    /// Makes a complete temporary file the object of that digest.
    fn commit(&self, path: &Path, digest: Digest, size: u64) -> Result<(), Error> {
        let object = self.object_path(&digest);
        let mut state = self.state();
        if touch_intact(&mut state, &digest) {
            let _ = fs::remove_file(path);
            return Ok(());
        }
        let renamed = fs::rename(path, &object).or_else(|_| {
            fs::create_dir_all(object.parent().unwrap_or(Path::new("/")))?;
            fs::rename(path, &object)
        });
        renamed.map_err(Error::io(CANNOT_WRITE))?;
        state.unchecked.remove(&digest);
        state.index.add(digest, size);
        Ok(())
    }
}

/// Marks an object as used if the store has it and knows that it is intact. Returns whether it does.
fn touch_intact(state: &mut StoreState, digest: &Digest) -> bool {
    let intact = state.index.size(digest).is_some() && !state.unchecked.contains(digest);
    if intact {
        state.index.touch(digest);
    }
    intact
}

/// An object that a transfer delivers. If this is dropped before its end, another transfer can resume it.
#[derive(Debug)]
pub struct Receiving {
    store: FileStore,
    digest: Digest,
    partial: Option<PartialObject>,
}

impl Receiving {
    /// The position of the first byte that is missing.
    pub fn offset(&self) -> u64 {
        self.partial.as_ref().map_or(0, |partial| partial.written)
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(partial) = &mut self.partial else { return Err(Error::Missing(self.digest)) };
        if bytes.len() as u64 > partial.size - partial.written {
            return Err(self.discard());
        }
        if let Err(full) = self.store.reserve(bytes.len() as u64) {
            self.discard();
            return Err(full);
        }
        partial.written += bytes.len() as u64;
        if let Err(cause) = partial.file.write_all(bytes) {
            // The number of bytes that were written is unknown, so the transfer cannot be resumed.
            self.discard();
            return Err(Error::io(CANNOT_WRITE)(cause));
        }
        partial.hasher.update(bytes);
        self.store.counters().add_bytes_in(bytes.len());
        Ok(())
    }

    /// Removes the bytes received so far.
    fn discard(&mut self) -> Error {
        if let Some(partial) = self.partial.take() {
            self.store.discard_partial(&mut self.store.state(), &partial);
        }
        Error::Damaged(self.digest)
    }

    /// Ends the transfer. The object becomes visible if its bytes are complete and have the digest.
    pub fn finish(mut self) -> Result<(), Error> {
        let intact = self
            .partial
            .as_ref()
            .is_some_and(|partial| partial.written == partial.size && hash::finish(&partial.hasher) == self.digest);
        if !intact {
            return Err(self.discard());
        }
        let Some(partial) = self.partial.take() else { return Ok(()) };
        let committed = self.store.commit(&partial.path, self.digest, partial.size);
        self.store.state().index.unreserve(partial.written);
        if committed.is_err() {
            let _ = fs::remove_file(&partial.path);
        } else {
            self.store.counters().add_object_in();
            debug!(digest = %self.digest, size = partial.size, "object received");
        }
        committed
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let mut state = self.store.state();
        state.receiving.remove(&self.digest);
        let Some(partial) = self.partial.take() else { return };
        if let Some((_, evicted)) = state.interrupted.push(self.digest, partial) {
            self.store.discard_partial(&mut state, &evicted);
        }
    }
}
