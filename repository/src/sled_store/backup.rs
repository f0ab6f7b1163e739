//! Backups: one file with all records and blobs of a store.
//!
//! A backup is a header, then items, then the digest of everything before it. An item is a kind, a length, and bytes: the
//! realm, a framed record, or the content of a blob. The committer writes a backup between two commits, so the backup is
//! the state of one moment.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::blobs;
use super::database::Database;
use super::frame::{self, TreeId};
use super::open_store;
use super::record::{JournalEntry, Payload, ProcessRecord};
use super::store_directory::{DataDirectory, sync_directory};
use super::store_failure::classify;
use crate::error::Error;

pub(super) const HEADER: &[u8; 16] = b"xavantes backup1";
const DIGEST_BYTES: usize = 32;
/// Bytes of a backup that are hashed at once.
const BUFFER_BYTES: usize = 1 << 20;

const REALM: u8 = 1;
const RECORD: u8 = 2;
const BLOB: u8 = 3;
pub(super) const END: u8 = 4;

/// Upper bound on an item. No blob is larger.
const MAX_ITEM_BYTES: u64 = 4 << 30;

/// Number of records and blobs in a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupContent {
    /// Processes, running and ended.
    pub processes: u64,
    /// Records of all kinds.
    pub records: u64,
    /// Large payloads.
    pub blobs: u64,
}

/// Writes all records and blobs of a database. Records and blobs that cannot be read are left out and logged.
pub(super) fn write(database: &Database, directory: &DataDirectory, file: &File) -> Result<BackupContent, Error> {
    let failed = |error: &io::Error| classify(error, format!("cannot write a backup: {error}"));
    let mut writer =
        HashingWriter { file: BufWriter::with_capacity(BUFFER_BYTES, file), hasher: blake3::Hasher::new() };
    let mut content = BackupContent::default();
    writer.write_all(HEADER).map_err(|error| failed(&error))?;
    writer.item(REALM, directory.realm.as_bytes()).map_err(|error| failed(&error))?;
    let mut written = std::collections::HashSet::new();
    for tree in TreeId::ALL {
        database.for_each(tree, |key, value| {
            let Ok(frame) = frame::unwrap(tree, key, value) else {
                tracing::error!(key = %String::from_utf8_lossy(key), "a damaged record is not in the backup");
                return Ok(());
            };
            let mut store = || -> io::Result<()> {
                for payload in payloads(tree, frame.payload) {
                    let Some(digest) = payload.digest().filter(|digest| written.insert(*digest)) else { continue };
                    match blobs::read(&directory.blobs(), payload) {
                        Ok(bytes) => {
                            writer.item(BLOB, &bytes)?;
                            content.blobs += 1;
                        }
                        Err(error) => {
                            written.remove(&digest);
                            tracing::error!(path = %error.path.display(), problem = %error.problem, "a blob is not in the backup");
                        }
                    }
                }
                writer.item(RECORD, &frame::wrap(tree, key, frame.sequence, frame.payload))?;
                content.records += 1;
                content.processes += u64::from(tree == TreeId::Processes);
                Ok(())
            };
            store().map_err(|error| failed(&error))
        })?;
    }
    writer.finish().map_err(|error| failed(&error))?;
    Ok(content)
}

/// The payloads of a record.
pub(super) fn payloads(tree: TreeId, record: &[u8]) -> Vec<Payload> {
    match tree {
        TreeId::Processes => {
            let decoded = postcard::from_bytes::<ProcessRecord>(record);
            decoded.map(|record| record.payloads().cloned().collect()).unwrap_or_default()
        }
        TreeId::Journal => {
            postcard::from_bytes::<JournalEntry>(record).map(|entry| entry.payloads().to_vec()).unwrap_or_default()
        }
        TreeId::Documents => postcard::from_bytes::<Payload>(record).into_iter().collect(),
    }
}

/// Makes a store of a backup. The directory must not have one. Changes nothing if the backup is damaged.
pub(super) fn restore(backup: &Path, directory: &Path) -> Result<BackupContent, Error> {
    let failed = |error: io::Error| match classify(&error, format!("cannot restore {}: {error}", backup.display())) {
        Error::Corrupt(text) => Error::Broken(text),
        error => error,
    };
    if directory.exists() {
        return Err(Error::Broken(format!(
            "there is a repository in {} already: stop its node and move it away first",
            directory.display()
        )));
    }
    verify(backup).map_err(failed)?;
    let partial = directory.with_extension("restoring");
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(failed)?;
    }
    let mut data = DataDirectory::open(&partial)?;
    let content = fill(backup, &mut data, failed)?;
    // Writes the witness, and checks what was restored.
    let opened = open_store::open(&mut data)?;
    drop(opened);
    fs::rename(&partial, directory).map_err(failed)?;
    directory.parent().map_or(Ok(()), sync_directory).map_err(failed)?;
    Ok(content)
}

/// Writes the items of a backup to a new store.
fn fill(backup: &Path, data: &mut DataDirectory, failed: impl Fn(io::Error) -> Error) -> Result<BackupContent, Error> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, File::open(backup).map_err(&failed)?);
    reader.read_exact(&mut [0; HEADER.len()]).map_err(&failed)?;
    let mut content = BackupContent::default();
    fs::create_dir_all(data.blobs()).map_err(&failed)?;
    let database = Database::open(data)?;
    let mut sequence = 0;
    loop {
        let (kind, bytes) = read_item(&mut reader).map_err(&failed)?;
        match kind {
            END => break,
            REALM => data.settle_realm(std::str::from_utf8(&bytes).ok())?,
            BLOB => {
                blobs::write_content(&data.blobs(), &bytes).map_err(&failed)?;
                content.blobs += 1;
            }
            RECORD => {
                let frame = frame::read(&bytes).map_err(|error| failed(io::Error::other(error)))?;
                database.insert(frame.tree, frame.key, &bytes)?;
                sequence = sequence.max(frame.sequence);
                content.records += 1;
                content.processes += u64::from(frame.tree == TreeId::Processes);
            }
            _ => return Err(failed(io::Error::other("it was written by a newer version of Xavantes"))),
        }
    }
    database.set_last_commit(sequence)?;
    open_store::sync(&database)?;
    sync_directory(&data.blobs()).map_err(&failed)?;
    Ok(content)
}

pub(super) fn read_item(reader: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    reader.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = u64::from_le_bytes(length);
    if length > MAX_ITEM_BYTES {
        return Err(io::Error::other("one of its items is too large"));
    }
    let mut bytes = Vec::new();
    if reader.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, bytes))
}

/// Checks the digest at the end of a backup.
fn verify(backup: &Path) -> io::Result<()> {
    let mut file = File::open(backup)?;
    let length = file.metadata()?.len();
    let damaged = || io::Error::other("this is not a backup, or it is cut off or damaged");
    let content = length.checked_sub(DIGEST_BYTES as u64).ok_or_else(damaged)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut left, mut header) = (content, Vec::new());
    while left > 0 {
        let wanted = buffer.len().min(left as usize);
        file.read_exact(&mut buffer[..wanted])?;
        if header.is_empty() {
            header.extend(buffer[..wanted].first_chunk::<16>());
        }
        hasher.update(&buffer[..wanted]);
        left -= wanted as u64;
    }
    let mut digest = [0; DIGEST_BYTES];
    file.read_exact(&mut digest)?;
    let is_whole = header.first() == Some(HEADER) && hasher.finalize() == digest;
    if is_whole { Ok(()) } else { Err(damaged()) }
}

/// Writes to a file, and hashes what it writes.
struct HashingWriter<'a> {
    file: BufWriter<&'a File>,
    hasher: blake3::Hasher,
}

impl HashingWriter<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }

    fn item(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        self.write_all(&[kind])?;
        self.write_all(&(bytes.len() as u64).to_le_bytes())?;
        self.write_all(bytes)
    }

    /// Ends the backup.
    fn finish(mut self) -> io::Result<()> {
        self.item(END, &[])?;
        let digest = self.hasher.finalize();
        self.file.write_all(digest.as_bytes())?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::MAX_NUMBER;
    use super::super::fuzzing::{backup_of, framed};
    use super::*;

    #[test]
    fn a_backup_with_a_number_that_cannot_be_counted_up_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (file, directory) = (parent.path().join("backup"), parent.path().join("store"));
        for (sequence, fits) in [(u64::MAX, false), (MAX_NUMBER + 1, false), (5, true)] {
            let document = framed(2, b"\0\0\0\0\0\0\0\x01kx", sequence, &[0, 1, b'd']);
            fs::write(&file, backup_of(&[(REALM, b"r".to_vec()), (RECORD, document)])).unwrap();
            assert_eq!(restore(&file, &directory).is_ok(), fits, "{sequence}");
            assert_eq!(directory.exists(), fits);
        }
    }
}
