//! How an ended process becomes a running one again.

use bytes::Bytes;

use super::super::record::{JournalEntry, Payload};
use super::super::record_index::RecordIndex;
use super::super::witness::WitnessNote;
use super::{Garbage, Writer};
use crate::error::Error;

impl Writer {
    /// Makes a process that ended with this summary a running one. If the store crashes between the two records, the process has still ended, and
    /// the next start removes the snapshot.
    pub(super) fn reopen(
        &mut self,
        index: &mut RecordIndex,
        id: String,
        summary: &Bytes,
        snapshot: Bytes,
    ) -> Result<(), Error> {
        let unknown = || Error::Unknown(id.clone());
        let entry = index.get_mut(&id).filter(|entry| !entry.is_unfinished()).ok_or_else(unknown)?;
        let found = self.database.find(&id)?.and_then(Result::ok);
        found.filter(|found| found.summary.as_ref() == Some(summary)).ok_or_else(unknown)?;
        let Some(Ok(mut process)) = self.database.process(&id)? else { return Err(unknown()) };
        // Before anything changes: if the disk refuses the snapshot, the process has still ended.
        let snapshot = self.store(snapshot)?;
        // Its close, if it is in this batch, must not remove the snapshot as garbage.
        let number = entry.mark.number;
        self.garbage.retain(|garbage| !matches!(garbage, Garbage::Entries { process, .. } if *process == number));
        self.garbage.push(Garbage::Entries { process: number, before: entry.mark.next_record });
        self.garbage.extend(process.summary.take().as_ref().and_then(Payload::digest).map(Garbage::Blob));
        process.owner.clone_from(&self.node);
        entry.mark.first_record = entry.mark.next_record;
        self.write_entry(entry, &JournalEntry::Snapshot(snapshot))?;
        (entry.mark.record_sequence, entry.record_size) = self.write_process(&id, &process)?;
        entry.mark.ended = false;
        entry.claimed = true;
        entry.owner.clone_from(&self.node);
        self.witness.note(&WitnessNote::Process { id: &id, mark: entry.mark });
        Ok(())
    }
}
