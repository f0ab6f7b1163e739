//! The repository of a node: its state, backups and restored ones.

use std::path::PathBuf;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The state of a repository.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RepositoryState {
    /// Directory of the repository
    pub repository: PathBuf,
    /// Processes, running, ended and damaged
    pub processes: u64,
    /// Documents: types, cached results and others
    pub documents: u64,
    /// State of the database
    pub database: DatabaseState,
    /// Why the database could not be read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_problem: Option<String>,
    /// State of the file that says what the repository has acknowledged
    pub witness: WitnessState,
    /// Records that were found in a damaged database file
    pub restored_records: u64,
    /// Where the damaged database is after a repair
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<PathBuf>,
    /// Processes whose records are not all there
    pub damaged: Vec<DamagedProcess>,
    /// Documents that are missing, unreadable or outdated, each as KIND/KEY
    pub damaged_documents: Vec<String>,
}

/// State of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DatabaseState {
    /// All records are there
    Whole,
    /// Records are missing that it had stored
    Incomplete,
    /// It cannot be opened or read
    Unreadable,
}

/// State of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WitnessState {
    /// It can be read
    Whole,
    /// Parts of it cannot be read
    Damaged,
    /// The file is not there
    Missing,
}

/// A process whose records are not all there.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DamagedProcess {
    /// Id of the process
    pub process: String,
    /// What is damaged or missing
    pub problem: String,
}

impl RepositoryState {
    pub(crate) fn new(repository: PathBuf, inspection: xavantes_repository::Inspection) -> Self {
        let database = match (&inspection.database_unreadable, inspection.database_incomplete) {
            (Some(_), _) => DatabaseState::Unreadable,
            (None, true) => DatabaseState::Incomplete,
            (None, false) => DatabaseState::Whole,
        };
        let witness = match (inspection.witness_missing, inspection.witness_damaged) {
            (true, _) => WitnessState::Missing,
            (false, true) => WitnessState::Damaged,
            (false, false) => WitnessState::Whole,
        };
        let damaged = inspection.damaged.into_iter().map(|(process, problem)| DamagedProcess { process, problem });
        Self {
            repository,
            processes: inspection.processes,
            documents: inspection.documents,
            database,
            database_problem: inspection.database_unreadable,
            witness,
            restored_records: inspection.restored,
            moved_to: inspection.moved_to,
            damaged: damaged.collect(),
            damaged_documents: inspection.damaged_documents,
        }
    }
}

/// A backup that was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BackedUp {
    /// The file
    pub backup: PathBuf,
    /// Its size
    pub bytes: u64,
}

/// A repository that was made of a backup.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Restored {
    /// Directory of the repository
    pub repository: PathBuf,
    /// Processes, running and ended
    pub processes: u64,
    /// Records of all kinds
    pub records: u64,
}
