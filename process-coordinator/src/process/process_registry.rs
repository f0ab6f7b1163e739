//! The table of processes: those that run here, those that are held here, and those that other coordinators run.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;
use xavantes_proto::v1;

use crate::process::handle::ProcessHandle;
use crate::process::journal::Origin;
use crate::workers::handle::Orders;
use xavantes_proto::AttemptKey;

/// The processes that a coordinator knows; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessRegistry {
    table: Arc<RwLock<Table>>,
    /// Changes whenever a process is held, or is held no longer.
    held: watch::Sender<()>,
}

/// A process that this coordinator holds.
#[derive(Debug, Clone)]
pub(crate) struct HeldProcess {
    /// Its status, with the reason.
    pub status: v1::ProcessStatus,
    /// The parent process, if it is a subtree and its head can be read.
    pub origin: Option<Origin>,
}

/// What workers have of a process that does not run here.
#[derive(Debug, Default)]
struct ForeignProcess {
    answers: UnacknowledgedAnswers,
    /// A worker runs attempts of it for this coordinator.
    has_attempts: bool,
}

/// Answers to attempts of a process, with the connections that wait for an acknowledgement.
pub(crate) type UnacknowledgedAnswers = HashMap<AttemptKey, Orders>;

#[derive(Debug, Default)]
struct Table {
    running: HashMap<Arc<str>, ProcessHandle>,
    /// Ids of processes by path; of several subtrees with one path the newest is last.
    paths: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Processes that are held here.
    held: HashMap<Arc<str>, HeldProcess>,
    /// Processes that another coordinator runs, or that are held here.
    foreign: HashMap<Arc<str>, ForeignProcess>,
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
        self.table.read().running.get(id).cloned()
    }

    /// The process that runs here and whose path this is, with its id.
    pub fn find_by_path(&self, path: &str) -> Option<(Arc<str>, ProcessHandle)> {
        let table = self.table.read();
        let id = table.paths.get(path)?.last()?;
        Some((id.clone(), table.running.get(id)?.clone()))
    }

    /// Number of processes that run here.
    pub fn len(&self) -> usize {
        self.table.read().running.len()
    }

    /// Number of processes that are held here.
    pub fn held_count(&self) -> usize {
        self.table.read().held.len()
    }

    /// A process runs here from now on.
    pub fn add(&self, id: Arc<str>, handle: ProcessHandle) {
        let mut table = self.table.write();
        table.remove(&id);
        table.held.remove(&id);
        let was_foreign = table.foreign.remove(&id).is_some();
        table.paths.entry(handle.path.clone()).or_default().push(id.clone());
        table.running.insert(id, handle);
        drop(table);
        if was_foreign {
            self.held.send_replace(());
        }
    }

    /// A process has ended here.
    pub fn remove(&self, id: &str) {
        self.table.write().remove(id);
    }

    /// Another coordinator runs a process.
    pub fn set_foreign(&self, id: Arc<str>) {
        let mut table = self.table.write();
        table.remove(&id);
        table.held.remove(&id);
        table.foreign.entry(id).or_default();
        drop(table);
        self.held.send_replace(());
    }

    /// This coordinator holds a process from now on.
    pub fn hold(&self, id: Arc<str>, process: HeldProcess) {
        let mut table = self.table.write();
        table.remove(&id);
        table.foreign.entry(id.clone()).or_default();
        table.held.insert(id, process);
        drop(table);
        self.held.send_replace(());
    }

    /// The process with this id or path, if it is held here.
    pub fn find_held(&self, id: &str) -> Option<(Arc<str>, HeldProcess)> {
        let table = self.table.read();
        let found = table.held.get_key_value(id);
        let found = found.or_else(|| table.held.iter().find(|(_, process)| process.status.path == id));
        found.map(|(id, process)| (id.clone(), process.clone()))
    }

    /// Ends the hold of a process, which then neither runs nor is held. Its answers still wait.
    pub fn take_held(&self, id: &str) -> Option<HeldProcess> {
        let taken = self.table.write().held.remove(id);
        if taken.is_some() {
            self.held.send_replace(());
        }
        taken
    }

    /// Changes whenever a process is held, or is held no longer.
    pub fn held_changes(&self) -> watch::Receiver<()> {
        self.held.subscribe()
    }

    /// Does another coordinator run this process, or is it held here?
    pub fn is_foreign(&self, id: &str) -> bool {
        self.table.read().foreign.contains_key(id)
    }

    /// Notes an answer to an attempt of a foreign or held process. False for all others.
    pub fn note_answer(&self, orders: &Orders, key: &AttemptKey) -> bool {
        let mut table = self.table.write();
        let foreign = table.foreign.get_mut(&key.process);
        foreign.map(|foreign| foreign.answers.insert(key.clone(), orders.clone())).is_some()
    }

    /// Notes that a worker runs these attempts for this coordinator, if they are of foreign or held processes.
    pub fn note_running(&self, running: &v1::Running) {
        let is_foreign = |table: &Table| running.attempts.iter().any(|id| table.foreign.contains_key(&*id.process));
        if is_foreign(&self.table.read()) {
            let mut table = self.table.write();
            for id in &running.attempts {
                table.foreign.get_mut(&*id.process).into_iter().for_each(|foreign| foreign.has_attempts = true);
            }
        }
    }

    /// Foreign processes of which workers have answers or attempts for this coordinator.
    pub fn take_foreign_with_attempts(&self) -> Vec<Arc<str>> {
        let mut table = self.table.write();
        let found = table.foreign.iter_mut().filter_map(|(id, foreign)| {
            // Workers report running attempts again and again.
            let found = std::mem::take(&mut foreign.has_attempts) || !foreign.answers.is_empty();
            found.then(|| id.clone())
        });
        found.collect()
    }

    /// A foreign process has ended: gives the answers that arrived here for it.
    pub fn remove_foreign(&self, id: &str) -> UnacknowledgedAnswers {
        self.table.write().foreign.remove(id).unwrap_or_default().answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_processes_of_which_workers_have_something_are_known() {
        let registry = ProcessRegistry::default();
        let running = |process: &str| v1::Running {
            attempts: vec![v1::AttemptId { process: process.into(), element: 1, attempt: 1 }],
            ..v1::Running::default()
        };
        registry.note_running(&running("p"));
        registry.set_foreign("p".into());
        assert!(registry.take_foreign_with_attempts().is_empty());
        registry.note_running(&running("p"));
        assert_eq!(registry.take_foreign_with_attempts(), ["p".into()]);
        assert!(registry.take_foreign_with_attempts().is_empty(), "until the next report");
        let (orders, _) = tokio::sync::mpsc::unbounded_channel();
        assert!(registry.note_answer(&orders, &AttemptKey::new("p", 2, 1)));
        assert_eq!(registry.take_foreign_with_attempts(), ["p".into()]);
        assert_eq!(registry.remove_foreign("p").len(), 1);
    }
}
