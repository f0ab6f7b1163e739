//! Builds the service of a group manager.

use xavantes_group_manager::{Options, Service};

use crate::error::Error;
use crate::foundation::Foundation;

/// The service, if the node has this role.
pub(crate) async fn open(foundation: &Foundation) -> Result<Option<Service>, Error> {
    let Some(store) = foundation.repositories.manager.clone() else { return Ok(None) };
    let settings = &foundation.settings;
    let options = Options {
        group: settings.group.clone(),
        address: foundation.address.clone(),
        managers: foundation.managers.clone(),
        adjacent: settings.adjacent.clone(),
        sources: settings.sources.clone(),
        foreign_groups: settings.foreign_groups.clone(),
        foreign_slots: foundation.max_foreign_slots(),
    };
    Ok(Some(Service::open(options, store).await?))
}
