//! What the repository keeps of a process that has ended.

use serde::{Deserialize, Serialize};
use xavantes_proto::{Message, v1};

use crate::process::process_history::ProcessHistory;
use crate::record_codec::Unreadable;

/// Kind of the documents with the last states of ended processes that may go on. The key is the id of the process.
pub(super) const ENDED_STATES: &str = "ended-state";

/// How a process ended, each part encoded as the message of the wire.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    status: Vec<u8>,
    results: Vec<u8>,
    history: Vec<u8>,
    /// Bytes of the last state, which the repository keeps beside the summary if the process may go on.
    kept_bytes: u64,
}

impl Summary {
    /// Encodes the last status, the results and the history.
    pub fn new(status: &v1::ProcessStatus, results: Vec<v1::Parameter>, history: &ProcessHistory) -> Self {
        let results = v1::ResultsResponse { status: None, results };
        let history = history.to_wire().encode_to_vec();
        Self { status: status.encode_to_vec(), results: results.encode_to_vec(), history, kept_bytes: 0 }
    }

    /// Adds the size of the last state, if the repository keeps one.
    #[must_use]
    pub fn with_kept_bytes(self, kept_bytes: u64) -> Self {
        Self { kept_bytes, ..self }
    }

    /// Bytes of the last state, which the repository keeps beside the summary if the process may go on.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// The last status.
    pub fn status(&self) -> Result<v1::ProcessStatus, Unreadable> {
        v1::ProcessStatus::decode(&*self.status).map_err(|_| Unreadable("summary"))
    }

    /// The results.
    pub fn results(&self) -> Result<Vec<v1::Parameter>, Unreadable> {
        let results = v1::ResultsResponse::decode(&*self.results).map_err(|_| Unreadable("summary"))?;
        Ok(results.results)
    }

    /// The history.
    pub fn history(&self) -> Result<ProcessHistory, Unreadable> {
        let history = v1::History::decode(&*self.history).map_err(|_| Unreadable("summary"))?;
        Ok(ProcessHistory::from_wire(history))
    }
}
