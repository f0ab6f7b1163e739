//! What is kept of a process, in the bytes of the repository.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use xavantes_engine::{EngineState, Event};
use xavantes_model::digest::Digest;
use xavantes_proto::{Message, v1};

use crate::data::lineage::{Lineage, Recipe};
use crate::process::history::{Past, Took};

/// What is known of a process from its beginning, and never changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// The digest of its program.
    pub program: String,
    /// Its type.
    pub process_type: String,
    /// What it runs: a process type and a node of it, by position.
    pub root: (u32, u32),
    /// Milliseconds since 1970. The clock of its engine began then.
    pub submitted_ms: u64,
    /// The request that started it, if that had an id.
    pub request: String,
    /// Who handed it over, if it is part of another process.
    pub parent: Option<Origin>,
    /// Its activities run, whatever was kept of them.
    pub no_reuse: bool,
    /// Of a subtree: coordinators that fetch files of its parent, the nearest first.
    pub relays: Vec<String>,
    /// Its first record.
    pub first: Vec<u8>,
}

/// Where a subtree comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The parent's coordinator: group, node and realm.
    pub coordinator: String,
    /// Where it was reached.
    pub address: String,
    /// The attempt there.
    pub process: String,
    /// Its element.
    pub element: u64,
    /// Its number.
    pub attempt: u32,
}

/// Where a delegated attempt went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The coordinator's name.
    pub node: String,
    /// Where it is reached.
    pub address: String,
    /// The epoch of the subtree there, as far as is known: of two places the one with the later epoch is right.
    pub epoch: u64,
}

/// What became of a subtree that ended elsewhere: its activities, and everything in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// Completed.
    pub completed: u64,
    /// Failed for good.
    pub failed: u64,
    /// Handed out.
    pub attempts: u64,
    /// Of the completed ones, those that nobody ran.
    pub reused: u64,
    /// Its history.
    pub past: Past,
}

impl Elsewhere {
    pub(crate) fn add(&mut self, other: &Elsewhere) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.attempts += other.attempts;
        self.reused += other.reused;
        self.past.add(&other.past);
    }

    /// As an answer tells it.
    pub fn from_wire(counts: v1::Counts, history: v1::History) -> Self {
        let v1::Counts { completed, failed, attempts, reused, .. } = counts;
        Self { completed, failed, attempts, reused, past: Past::from_wire(history) }
    }
}

/// What the engine knows nothing of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A delegated attempt goes to a coordinator: written before it goes.
    Placed(u64, u32, Placement),
    /// A subtree ended elsewhere.
    Elsewhere(Elsewhere),
    /// An activity made files.
    Made(Arc<Recipe>, Vec<Digest>),
    /// An activity completed without being run, by what was kept from an earlier time.
    Reused,
    /// Programs of an activity type took that, since this was last noted.
    Took(u32, Took),
}

/// What happened at a time: everything, or everything since.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    at: u64,
    events: Vec<Event>,
    notes: Vec<Note>,
}

/// Where delegated attempts are.
pub type Places = BTreeMap<(u64, u32), Placement>;

/// A process as it was at a time.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The engine's clock.
    pub at: u64,
    /// The engine's state.
    pub state: EngineState,
    /// Where delegated attempts are.
    pub places: Places,
    /// What became of subtrees that ended elsewhere.
    pub elsewhere: Elsewhere,
    /// How files were made.
    pub lineage: Lineage,
    /// Activities that completed without being run.
    pub reused: u64,
    /// What programs took, by activity type.
    pub took: BTreeMap<u32, Took>,
}

impl Kept {
    pub(crate) fn note(&mut self, note: Note) {
        match note {
            Note::Placed(element, attempt, place) => drop(self.places.insert((element, attempt), place)),
            Note::Elsewhere(more) => self.elsewhere.add(&more),
            Note::Made(recipe, made) => self.lineage.add(&recipe, &made),
            Note::Reused => self.reused += 1,
            Note::Took(activity, took) => self.took.entry(activity).or_default().add(&took),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    status: Vec<u8>,
    results: Vec<u8>,
    history: Vec<u8>,
}

impl Summary {
    /// The status, the results and the history.
    pub fn new(status: &v1::ProcessStatus, results: Vec<v1::Parameter>, past: &Past) -> Self {
        let results = v1::ResultsResponse { status: None, results };
        let history = past.to_wire().encode_to_vec();
        Self { status: status.encode_to_vec(), results: results.encode_to_vec(), history }
    }

    /// How it ended.
    pub fn status(&self) -> Result<v1::ProcessStatus, Unreadable> {
        v1::ProcessStatus::decode(&*self.status).map_err(|_| Unreadable("summary"))
    }

    /// Its results.
    pub fn results(&self) -> Result<Vec<v1::Parameter>, Unreadable> {
        let results = v1::ResultsResponse::decode(&*self.results).map_err(|_| Unreadable("summary"))?;
        Ok(results.results)
    }

    /// Its history.
    pub fn past(&self) -> Result<Past, Unreadable> {
        let history = v1::History::decode(&*self.history).map_err(|_| Unreadable("summary"))?;
        Ok(Past::from_wire(history))
    }
}

/// Bytes of the repository that this version cannot make sense of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its {0} cannot be read by this version")]
pub struct Unreadable(pub &'static str);

/// For the repository.
pub fn write(what: &impl Serialize) -> Bytes {
    // Writing to memory what we made ourselves does not fail.
    postcard::to_stdvec(what).unwrap_or_default().into()
}

/// From the repository.
pub fn read<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Unreadable> {
    postcard::from_bytes(bytes).map_err(|_| Unreadable(what))
}

/// A record of events and notes; takes them.
pub(crate) fn record(at: u64, events: &mut Vec<Event>, notes: &mut Vec<Note>) -> Bytes {
    let record = Record { at, events: std::mem::take(events), notes: std::mem::take(notes) };
    let bytes = write(&record);
    // Their room is used again.
    *events = record.events;
    events.clear();
    bytes
}

/// A process as the repository has it.
pub fn restore(
    program: &xavantes_model::definition::Program,
    head: &Head,
    snapshot: Option<&[u8]>,
    records: &[Bytes],
) -> Result<Kept, Unreadable> {
    let mut kept = match snapshot {
        Some(snapshot) => read("snapshot", snapshot)?,
        None => Kept::default(),
    };
    let first = snapshot.is_none().then_some(&*head.first);
    for record in first.into_iter().chain(records.iter().map(|record| &**record)) {
        let record: Record = read("journal", record)?;
        kept.at = record.at;
        for event in &record.events {
            kept.state.apply(program, event).map_err(|_| Unreadable("journal"))?;
        }
        record.notes.into_iter().for_each(|note| kept.note(note));
    }
    Ok(kept)
}
