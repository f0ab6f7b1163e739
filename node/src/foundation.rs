//! What the roles of a node have in common: settings, addresses, and everything that is open on disk.

use std::time::Duration;

use crate::error::Error;
use crate::node_directory::DataDir;
use crate::node_files::NodeFiles;
use crate::repositories::Repositories;
use crate::settings::{Role, Settings};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// Everything that the builders of roles need. It stays open until the node ends.
pub(crate) struct Foundation {
    pub(crate) settings: Settings,
    /// Address at which other nodes reach this one.
    pub(crate) address: String,
    /// Addresses of the group's managers, in the order in which they lead.
    pub(crate) managers: Vec<String>,
    pub(crate) repositories: Repositories,
    /// Only with a role that needs files.
    pub(crate) files: Option<NodeFiles>,
    /// Declared last: it is unlocked after everything in it is closed.
    pub(crate) data_dir: Option<DataDir>,
}

impl Foundation {
    /// Opens the data directory and what is in it.
    pub(crate) async fn open(settings: Settings, address: String) -> Result<Self, Error> {
        let managers = if settings.join.is_empty() { vec![address.clone()] } else { settings.join.clone() };
        let has = |role| settings.roles.contains(&role);
        if has(Role::GroupManager) && !managers.contains(&address) {
            return Err(Error::NotAmongManagers { address, managers: managers.join(", ") });
        }
        let data_dir = DataDir::open(&settings)?;
        let repositories = Repositories::open(&settings, data_dir.as_ref()).await?;
        let needs_files = has(Role::ProcessCoordinator) || has(Role::ActivityManager);
        let open_files = || NodeFiles::open(settings.files_mib.saturating_mul(MIB), data_dir.as_ref(), &address);
        let files = needs_files.then(open_files).transpose()?;
        Ok(Self { settings, address, managers, repositories, files, data_dir })
    }

    /// Slots that work of other groups may use at once.
    pub(crate) fn max_foreign_slots(&self) -> u32 {
        self.settings.foreign_slots.unwrap_or(u32::MAX)
    }
}
