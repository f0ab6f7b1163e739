//! Inspection of a store that no node uses: a check that changes nothing, and a repair.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::backup::payloads;
use super::blobs;
use super::frame::{self, TreeId};
use super::open_store::{self, OpenedStore};
use super::record::{document_name, journal_numbers};
use super::store_directory::DataDirectory;
use super::store_failure::classify;
use crate::error::Error;

/// The state of a store.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Number of processes, running, ended and damaged.
    pub processes: u64,
    /// Number of documents.
    pub documents: u64,
    /// Processes whose records are not all there, with the reason, in the order of ids.
    pub damaged: Vec<(String, String)>,
    /// Documents that are missing, unreadable or outdated.
    pub damaged_documents: Vec<String>,
    /// The file that says what the store has acknowledged is missing.
    pub witness_missing: bool,
    /// A part of this file cannot be read.
    pub witness_damaged: bool,
    /// The database lacked records that it had acknowledged.
    pub database_incomplete: bool,
    /// Why the database could not be read.
    pub database_unreadable: Option<String>,
    /// Records that were found in the damaged database file.
    pub restored: u64,
    /// Where the damaged database is now; only after a repair.
    pub moved_to: Option<PathBuf>,
}

impl Inspection {
    /// Nothing is damaged, and nothing was.
    pub fn is_whole(&self) -> bool {
        let was_damaged = self.witness_missing || self.witness_damaged || self.database_incomplete;
        !(was_damaged || self.has_losses() || self.database_unreadable.is_some())
    }

    /// Some process or document cannot be read.
    pub fn has_losses(&self) -> bool {
        !(self.damaged.is_empty() && self.damaged_documents.is_empty())
    }
}

/// Finds out what is damaged in a store. Opens a copy of the database, because sled changes what it opens.
pub(super) fn check(path: &Path) -> Result<Inspection, Error> {
    let original = open_directory(path)?;
    let failed = |error: io::Error| classify(&error, format!("cannot check {}: {error}", path.display()));
    let scratch = tempfile::Builder::new().prefix("check-").tempdir_in(original.path()).map_err(failed)?;
    for name in ["format", "realm", "witness"] {
        match fs::copy(original.path().join(name), scratch.path().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    copy_files(&original.database(), &scratch.path().join("db")).map_err(failed)?;
    let mut copy = DataDirectory::open(scratch.path())?;
    let opened = open_store::open(&mut copy)?;
    let mut inspection = inspect(opened, &original.blobs())?;
    // The copy goes with the scratch directory.
    inspection.moved_to = None;
    Ok(inspection)
}

/// Opens a store, which saves what can be read, and says what is damaged.
pub(super) fn repair(path: &Path) -> Result<Inspection, Error> {
    let mut directory = open_directory(path)?;
    let opened = open_store::open(&mut directory)?;
    inspect(opened, &directory.blobs())
}

/// Locks a directory that has a store.
fn open_directory(path: &Path) -> Result<DataDirectory, Error> {
    if !["format", "witness", "db"].iter().any(|name| path.join(name).exists()) {
        return Err(Error::Broken(format!("there is no repository in {}", path.display())));
    }
    DataDirectory::open(path)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Collects the damage of an opened store, including that of its blobs.
fn inspect(opened: OpenedStore, blob_directory: &Path) -> Result<Inspection, Error> {
    let OpenedStore { database, recovered, findings, .. } = opened;
    let mut damaged: HashMap<String, String> = HashMap::new();
    for (id, entry) in recovered.index.iter() {
        if let Some(damage) = &entry.damage {
            damaged.insert(id.clone(), format!("{}, record {}: {}", damage.file, damage.record, damage.problem));
        }
    }
    let mut damaged_documents = recovered.damaged_documents.clone();
    let owners: HashMap<u64, &String> = recovered.index.iter().map(|(id, entry)| (entry.mark.number, id)).collect();
    for tree in TreeId::ALL {
        database.for_each(tree, |key, value| {
            let Ok(frame) = frame::unwrap(tree, key, value) else { return Ok(()) };
            for payload in payloads(tree, frame.payload).into_iter().filter(|payload| payload.digest().is_some()) {
                let Err(error) = blobs::read(blob_directory, payload) else { continue };
                let problem = format!("{}: {}", error.path.display(), error.problem);
                let process = match tree {
                    TreeId::Processes => Some(String::from_utf8_lossy(key).into_owned()),
                    TreeId::Journal => {
                        let number = journal_numbers(key).map(|(process, _)| process);
                        number.and_then(|number| owners.get(&number)).map(|id| (*id).clone())
                    }
                    TreeId::Documents => {
                        damaged_documents.push(document_name(key));
                        None
                    }
                };
                if let Some(process) = process {
                    damaged.entry(process).or_insert(problem);
                }
            }
            Ok(())
        })?;
    }
    let mut damaged: Vec<_> = damaged.into_iter().collect();
    damaged.sort();
    damaged_documents.sort();
    damaged_documents.dedup();
    Ok(Inspection {
        processes: recovered.index.len() as u64,
        documents: recovered.documents.len() as u64,
        damaged,
        damaged_documents,
        witness_missing: findings.witness_missing,
        witness_damaged: findings.witness_damaged,
        database_incomplete: findings.rolled_back,
        database_unreadable: findings.unreadable,
        restored: findings.restored,
        moved_to: findings.moved_to,
    })
}
