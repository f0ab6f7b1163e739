//! The witness: a file beside the database that says what the store has acknowledged.
//!
//! sled silently drops the end of its log behind a damaged byte, and a deleted database looks like a new one. The witness
//! tells the two from a store that is whole. After each commit the committer appends a frame of notes to the witness, before
//! it answers. It does not sync the file: a kill loses no frame, and a power failure loses only frames at the end, so the
//! witness never claims more than the database had. Each note states a whole fact, so a damaged frame does not affect
//! the meaning of others.
//!
//! | module | is about |
//! |---|---|
//! | `witness_file` | the file: frames, appending and rewriting |
//! | `witness_state` | the facts that the frames of a file add up to |

mod witness_file;
mod witness_state;

use serde::{Deserialize, Serialize};

pub(super) use witness_file::{WitnessFile, add, seal};
pub(super) use witness_state::WitnessedRecords;

/// What the store has acknowledged of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessMark {
    /// Number of the process in the keys of its journal. No process has number 0.
    pub(super) number: u64,
    pub(super) ended: bool,
    /// The process was damaged when the store last opened.
    pub(super) damaged: bool,
    /// Sequence number of the process record.
    pub(super) record_sequence: u64,
    /// Number of the first record that the journal needs: that of the last snapshot, or 0.
    pub(super) first_record: u64,
    /// Number of the next record in the journal.
    pub(super) next_record: u64,
    /// Sequence number of the last journal entry.
    pub(super) last_sequence: u64,
}

/// A fact in the witness.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum WitnessNote<'a> {
    /// The store was opened during this boot of the machine.
    Opened {
        realm: &'a str,
        boot: &'a str,
    },
    /// The store was closed in order; no frame follows.
    Closed,
    Process {
        id: &'a str,
        mark: ProcessMark,
    },
    /// The process was removed.
    Forgotten {
        id: &'a str,
    },
    /// A document was stored with this sequence number.
    Document {
        key: &'a [u8],
        sequence: u64,
    },
    /// The document was removed.
    Removed {
        key: &'a [u8],
    },
    /// No process has had this number or a larger one.
    NextNumber(u64),
}
