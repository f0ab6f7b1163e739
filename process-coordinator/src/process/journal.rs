//! The journal of a process: its head, its records and its snapshots, in the bytes of the repository.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xavantes_engine::{EngineState, Event, Root};
use xavantes_model::definition::{DefinitionNodeId, Program};
use xavantes_model::value::Value;

use crate::process::process_notes::{Note, ProcessNotes};
use crate::record_codec::{self, Unreadable};

/// What is known of a process from its start, and never changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// Digest of the program.
    pub program: String,
    /// Name of the process type.
    pub process_type: String,
    /// What the process runs: a process type and a node of it, by position.
    pub root: (u32, u32),
    /// Time of the submission in milliseconds since 1970. The clock of the engine began then.
    pub submitted_ms: u64,
    /// Id of the request that started the process, if it had one.
    pub request: String,
    /// The parent process, if this process is a subtree of it.
    pub parent: Option<Origin>,
    /// All activities run: cached results are not reused.
    pub no_reuse: bool,
    /// Coordinators that fetch files for a subtree, the nearest first.
    pub relays: Vec<String>,
    /// The first record.
    pub first: Vec<u8>,
}

impl Head {
    /// What the process runs.
    pub fn root(&self) -> Root {
        Root { process: self.root.0 as usize, node: DefinitionNodeId(self.root.1) }
    }

    /// The values that the process was started with, in the order of its parameters.
    pub fn given(&self) -> Result<Vec<Value>, Unreadable> {
        let first: JournalRecord = record_codec::decode("journal", &self.first)?;
        let given = first.events.into_iter().find_map(|event| match event {
            Event::Started { variables, .. } => Some(variables),
            _ => None,
        });
        Ok(given.unwrap_or_default())
    }
}

/// The attempt of a parent process that a subtree is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Coordinator of the parent: group, node and realm.
    pub coordinator: String,
    /// Address of that coordinator when the subtree arrived.
    pub address: String,
    /// The parent process.
    pub process: String,
    /// Element of the parent process.
    pub element: u64,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Events and notes that became durable together.
#[derive(Debug, Serialize, Deserialize)]
struct JournalRecord {
    at: u64,
    events: Vec<Event>,
    notes: Vec<Note>,
}

/// A process at a point in time.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Clock of the engine.
    pub at: u64,
    /// State of the engine.
    pub state: EngineState,
    /// Everything that the notes add up to.
    pub notes: ProcessNotes,
}

/// Encodes a snapshot of a running process without cloning it.
pub(crate) fn snapshot(at: u64, state: &EngineState, notes: &ProcessNotes) -> Bytes {
    // The fields of `Snapshot`, in order.
    record_codec::encode(&(at, state, notes))
}

/// Encodes a record, and clears the events and notes that went into it.
pub(crate) fn record(at: u64, events: &mut Vec<Event>, notes: &mut Vec<Note>) -> Bytes {
    let record = JournalRecord { at, events: std::mem::take(events), notes: std::mem::take(notes) };
    let bytes = record_codec::encode(&record);
    // Keeps the allocation for the next record.
    *events = record.events;
    events.clear();
    bytes
}

/// Restores a process from its latest snapshot and the records after it.
pub fn restore(
    program: &Program,
    head: &Head,
    snapshot: Option<&[u8]>,
    records: &[Bytes],
) -> Result<Snapshot, Unreadable> {
    let mut restored = match snapshot {
        Some(snapshot) => record_codec::decode("snapshot", snapshot)?,
        None => Snapshot::default(),
    };
    let first = snapshot.is_none().then_some(&*head.first);
    for record in first.into_iter().chain(records.iter().map(|record| &**record)) {
        let record: JournalRecord = record_codec::decode("journal", record)?;
        restored.at = record.at;
        for event in &record.events {
            restored.state.apply(program, event).map_err(|_| Unreadable("journal"))?;
        }
        record.notes.iter().for_each(|note| restored.notes.apply(note));
    }
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::SubtreePlace;

    #[test]
    fn an_encoded_snapshot_decodes_to_the_same_process() {
        let mut notes = ProcessNotes::default();
        let place = SubtreePlace { node: "n".into(), address: "a:1".into(), epoch: 3 };
        notes.apply(&Note::Placed(7, 1, place.clone()));
        notes.apply(&Note::Reused);
        let encoded = snapshot(9, &EngineState::default(), &notes);
        let decoded: Snapshot = record_codec::decode("snapshot", &encoded).expect("the snapshot is readable");
        assert_eq!((decoded.notes.place(7, 1), decoded.notes.reused), (Some(&place), 1));
        assert_eq!(decoded, Snapshot { at: 9, state: EngineState::default(), notes });
    }
}
