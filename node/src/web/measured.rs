//! What the metrics of a node say about: its services, its files and itself.

use xavantes_files::FileStore;
use xavantes_telemetry::{Direction, metrics};

use crate::services::Services;

/// Everything that is measured when somebody asks for the metrics.
pub(crate) struct Measured {
    services: Services,
    files: Option<FileStore>,
}

impl Measured {
    pub(crate) fn new(services: Services, files: Option<FileStore>) -> Self {
        Self { services, files }
    }

    /// The roles that the node serves.
    pub(crate) fn roles(&self) -> Vec<&'static str> {
        let Services { manager, coordinator, worker, .. } = &self.services;
        let roles = [
            manager.as_ref().map(|_| "group-manager"),
            coordinator.as_ref().map(|_| "process-coordinator"),
            worker.as_ref().map(|_| "activity-manager"),
        ];
        roles.into_iter().flatten().collect()
    }

    /// Updates the metrics that say how things are now. All others are counted as things happen.
    pub(crate) fn measure(&self) {
        let Services { manager, coordinator, worker, .. } = &self.services;
        manager.iter().for_each(|manager| manager.measure());
        coordinator.iter().for_each(|coordinator| coordinator.measure());
        worker.iter().for_each(|worker| worker.measure());
        let metrics = metrics();
        if let Some(files) = &self.files {
            let counts = files.transfer_counts();
            for (direction, bytes) in [(Direction::In, counts.bytes_in), (Direction::Out, counts.bytes_out)] {
                let counter = metrics.file_bytes.of(direction);
                counter.inc_by(bytes.saturating_sub(counter.get()));
            }
            metrics.file_store_bytes.set(files.usage().bytes as i64);
        }
        metrics.tasks.set(tokio::runtime::Handle::current().metrics().num_alive_tasks() as i64);
        metrics.resident_memory.set(resident_memory().unwrap_or_default());
        metrics.open_files.set(open_files().unwrap_or_default());
    }
}

/// Bytes of this program in RAM.
fn resident_memory() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Descriptors that this program has open.
fn open_files() -> Option<i64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as i64)
}
