//! The records of the sled store and their keys.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::frame::{self, FrameError, MAX_NUMBER, TreeId};

/// Upper bound on the length of a blob. Payloads are far smaller.
const MAX_BLOB_BYTES: u64 = 1 << 40;

/// Name of a blob: the digest of its content.
pub(super) type BlobDigest = [u8; 32];

/// Bytes of the caller. Small payloads are inside a record. Journal records of medium size are split into parts. Other
/// payloads are blobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Payload {
    Inline(#[serde(with = "as_bytes")] Bytes),
    Blob {
        digest: BlobDigest,
        #[serde(deserialize_with = "blob_length")]
        length: u64,
    },
    /// The parts of one payload follow each other. Readers ignore parts without a last one; a crash left them behind.
    Part {
        first: bool,
        last: bool,
        #[serde(with = "as_bytes")]
        bytes: Bytes,
    },
}

impl Payload {
    pub(super) fn digest(&self) -> Option<BlobDigest> {
        match self {
            Self::Inline(_) | Self::Part { .. } => None,
            Self::Blob { digest, .. } => Some(*digest),
        }
    }

    /// Bytes of the payload inside the record.
    pub(super) fn inline_bytes(&self) -> usize {
        match self {
            Self::Inline(bytes) | Self::Part { bytes, .. } => bytes.len(),
            Self::Blob { .. } => 0,
        }
    }

    /// Bytes of the payload in a blob.
    pub(super) fn blob_bytes(&self) -> u64 {
        match self {
            Self::Inline(_) | Self::Part { .. } => 0,
            Self::Blob { length, .. } => *length,
        }
    }
}

/// Record of a process, stored under its id. The summary is in the same record, so that a process ends atomically.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    /// Number in the keys of the journal. The store never uses a number twice, so that a process does not inherit the
    /// journal of an earlier process with the same id.
    #[serde(deserialize_with = "number")]
    pub(super) number: u64,
    pub(super) owner: String,
    pub(super) head: Payload,
    pub(super) summary: Option<Payload>,
}

impl ProcessRecord {
    pub(super) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        [&self.head].into_iter().chain(&self.summary)
    }
}

/// Entry of a journal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum JournalEntry {
    /// Records that one commit appended; each takes one record number.
    Records(Vec<Payload>),
    /// Replaces all entries with smaller record numbers.
    Snapshot(Payload),
}

impl JournalEntry {
    pub(super) fn payloads(&self) -> &[Payload] {
        match self {
            Self::Records(records) => records,
            Self::Snapshot(snapshot) => std::slice::from_ref(snapshot),
        }
    }
}

/// Why a record cannot be decoded.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum DecodeError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("its content is invalid ({0})")]
    Content(#[from] postcard::Error),
}

/// Encodes a record and frames it for its key.
pub(super) fn encode(tree: TreeId, key: &[u8], sequence: u64, record: &impl Serialize) -> Vec<u8> {
    // Postcard fails on a growing vector only for types of unknown shape. These types have a fixed shape.
    let payload = postcard::to_stdvec(record).expect("records can be encoded");
    frame::wrap(tree, key, sequence, &payload)
}

/// A record with its sequence number.
pub(super) struct Numbered<T> {
    pub(super) sequence: u64,
    pub(super) record: T,
}

/// Decodes a record that [`encode`] made for the same key.
pub(super) fn decode<T: DeserializeOwned>(tree: TreeId, key: &[u8], framed: &[u8]) -> Result<Numbered<T>, DecodeError> {
    let frame = frame::unwrap(tree, key, framed)?;
    Ok(Numbered { sequence: frame.sequence, record: postcard::from_bytes(frame.payload)? })
}

/// Key of a journal entry: the number of the process and the number of the first record in the entry.
pub(super) fn journal_key(process: u64, record: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&process.to_be_bytes());
    key[8..].copy_from_slice(&record.to_be_bytes());
    key
}

/// Splits a [`journal_key`] into the numbers of the process and the record. `None` for a key that no store makes.
pub(super) fn journal_numbers(key: &[u8]) -> Option<(u64, u64)> {
    let (process, record) = key.split_first_chunk()?;
    let numbers = (u64::from_be_bytes(*process), u64::from_be_bytes(record.try_into().ok()?));
    Some(numbers).filter(|(process, record)| *process <= MAX_NUMBER && *record <= MAX_NUMBER)
}

/// Key of a document. The length of the kind separates it from kinds with the same prefix.
pub(super) fn document_key(kind: &str, key: &str) -> Vec<u8> {
    [&(kind.len() as u64).to_be_bytes(), kind.as_bytes(), key.as_bytes()].concat()
}

/// Splits a [`document_key`] into kind and key, for people.
pub(super) fn document_name(key: &[u8]) -> String {
    let split = key
        .split_first_chunk()
        .and_then(|(length, rest)| rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?));
    let (kind, key) = split.unwrap_or((b"?", key));
    format!("{}/{}", String::from_utf8_lossy(kind), String::from_utf8_lossy(key))
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    at_most(MAX_NUMBER, deserializer)
}

fn blob_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    at_most(MAX_BLOB_BYTES, deserializer)
}

/// Refuses a number that no store writes.
fn at_most<'de, D: Deserializer<'de>>(limit: u64, deserializer: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(deserializer)?;
    if number <= limit { Ok(number) } else { Err(serde::de::Error::custom("a number is too large")) }
}

/// Encodes `Bytes` as one byte string instead of a sequence of numbers.
mod as_bytes {
    use std::fmt;

    use bytes::Bytes;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct CopyBytes;

        impl Visitor<'_> for CopyBytes {
            type Value = Bytes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::copy_from_slice(bytes))
            }
        }

        deserializer.deserialize_bytes(CopyBytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_store_writes_are_damage() {
        let process = |number, length| ProcessRecord {
            number,
            owner: "n".into(),
            head: Payload::Blob { digest: [7; 32], length },
            summary: None,
        };
        for (number, length, fits) in
            [(MAX_NUMBER, 5, true), (MAX_NUMBER + 1, 5, false), (u64::MAX, 5, false), (1, u64::MAX, false)]
        {
            let encoded = encode(TreeId::Processes, b"p", 1, &process(number, length));
            assert_eq!(decode::<ProcessRecord>(TreeId::Processes, b"p", &encoded).is_ok(), fits, "{number} {length}");
        }
        assert_eq!(journal_numbers(&journal_key(3, 4)), Some((3, 4)));
        assert_eq!(journal_numbers(&journal_key(u64::MAX, 4)), None);
        assert_eq!(journal_numbers(&journal_key(3, u64::MAX)), None);
    }
}
