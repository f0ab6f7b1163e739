//! Builds the service of a process coordinator.

use std::time::Duration;

use xavantes_process_coordinator::{Options, Printed, Service};

use crate::error::Error;
use crate::foundation::{DAY, Foundation, MIB};

/// Upper bound on the setting `retention_mib` of a node without a data directory: memory is scarcer than disk.
const MAX_RETENTION_BYTES_IN_MEMORY: u64 = 256 * MIB;
/// Upper bound on the setting `cache_mib` of a node without a data directory.
const MAX_CACHE_BYTES_IN_MEMORY: u64 = 32 * MIB;

/// Upper bound on the setting `worker_patience_seconds`.
const MAX_WORKER_PATIENCE_SECONDS: u64 = 365 * 86_400;

/// The service, if the node has this role. `printed` receives what activities print.
pub(crate) async fn open(foundation: &Foundation, printed: Option<Printed>) -> Result<Option<Service>, Error> {
    let Some(store) = foundation.repositories.coordinator.clone() else { return Ok(None) };
    let settings = &foundation.settings;
    let is_persistent = foundation.data_dir.is_some() || settings.repository.is_some();
    let bytes = |mib: u64, in_memory: u64| match is_persistent {
        true => mib.saturating_mul(MIB),
        false => mib.saturating_mul(MIB).min(in_memory),
    };
    let options = Options {
        node: settings.name.clone(),
        address: foundation.address.clone(),
        worker_patience: Duration::from_secs(settings.worker_patience_seconds.clamp(1, MAX_WORKER_PATIENCE_SECONDS)),
        retention_age: Some(DAY.saturating_mul(settings.retention_days)),
        retention_size: Some(bytes(settings.retention_mib, MAX_RETENTION_BYTES_IN_MEMORY)),
        reuse_size: bytes(settings.reuse_mib, MAX_CACHE_BYTES_IN_MEMORY),
        process_bytes: settings.process_mib.saturating_mul(MIB),
        processes_bytes: settings.processes_mib.map_or_else(half_of_memory, |mib| mib.saturating_mul(MIB)),
        shared: settings.repository.is_some(),
        group: settings.group.clone(),
        managers: foundation.managers.clone(),
        foreign_groups: settings.foreign_groups.clone(),
        foreign_slots: foundation.max_foreign_slots(),
        files: foundation.files.as_ref().map(|files| files.fetcher.clone()),
        printed,
    };
    Ok(Some(Service::open(options, store).await?))
}

/// Half of the memory that this program may use.
fn half_of_memory() -> u64 {
    xavantes_activity_manager::available_memory() / 2
}
