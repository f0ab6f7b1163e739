//! Payloads that are too large for a record: each is a file, named by the digest of what is in it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::folder::sync_folder;
use super::record::{Digest, Payload};

/// Larger payloads are blobs. sled keeps up to some twenty values in one page, and a page of more than a quarter of a
/// segment in a file that it does not sync. So twenty records of twice this size have to fit there.
pub(super) const INLINE: usize = 12 * 1024;

/// The blobs of a folder, and how many records refer to each.
pub(super) struct Blobs {
    folder: PathBuf,
    uses: HashMap<Digest, u64>,
}

impl Blobs {
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, uses: HashMap::new() })
    }

    /// Makes a durable blob of it if it is large.
    pub(super) fn keep(&mut self, bytes: Bytes) -> io::Result<Payload> {
        if bytes.len() <= INLINE {
            return Ok(Payload::Inline(bytes));
        }
        let digest: Digest = blake3::hash(&bytes).into();
        if !self.uses.contains_key(&digest) {
            let partial = self.folder.join("partial");
            if let Err(error) = write(&partial, &bytes).and_then(|()| fs::rename(&partial, path(&self.folder, &digest)))
            {
                // What is left of it would be written over anyway.
                let _ = fs::remove_file(&partial);
                return Err(error);
            }
            sync_folder(&self.folder)?;
        }
        let payload = Payload::Blob { digest, length: bytes.len() as u64 };
        self.uses(&payload);
        Ok(payload)
    }

    /// A record refers to it.
    pub(super) fn uses(&mut self, payload: &Payload) {
        if let Some(digest) = payload.digest() {
            *self.uses.entry(digest).or_default() += 1;
        }
    }

    /// A record does not refer to it any more, and that is durable.
    pub(super) fn release(&mut self, digest: &Digest) {
        if let Some(uses) = self.uses.get_mut(digest) {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(digest);
                remove(&path(&self.folder, digest));
            }
        }
    }

    /// Removes the files to which no record refers.
    pub(super) fn sweep(&self) -> io::Result<()> {
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let used = file.file_name().to_str().and_then(|name| blake3::Hash::from_hex(name).ok());
            if !used.is_some_and(|digest| self.uses.contains_key(digest.as_bytes())) {
                remove(&file.path());
            }
        }
        Ok(())
    }
}

/// The bytes of a payload, or the file and what is wrong with it.
pub(super) fn read(folder: &Path, payload: Payload) -> Result<Bytes, (PathBuf, String)> {
    match payload {
        Payload::Inline(bytes) | Payload::Part { bytes, .. } => Ok(bytes),
        Payload::Blob { digest, .. } => {
            let path = path(folder, &digest);
            match fs::read(&path) {
                Ok(bytes) if blake3::hash(&bytes) == digest => Ok(bytes.into()),
                Ok(_) => Err((path, "its checksum is wrong".into())),
                Err(error) => Err((path, error.to_string())),
            }
        }
    }
}

fn path(folder: &Path, digest: &Digest) -> PathBuf {
    folder.join(blake3::Hash::from_bytes(*digest).to_hex().as_str())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A file that stays takes room until the next start, no more.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a blob could not be removed");
    }
}
