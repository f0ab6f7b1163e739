//! What the records of the embedded store say, and the keys under which they are.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame;

/// The name of a blob: the digest of its content.
pub(super) type Digest = [u8; 32];

/// Bytes of the user: small ones are in the record, records of journals that are not very large in several, others in a
/// blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Payload {
    Inline(#[serde(with = "as_bytes")] Bytes),
    Blob {
        digest: Digest,
        length: u64,
    },
    /// The parts of one follow each other. Those without a last one were left behind by a crash, and mean nothing.
    Part {
        first: bool,
        last: bool,
        #[serde(with = "as_bytes")]
        bytes: Bytes,
    },
}

impl Payload {
    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Inline(_) | Self::Part { .. } => None,
            Self::Blob { digest, .. } => Some(*digest),
        }
    }

    /// How many bytes of it are in the record.
    pub(super) fn inside(&self) -> usize {
        match self {
            Self::Inline(bytes) | Self::Part { bytes, .. } => bytes.len(),
            Self::Blob { .. } => 0,
        }
    }

    /// How many bytes it takes outside of the record.
    pub(super) fn outside(&self) -> u64 {
        match self {
            Self::Inline(_) | Self::Part { .. } => 0,
            Self::Blob { length, .. } => *length,
        }
    }
}

/// The record of a process, under its id. That it has ended is told by the same record, so that there is no state
/// between.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Process {
    /// Its journal is found by this. Never given twice, so that a process is not taken for another one that had the
    /// same id before.
    pub(super) number: u64,
    pub(super) owner: String,
    pub(super) head: Payload,
    pub(super) summary: Option<Payload>,
}

impl Process {
    pub(super) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        [&self.head].into_iter().chain(&self.summary)
    }
}

/// A record of a journal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Entry {
    /// The next records, which were appended together; each has a number.
    Records(Vec<Payload>),
    /// This replaces all with smaller numbers.
    Snapshot(Payload),
}

impl Entry {
    pub(super) fn payloads(&self) -> &[Payload] {
        match self {
            Self::Records(records) => records,
            Self::Snapshot(snapshot) => std::slice::from_ref(snapshot),
        }
    }
}

/// The framed record, as it is written under this key.
pub(super) fn encode(key: &[u8], record: &impl Serialize) -> Vec<u8> {
    // Writing to a growing vector fails only for types without a fixed shape, which these are not.
    let payload = postcard::to_stdvec(record).expect("records can be written");
    frame::wrap(key, &payload)
}

/// The record, or what is wrong with it.
pub(super) fn decode<T: DeserializeOwned>(key: &[u8], framed: &[u8]) -> Result<T, String> {
    let payload = frame::unwrap(key, framed)?;
    postcard::from_bytes(payload).map_err(|error| format!("it has no meaning ({error})"))
}

/// The key of an entry of a journal, by the number of the process and of the entry's first record.
pub(super) fn journal_key(process: u64, record: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&process.to_be_bytes());
    key[8..].copy_from_slice(&record.to_be_bytes());
    key
}

/// What [`journal_key`] was made of.
pub(super) fn journal_numbers(key: &[u8]) -> Option<(u64, u64)> {
    let (process, record) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*process), u64::from_be_bytes(record.try_into().ok()?)))
}

/// The key of a document. With its length a kind is kept apart from others that begin like it.
pub(super) fn document_key(kind: &str, key: &str) -> Vec<u8> {
    [&(kind.len() as u64).to_be_bytes(), kind.as_bytes(), key.as_bytes()].concat()
}

/// A run of bytes, not a sequence of numbers.
mod as_bytes {
    use std::fmt;

    use bytes::Bytes;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Copy;

        impl Visitor<'_> for Copy {
            type Value = Bytes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::copy_from_slice(bytes))
            }
        }

        deserializer.deserialize_bytes(Copy)
    }
}
