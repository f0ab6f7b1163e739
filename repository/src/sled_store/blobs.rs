//! Blobs: files for payloads that are too large for a record. The digest of its content names each blob.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::record::{BlobDigest, Payload};
use super::store_directory::sync_directory;

/// Upper bound on payloads inside a record. sled stores about twenty values in one page, and writes a page larger than a
/// quarter of a segment to a file that it does not sync. Twenty records of twice this size fit into a quarter segment.
pub(super) const MAX_INLINE_BYTES: usize = 12 * 1024;

/// Why the payload of a blob cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlobProblem {
    #[error("its checksum is wrong")]
    Checksum,
    #[error(transparent)]
    Io(io::Error),
}

/// A blob that cannot be read.
#[derive(Debug)]
pub(super) struct BlobError {
    pub(super) path: PathBuf,
    pub(super) problem: BlobProblem,
}

/// The blobs of a directory with the number of records that refer to each.
pub(super) struct Blobs {
    directory: PathBuf,
    references: HashMap<BlobDigest, u64>,
}

impl Blobs {
    pub(super) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        Ok(Self { directory, references: HashMap::new() })
    }

    /// Makes a payload of some bytes. Writes a durable blob if they are large.
    pub(super) fn store(&mut self, bytes: Bytes) -> io::Result<Payload> {
        if bytes.len() <= MAX_INLINE_BYTES {
            return Ok(Payload::Inline(bytes));
        }
        let digest: BlobDigest = blake3::hash(&bytes).into();
        if !self.references.contains_key(&digest) {
            let partial = self.directory.join("partial");
            let written = write(&partial, &bytes).and_then(|()| fs::rename(&partial, path(&self.directory, &digest)));
            if let Err(error) = written {
                // If this fails, the next blob overwrites the file.
                let _ = fs::remove_file(&partial);
                return Err(error);
            }
            sync_directory(&self.directory)?;
        }
        let payload = Payload::Blob { digest, length: bytes.len() as u64 };
        self.add_reference(&payload);
        Ok(payload)
    }

    /// Counts a record that refers to a payload.
    pub(super) fn add_reference(&mut self, payload: &Payload) {
        if let Some(digest) = payload.digest() {
            *self.references.entry(digest).or_default() += 1;
        }
    }

    /// Removes a reference, and the blob with its last reference. The removal of the record must be durable before.
    pub(super) fn release(&mut self, digest: &BlobDigest) {
        if let Some(count) = self.references.get_mut(digest) {
            *count -= 1;
            if *count == 0 {
                self.references.remove(digest);
                remove(&path(&self.directory, digest));
            }
        }
    }

    /// Removes the files that no record refers to.
    pub(super) fn sweep(&self) -> io::Result<()> {
        for file in fs::read_dir(&self.directory)? {
            let file = file?;
            let digest = file.file_name().to_str().and_then(|name| blake3::Hash::from_hex(name).ok());
            if !digest.is_some_and(|digest| self.references.contains_key(digest.as_bytes())) {
                remove(&file.path());
            }
        }
        Ok(())
    }
}

/// Reads the bytes of a payload.
pub(super) fn read(directory: &Path, payload: Payload) -> Result<Bytes, BlobError> {
    match payload {
        Payload::Inline(bytes) | Payload::Part { bytes, .. } => Ok(bytes),
        Payload::Blob { digest, .. } => {
            let path = path(directory, &digest);
            match fs::read(&path) {
                Ok(bytes) if blake3::hash(&bytes) == digest => Ok(bytes.into()),
                Ok(_) => Err(BlobError { path, problem: BlobProblem::Checksum }),
                Err(error) => Err(BlobError { path, problem: BlobProblem::Io(error) }),
            }
        }
    }
}

/// Writes a blob of a backup. The caller syncs the directory.
pub(super) fn write_content(directory: &Path, bytes: &[u8]) -> io::Result<()> {
    write(&path(directory, blake3::hash(bytes).as_bytes()), bytes)
}

fn path(directory: &Path, digest: &BlobDigest) -> PathBuf {
    directory.join(blake3::Hash::from_bytes(*digest).to_hex().as_str())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes a file. If that fails, the next start removes it.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove a blob");
    }
}
