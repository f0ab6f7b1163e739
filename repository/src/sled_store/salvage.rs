//! The salvage: finds records in the bytes of a database file, whatever sled makes of them.
//!
//! Every frame in the file that has the right checksum was a record once. Later records of the same key, and the witness,
//! tell which of them the store still needs.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::database::Database;
use super::frame::{self, Frame, TreeId};
use super::record::{ProcessRecord, journal_numbers};
use super::witness::WitnessedRecords;
use crate::error::Error;

/// Bytes that are read from a file at once.
const CHUNK_BYTES: usize = 8 << 20;
/// Upper bound on the size of a frame. Chunks overlap by this.
const MAX_FRAME_BYTES: usize = 256 << 10;

/// The bytes of a database file.
pub(super) enum DatabaseBytes {
    /// As they were before sled opened the file.
    Memory(Vec<u8>),
    File(File),
}

/// A frame in the file.
struct Found {
    sequence: u64,
    offset: u64,
    length: usize,
}

/// Writes the records that a file has, and that the database lacks or has in an older version, to the database. Returns the
/// number of records.
pub(super) fn restore(
    bytes: &DatabaseBytes,
    witness: Option<&WitnessedRecords>,
    database: &Database,
) -> Result<u64, Error> {
    let needed = Needed::new(witness);
    let mut found: HashMap<(TreeId, Vec<u8>), Found> = HashMap::new();
    bytes.scan(|offset, frame| {
        if !needed.contains(&frame) {
            return;
        }
        let newest = found.entry((frame.tree, frame.key.to_owned())).or_insert(Found {
            sequence: frame.sequence,
            offset,
            length: frame.length(),
        });
        if newest.sequence < frame.sequence {
            *newest = Found { sequence: frame.sequence, offset, length: frame.length() };
        }
    });
    let mut restored = 0;
    for ((tree, key), Found { sequence, offset, length }) in found {
        let stored = database.tree(tree).get(&key).map_err(|error| database.failed(&error))?;
        let stored = stored.and_then(|stored| Some(frame::unwrap(tree, &key, &stored).ok()?.sequence));
        if stored.is_some_and(|stored| stored >= sequence) {
            continue;
        }
        // A chunk that could be read before may have become unreadable.
        let Ok(value) = bytes.read(offset, length) else { continue };
        database.insert(tree, &key, &value)?;
        restored += 1;
    }
    Ok(restored)
}

/// The records that a store needs, as far as its witness knows.
struct Needed<'a> {
    witness: Option<&'a WitnessedRecords>,
    /// First needed records of journals by the number of the process.
    journals: HashMap<u64, u64>,
    ended: HashSet<u64>,
}

impl<'a> Needed<'a> {
    fn new(witness: Option<&'a WitnessedRecords>) -> Self {
        let marks = || witness.into_iter().flat_map(|witness| witness.processes.values().map(|it| it.fact));
        Self {
            witness,
            journals: marks().filter(|mark| !mark.ended).map(|mark| (mark.number, mark.first_record)).collect(),
            ended: marks().filter(|mark| mark.ended).map(|mark| mark.number).collect(),
        }
    }

    fn contains(&self, frame: &Frame<'_>) -> bool {
        let Some(witness) = self.witness else { return true };
        // A commit that the witness does not know, because it was not acknowledged, or in a frame that is lost.
        let is_newer = frame.sequence > witness.sequence || witness.is_damaged;
        match frame.tree {
            TreeId::Processes => {
                let id = String::from_utf8_lossy(frame.key);
                let number = postcard::from_bytes::<ProcessRecord>(frame.payload).map(|record| record.number);
                let expected = witness.processes.get(&*id);
                is_newer || expected.is_some_and(|expected| number.is_ok_and(|number| number == expected.fact.number))
            }
            TreeId::Journal => journal_numbers(frame.key).is_some_and(|(process, record)| {
                let first = self.journals.get(&process);
                first.is_some_and(|first| record >= *first) || (is_newer && !self.ended.contains(&process))
            }),
            TreeId::Documents => is_newer || witness.documents.contains_key(frame.key),
        }
    }
}

impl DatabaseBytes {
    /// Calls `on_frame` with each frame and its offset.
    fn scan(&self, mut on_frame: impl FnMut(u64, Frame<'_>)) {
        let file = match self {
            Self::Memory(bytes) => return frame::scan(bytes, |offset, frame| on_frame(offset as u64, frame)),
            Self::File(file) => file,
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut buffer = vec![0; CHUNK_BYTES + MAX_FRAME_BYTES];
        for start in (0..length).step_by(CHUNK_BYTES) {
            let wanted = buffer.len().min((length - start) as usize);
            match file.read_exact_at(&mut buffer[..wanted], start) {
                Ok(()) => frame::scan(&buffer[..wanted], |offset, frame| on_frame(start + offset as u64, frame)),
                Err(error) => tracing::error!(offset = start, %error, "cannot read a part of the damaged database"),
            }
        }
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory(bytes) => Ok(bytes[offset as usize..][..length].to_vec()),
            Self::File(file) => {
                let mut value = vec![0; length];
                file.read_exact_at(&mut value, offset)?;
                Ok(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_scanned_like_memory_also_where_its_chunks_meet() {
        let mut bytes = Vec::new();
        for number in 0..40u64 {
            // One of the frames lies on the border of two chunks.
            bytes.resize(number as usize * CHUNK_BYTES / 20 - if number == 20 { 50 } else { 0 }, 7);
            bytes.extend(frame::wrap(TreeId::Journal, &number.to_be_bytes(), number, &[3; 100]));
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let (memory, file) = (DatabaseBytes::Memory(bytes), DatabaseBytes::File(file));
        let [in_memory, in_file] = [&memory, &file].map(|bytes| {
            let mut found = std::collections::BTreeSet::new();
            bytes.scan(|offset, frame| found.extend([(offset, frame.length(), frame.sequence)]));
            found
        });
        assert_eq!(in_memory.len(), 40);
        assert_eq!(in_memory, in_file);
        for (offset, length, _) in in_memory {
            assert_eq!(memory.read(offset, length).unwrap(), file.read(offset, length).unwrap());
        }
    }
}
