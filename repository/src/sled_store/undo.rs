//! Taking a batch of changes back whose write failed. Nobody knows how much of it sled has kept, so the undo restores every
//! record that the batch has touched, whether sled kept the change or not.

use std::collections::HashSet;
use std::fs::File;

use super::database::Database;
use super::frame::{self, TreeId};
use crate::error::Error;

/// The records that a batch has touched, as they were before.
#[derive(Default)]
pub(super) struct BatchUndo {
    records: Vec<OldRecord>,
    touched: HashSet<(TreeId, Vec<u8>)>,
}

struct OldRecord {
    tree: TreeId,
    key: Vec<u8>,
    /// `None` if there was no record.
    value: Option<sled::IVec>,
}

impl BatchUndo {
    /// The batch replaces or removes a record. Only the first time counts.
    pub(super) fn note(&mut self, tree: TreeId, key: &[u8], old: Option<sled::IVec>) {
        if self.touched.insert((tree, key.to_vec())) {
            self.records.push(OldRecord { tree, key: key.to_vec(), value: old });
        }
    }

    /// The batch is durable.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.touched.clear();
    }

    /// Restores the records in a database that was opened again, and makes them durable. They get sequence numbers behind
    /// `sequence`, the last one of the batch, because the salvage believes the latest record of each key. May be repeated.
    pub(super) fn restore(&self, database: &Database, mut sequence: u64) -> Result<(), Error> {
        for OldRecord { tree, key, value } in &self.records {
            match value {
                Some(value) => {
                    sequence += 1;
                    // A record that cannot be read stays as it is.
                    let renumbered = frame::unwrap(*tree, key, value)
                        .map_or_else(|_| value.to_vec(), |old| frame::wrap(*tree, key, sequence, old.payload));
                    database.insert(*tree, key, &renumbered)?;
                }
                None => drop(database.tree(*tree).remove(key).map_err(|error| database.failed(&error))?),
            }
        }
        database.set_last_commit(sequence)?;
        database.flush()?;
        let synced = File::open(database.file()).and_then(|file| file.sync_data());
        synced.map_err(|error| database.broken(&error))
    }
}
