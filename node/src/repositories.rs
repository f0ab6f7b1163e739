//! The repositories of a node's roles: in the data directory, in memory, or in a database that coordinators share.

use std::sync::Arc;

use xavantes_repository::Store;

use crate::error::Error;
use crate::node_directory::DataDir;
use crate::settings::{Role, Settings};

/// The repositories of those roles of a node that need one.
pub(crate) struct Repositories {
    /// Documents of the group manager.
    pub(crate) manager: Option<Store>,
    /// Processes and documents of the coordinator. The same as the manager's, unless coordinators share a database.
    pub(crate) coordinator: Option<Store>,
}

impl Repositories {
    /// Opens the repositories that the roles of a node need.
    pub(crate) async fn open(settings: &Settings, data_dir: Option<&DataDir>) -> Result<Self, Error> {
        let has = |role| settings.roles.contains(&role);
        let local = async || match data_dir {
            Some(data_dir) => xavantes_repository::open_sled(&data_dir.repository(), &settings.name).await,
            None => Ok(xavantes_repository::in_memory()),
        };
        let coordinator = match settings.database_url()? {
            _ if !has(Role::ProcessCoordinator) => None,
            Some(url) => Some(xavantes_repository::open_postgres(&url, &settings.name).await?),
            None => Some(local().await?),
        };
        let manager = match &coordinator {
            _ if !has(Role::GroupManager) => None,
            Some(store) if settings.repository.is_none() => Some(store.clone()),
            _ => Some(local().await?),
        };
        Ok(Self { manager, coordinator })
    }

    /// Closes the repositories, each once.
    pub(crate) async fn shut_down(&self) {
        let is_shared = |store: &Store| self.coordinator.as_ref().is_some_and(|other| Arc::ptr_eq(store, other));
        for store in self.manager.iter().filter(|store| !is_shared(store)).chain(&self.coordinator) {
            store.shut_down().await;
        }
    }
}

/// Ids of the processes in a data directory that have not ended. The node that ran them must not be running.
pub async fn unfinished_processes(settings: &Settings) -> Result<Vec<String>, Error> {
    let data_dir = DataDir::open(settings)?;
    let repositories = Repositories::open(settings, data_dir.as_ref()).await?;
    let listed = match &repositories.coordinator {
        Some(store) => store.list().await,
        None => Ok(Vec::new()),
    };
    repositories.shut_down().await;
    Ok(listed?.into_iter().filter(|entry| entry.summary.is_none()).map(|entry| entry.process).collect())
}
