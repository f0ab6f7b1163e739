//! Builds the service of an activity manager.

use std::time::Duration;

use tracing::info;
use xavantes_activity_manager::ProgramOptions;
use xavantes_activity_manager::{Options, Service};
use xavantes_files::Sources;

use crate::error::Error;
use crate::foundation::{DAY, Foundation, MIB};
use crate::node_directory::DataDir;
use crate::settings::{CgroupsSetting, ContainersSetting, Role};

/// The service, if the node has this role.
pub(crate) fn open(foundation: &Foundation) -> Result<Option<Service>, Error> {
    let settings = &foundation.settings;
    let is_worker = settings.roles.contains(&Role::ActivityManager);
    let Some(files) = foundation.files.as_ref().filter(|_| is_worker) else { return Ok(None) };
    let data_dir = foundation.data_dir.as_ref();
    let options = Options {
        folder: data_dir.map(DataDir::answers),
        node: settings.name.clone(),
        slots: settings.slots,
        queue: settings.queue,
        tags: settings.tags.iter().cloned().collect(),
        files: files.fetcher.clone(),
        sources: Sources::new(files.fetcher.store().clone(), foundation.managers.clone()),
        address: foundation.address.clone(),
        programs: program_options(foundation)?,
    };
    let unusable = |cause| Error::DataDir {
        path: data_dir.map_or_else(std::env::temp_dir, |data_dir| data_dir.path().to_owned()),
        cause,
    };
    Ok(Some(Service::open(options).map_err(unusable)?))
}

/// How the node runs external programs. The node has no other child processes.
fn program_options(foundation: &Foundation) -> Result<ProgramOptions, Error> {
    let settings = &foundation.settings;
    let cgroups = match settings.cgroups {
        CgroupsSetting::Off => None,
        CgroupsSetting::Required => Some(xavantes_activity_manager::Cgroups::acquire().map_err(Error::Cgroups)?),
        CgroupsSetting::Auto => {
            let none = |why: &String| info!(why, "cgroups unavailable; polling resource usage");
            xavantes_activity_manager::Cgroups::acquire().inspect_err(none).ok()
        }
    };
    Ok(ProgramOptions {
        folder: foundation.data_dir.as_ref().map(|data_dir| data_dir.path().to_owned()),
        interpreters: settings.interpreters.clone(),
        environment: settings.pass_environment.clone(),
        grace: Duration::from_secs(settings.grace_seconds),
        keep_failed: settings.keep_failed,
        memory: settings.memory_mib.map(|mib| mib.saturating_mul(MIB)),
        gpus: settings.gpus,
        logs: xavantes_activity_manager::LogLimits {
            limit: settings.log_mib.saturating_mul(MIB),
            total: settings.logs_mib.saturating_mul(MIB),
            age: DAY.saturating_mul(settings.logs_days),
        },
        containers: settings.containers.map(ContainersSetting::name).map(str::to_owned),
        cgroups,
        adopts: true,
    })
}
