//! The memo of a running process. Without I/O, clock or threads.
//!
//! Entries gather in an open chunk. The document of the memo contains the open chunk; a full chunk becomes a document of its
//! own. So the memo of a small process is one document.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xavantes_engine::Time;

use crate::memo::memo_entry::MemoEntry;
use crate::record_codec;

/// Upper bound on one entry. Larger data belongs into files.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;
/// Upper bound on the memo of a process.
pub const MAX_MEMO_BYTES: u64 = 64 << 20;
/// Upper bound on the memo of a subtree, which travels with its answer.
pub const MAX_SUBTREE_BYTES: u64 = 512 << 10;
/// A chunk with this many bytes is full.
const FULL_CHUNK_BYTES: usize = 64 << 10;
/// An entry waits at most this long before it is written.
const MAX_WAIT_MS: u64 = 1000;

/// The document of a memo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoDocument {
    /// The former process, if the process is a rerun.
    pub rerun_of: Option<String>,
    /// Number of full chunks, each a document of its own.
    pub chunks: u32,
    /// Bytes of all entries.
    pub bytes: u64,
    /// Completed activities that the memo does not have: they or the memo were too large.
    pub left_out: u64,
    /// The open chunk: entries, one after the other.
    pub open: Vec<u8>,
}

/// A document to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoWrite {
    /// A full chunk, under its number.
    Chunk(u32, Bytes),
    /// The document of the memo.
    Document(Bytes),
}

/// The memo of a running process.
#[derive(Debug, Default)]
pub struct MemoLog {
    document: MemoDocument,
    full: Vec<MemoWrite>,
    /// When the oldest entry arrived that is not written.
    unwritten_since: Option<Time>,
    /// The process is a subtree: nothing is written, the memo goes to the parent.
    is_subtree: bool,
}

impl MemoLog {
    /// Continues a memo.
    pub fn new(document: MemoDocument) -> Self {
        Self { document, full: Vec::new(), unwritten_since: None, is_subtree: false }
    }

    /// The memo of a subtree.
    pub fn of_subtree() -> Self {
        Self { is_subtree: true, ..Self::default() }
    }

    /// The entries of a subtree, and the number of completed activities that are missing.
    pub fn into_answer(self) -> (Vec<u8>, u64) {
        (self.document.open, self.document.left_out)
    }

    /// Adds the entries of a subtree whose root is at this path, without the id of the process. Others do not count.
    pub fn add_subtree(&mut self, entries: &[u8], left_out: u64, path: &str, now: Time) {
        self.document.left_out = self.document.left_out.saturating_add(left_out);
        let mut rest = entries;
        while !rest.is_empty() {
            let Ok((entry, after)) = postcard::take_from_bytes::<MemoEntry>(rest) else { return };
            if entry.path.strip_prefix(path).is_some_and(|inside| inside.starts_with('/')) {
                self.add(&rest[..rest.len() - after.len()], now);
            }
            rest = after;
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &[u8], now: Time) {
        if !self.is_subtree {
            self.unwritten_since.get_or_insert(now);
        }
        let bytes = self.document.bytes + entry.len() as u64;
        let max_bytes = if self.is_subtree { MAX_SUBTREE_BYTES } else { MAX_MEMO_BYTES };
        if entry.len() > MAX_ENTRY_BYTES || bytes > max_bytes {
            self.document.left_out += 1;
            return;
        }
        self.document.bytes = bytes;
        self.document.open.extend_from_slice(entry);
        if self.document.open.len() >= FULL_CHUNK_BYTES && !self.is_subtree {
            let chunk = std::mem::take(&mut self.document.open);
            self.full.push(MemoWrite::Chunk(self.document.chunks, chunk.into()));
            self.document.chunks += 1;
        }
    }

    /// Bytes of the entries in memory.
    pub fn bytes_in_memory(&self) -> u64 {
        self.document.open.len() as u64
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.document.bytes
    }

    /// When the entries that are not written must be; nothing if all are.
    pub fn deadline(&self) -> Option<Time> {
        self.unwritten_since.map(|since| Time(since.0.saturating_add(MAX_WAIT_MS)))
    }

    /// What must be written now, in order.
    pub fn due(&mut self, now: Time) -> Vec<MemoWrite> {
        let is_due = !self.full.is_empty() || self.deadline().is_some_and(|deadline| deadline <= now);
        if is_due { self.rest() } else { Vec::new() }
    }

    /// Everything that is not written, in order.
    pub fn rest(&mut self) -> Vec<MemoWrite> {
        if self.unwritten_since.take().is_none() {
            return Vec::new();
        }
        let mut writes = std::mem::take(&mut self.full);
        writes.push(MemoWrite::Document(record_codec::encode(&self.document)));
        writes
    }
}
