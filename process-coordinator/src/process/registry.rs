//! The table of processes: those that run here, and those that other coordinators run.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::process::handle::ProcessHandle;
use crate::workers::handle::Orders;
use xavantes_proto::AttemptKey;

/// The processes that a coordinator knows; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessRegistry(Arc<RwLock<Table>>);

/// Answers to attempts of a process, with the connections that wait for an acknowledgement.
pub(crate) type UnacknowledgedAnswers = HashMap<AttemptKey, Orders>;

#[derive(Debug, Default)]
struct Table {
    running: HashMap<Arc<str>, ProcessHandle>,
    /// Ids of processes by path; of several subtrees with one path the newest is last.
    paths: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Processes that another coordinator runs, or that this one cannot read, and the answers that arrived here for them.
    foreign: HashMap<Arc<str>, UnacknowledgedAnswers>,
}

impl Table {
    fn remove(&mut self, id: &str) {
        let Some(handle) = self.running.remove(id) else { return };
        if let Some(ids) = self.paths.get_mut(&handle.path) {
            ids.retain(|other| **other != *id);
            if ids.is_empty() {
                self.paths.remove(&handle.path);
            }
        }
    }
}

impl ProcessRegistry {
    /// A process that runs here.
    pub fn find(&self, id: &str) -> Option<ProcessHandle> {
        self.0.read().running.get(id).cloned()
    }

    /// The process that runs here and whose path this is, with its id.
    pub fn find_by_path(&self, path: &str) -> Option<(Arc<str>, ProcessHandle)> {
        let table = self.0.read();
        let id = table.paths.get(path)?.last()?;
        Some((id.clone(), table.running.get(id)?.clone()))
    }

    /// Number of processes that run here.
    pub fn len(&self) -> usize {
        self.0.read().running.len()
    }

    /// A process runs here from now on.
    pub fn add(&self, id: Arc<str>, handle: ProcessHandle) {
        let mut table = self.0.write();
        table.remove(&id);
        table.foreign.remove(&id);
        table.paths.entry(handle.path.clone()).or_default().push(id.clone());
        table.running.insert(id, handle);
    }

    /// A process has ended here.
    pub fn remove(&self, id: &str) {
        self.0.write().remove(id);
    }

    /// Another coordinator runs a process, or this one cannot read it.
    pub fn set_foreign(&self, id: Arc<str>) {
        let mut table = self.0.write();
        table.remove(&id);
        table.foreign.entry(id).or_default();
    }

    /// Does another coordinator run this process?
    pub fn is_foreign(&self, id: &str) -> bool {
        self.0.read().foreign.contains_key(id)
    }

    /// Notes an answer to an attempt of a foreign process. False if the process is not foreign.
    pub fn note_answer(&self, orders: &Orders, key: &AttemptKey) -> bool {
        let mut table = self.0.write();
        let answers = table.foreign.get_mut(&key.process);
        answers.map(|answers| answers.insert(key.clone(), orders.clone())).is_some()
    }

    /// Foreign processes for which answers arrived here.
    pub fn foreign_with_answers(&self) -> Vec<Arc<str>> {
        let table = self.0.read();
        table.foreign.iter().filter(|(_, answers)| !answers.is_empty()).map(|(id, _)| id.clone()).collect()
    }

    /// A foreign process has ended: gives the answers that arrived here for it.
    pub fn remove_foreign(&self, id: &str) -> UnacknowledgedAnswers {
        self.0.write().foreign.remove(id).unwrap_or_default()
    }
}
