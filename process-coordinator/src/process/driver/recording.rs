//! Records and snapshots: what must be durable before effects may happen.

use bytes::Bytes;
use xavantes_proto::AttemptKey;

use super::Driver;
use crate::memo::memo_log::MemoWrite;
use crate::process::effect::{EffectBatch, JournalWrite, ProcessEffect};
use crate::process::journal;
use crate::process::process_notes::Note;
use crate::record_codec;

/// A journal is compacted when it is this many times as large as the last snapshot.
const COMPACTION_FACTOR: usize = 4;

impl<C, A> Driver<C, A> {
    /// The record of the start, for the head of the journal.
    pub fn first_record(&mut self) -> Bytes {
        self.output.bytes = 0;
        journal::record(self.now.0, &mut self.output.events, &mut self.unrecorded_notes)
    }

    /// Bytes of the values in the events that wait for [`Self::next_batch`].
    pub fn backlog_bytes(&self) -> u64 {
        self.output.bytes
    }

    /// Bytes that the process takes in memory, approximately.
    pub fn bytes(&self) -> u64 {
        let former = self.former.as_ref().map_or(0, |former| former.bytes());
        let memo = self.memo.as_ref().map_or(0, |memo| memo.bytes_in_memory());
        self.engine.state().bytes() + self.output.bytes + former + memo
    }

    /// Bytes that [`Self::next_batch`] encodes, approximately.
    pub fn next_batch_bytes(&self) -> u64 {
        if self.is_compaction_due() { self.bytes() } else { self.output.bytes }
    }

    /// Is a snapshot better than one more record? It bounds what the repository has of a process by the size of the
    /// process, or by its budget if the process is large.
    fn is_compaction_due(&self) -> bool {
        self.journal_bytes > self.compaction_threshold
            && (self.journal_bytes > COMPACTION_FACTOR * self.snapshot_bytes
                || self.journal_bytes as u64 > self.max_bytes)
    }

    /// Number of events, effects and cache writes that wait for [`Self::next_batch`].
    pub fn backlog(&self) -> usize {
        self.output.events.len() + self.effects.len() + self.cache_writes.len()
    }

    /// Everything that happened since the last batch; nothing if nothing did.
    pub fn next_batch(&mut self) -> Option<EffectBatch<C, A>> {
        let (effects, cache) = (std::mem::take(&mut self.effects), std::mem::take(&mut self.cache_writes));
        let memo = self.memo.as_mut().map(|memo| memo.due(self.now)).unwrap_or_default();
        if self.output.events.is_empty() && self.unrecorded_notes.is_empty() {
            let is_empty = effects.is_empty() && cache.is_empty() && memo.is_empty();
            return (!is_empty).then_some(EffectBatch { journal: None, cache, memo, effects });
        }
        // One note for all programs of an activity type, instead of one for each.
        for (activity, usage) in std::mem::take(&mut self.unrecorded_usage) {
            self.note(Note::Used(activity, usage));
        }
        self.output.bytes = 0;
        let write = if self.is_compaction_due() {
            self.output.events.clear();
            self.unrecorded_notes.clear();
            let snapshot = self.snapshot();
            (self.journal_bytes, self.snapshot_bytes) = (0, snapshot.len());
            JournalWrite::Compact(snapshot)
        } else {
            let record = journal::record(self.now.0, &mut self.output.events, &mut self.unrecorded_notes);
            self.journal_bytes += record.len();
            JournalWrite::Append(record)
        };
        Some(EffectBatch { journal: Some(write), cache, memo, effects })
    }

    /// The memo of a subtree, for the answer to its parent, and the number of completed activities that it does not have.
    pub fn take_memo(&mut self) -> (Vec<u8>, u64) {
        self.memo.take().map(|memo| memo.into_answer()).unwrap_or_default()
    }

    /// What must still be written of the memo when the process ends, and the bytes of the whole memo.
    pub fn close_memo(&mut self) -> (Vec<MemoWrite>, u64) {
        self.memo.as_mut().map(|memo| (memo.rest(), memo.bytes())).unwrap_or_default()
    }

    /// Another coordinator runs the process. Gives the answers that the process took and did not acknowledge, with the
    /// connections that wait. The record of the batch `unconfirmed` may be durable: then the new owner does not wait for these
    /// answers, and may have ended the process before it could ask for them.
    pub fn unacknowledged(&mut self, unconfirmed: Option<EffectBatch<C, A>>) -> Vec<(C, AttemptKey)> {
        let effects = unconfirmed.into_iter().flat_map(|batch| batch.effects).chain(std::mem::take(&mut self.effects));
        let unacknowledged = effects.filter_map(|effect| match effect {
            ProcessEffect::Acknowledge(connection, key) => Some((connection, key)),
            _ => None,
        });
        unacknowledged.collect()
    }

    /// The snapshot of the process as it is now.
    pub fn snapshot(&mut self) -> Bytes {
        if !self.notes.lineage.is_empty() {
            self.notes.lineage.retain_referenced(&record_codec::encode(self.engine.state()));
        }
        journal::snapshot(self.now.0, self.engine.state(), &self.notes)
    }
}
