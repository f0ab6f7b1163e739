//! Where a node keeps what must outlive it: a folder of its own on this machine, and the repositories of its roles.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use xavantes_repository::Store;

use crate::config::{Config, Role};
use crate::server::Error;

/// The data directory of a node that runs. No other node uses it until this is dropped.
///
/// | in it | is |
/// |---|---|
/// | `repository/` | processes, types and other documents; of coordinators and group managers |
/// | `answers/` | answers of activities that no coordinator has acknowledged yet; of activity managers |
/// | `files/` | files of processes, by what is in them; of coordinators and activity managers |
/// | `work/`, `failed/` | directories of attempts that run, and of those that failed; of activity managers |
/// | `logs/` | what attempts wrote; of activity managers |
/// | `lock` | held by the node that uses the directory |
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens the data directory of a node, made if it is not there; nothing, if the node keeps nothing.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, Error> {
        config.folder()?.map(Self::open).transpose()
    }

    fn open(path: PathBuf) -> Result<Self, Error> {
        let unusable = |cause| Error::Folder { path: path.clone(), cause };
        // What is in it is its owner's business: definitions, parameters, results.
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(unusable)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(path.join("lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse(path)),
            Err(TryLockError::Error(cause)) => Err(unusable(cause)),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where an activity manager keeps its answers.
    pub(crate) fn answers(&self) -> PathBuf {
        self.path.join("answers")
    }
}

/// The files of a node: in its data directory, or in a directory that goes with it.
pub(crate) struct Files {
    pub(crate) fetcher: xavantes_files::Fetcher,
    _temporary: Option<Temporary>,
}

impl Files {
    pub(crate) fn open(config: &Config, folder: Option<&Folder>, address: &str) -> Result<Self, Error> {
        let (path, temporary) = match folder {
            Some(folder) => (folder.path.join("files"), None),
            None => {
                let within = std::env::temp_dir();
                let temporary = Temporary::new(&within).map_err(|cause| Error::Folder { path: within, cause })?;
                (temporary.folder.path().join("files"), Some(temporary))
            }
        };
        let store = xavantes_files::Store::open(&path, config.files_mib.saturating_mul(1 << 20));
        let store = store.map_err(|cause| Error::Folder { path, cause })?;
        Ok(Self { fetcher: xavantes_files::Fetcher::new(store, address), _temporary: temporary })
    }
}

/// A directory that goes with the node. If that is killed, the next one that needs such a directory removes it.
struct Temporary {
    folder: TempDir,
    _lock: File,
}

impl Temporary {
    const PREFIX: &str = "xavantes-files-";

    fn new(within: &Path) -> std::io::Result<Self> {
        Self::sweep(within);
        let folder = tempfile::Builder::new().prefix(Self::PREFIX).tempdir_in(within)?;
        // It gets its name when it is locked, so that nobody finds it free.
        let (coming, named) = (folder.path().join("coming"), folder.path().join("lock"));
        let lock = File::create(&coming)?;
        lock.try_lock()?;
        std::fs::rename(coming, named)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Removes those of nodes that are no more.
    fn sweep(within: &Path) {
        for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(Self::PREFIX)
                && let Ok(lock) = File::open(entry.path().join("lock"))
                && lock.try_lock().is_ok()
            {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The repositories of a node, for those of its roles that keep something.
pub(crate) struct Stores {
    /// Documents of the group manager.
    pub(crate) manager: Option<Store>,
    /// Processes and documents of the coordinator; the manager's own, unless it is shared with other coordinators.
    pub(crate) coordinator: Option<Store>,
}

impl Stores {
    /// Opens what the roles of a node need.
    pub(crate) async fn open(config: &Config, folder: Option<&Folder>) -> Result<Self, Error> {
        let is = |role| config.roles.contains(&role);
        let own = async || match folder {
            Some(folder) => xavantes_repository::open_sled(&folder.path.join("repository"), &config.name).await,
            None => Ok(xavantes_repository::in_memory()),
        };
        let coordinator = match &config.repository {
            _ if !is(Role::ProcessCoordinator) => None,
            Some(url) => Some(xavantes_repository::open_postgres(url, &config.name).await?),
            None => Some(own().await?),
        };
        let manager = match &coordinator {
            _ if !is(Role::GroupManager) => None,
            Some(store) if config.repository.is_none() => Some(store.clone()),
            _ => Some(own().await?),
        };
        Ok(Self { manager, coordinator })
    }

    /// Closes them.
    pub(crate) async fn shut_down(&self) {
        let same = |one: &Store| self.coordinator.as_ref().is_some_and(|other| Arc::ptr_eq(one, other));
        for store in self.manager.iter().filter(|store| !same(store)).chain(&self.coordinator) {
            store.shut_down().await;
        }
    }
}

/// Processes that a data directory has and that have not ended, by id; the node that had them does not run.
pub async fn unfinished(config: &Config) -> Result<Vec<String>, Error> {
    let folder = Folder::of(config)?;
    let stores = Stores::open(config, folder.as_ref()).await?;
    let listed = match &stores.coordinator {
        Some(store) => store.list().await,
        None => Ok(Vec::new()),
    };
    stores.shut_down().await;
    Ok(listed?.into_iter().filter(|entry| entry.summary.is_none()).map(|entry| entry.process).collect())
}

impl Config {
    /// The data directory that results from the settings and the environment; none if nothing is kept.
    pub fn folder(&self) -> Result<Option<PathBuf>, Error> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        match (self.in_memory, &self.data_dir) {
            (true, _) => Ok(None),
            (false, Some(folder)) => Ok(Some(folder.clone())),
            (false, None) => {
                let state = state_home(variable("XDG_STATE_HOME"), variable("HOME")).ok_or(Error::NoFolder)?;
                Ok(Some(state.join("xavantes").join(&self.group).join(&self.name)))
            }
        }
    }
}

/// Where programs of a user keep their state. Paths that are not absolute do not count.
fn state_home(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    state.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".local/state")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_kept_where_the_environment_says() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(state_home(path("/state"), path("/home/me")), path("/state"));
        assert_eq!(state_home(None, path("/home/me")), path("/home/me/.local/state"));
        assert_eq!(state_home(path(""), path("/home/me")), path("/home/me/.local/state"));
        assert_eq!(state_home(path("state"), path("me")), None);
        assert_eq!(state_home(None, None), None);
    }

    #[test]
    fn what_a_killed_node_left_is_removed_by_the_next() {
        let within = tempfile::tempdir().unwrap();
        let left = within.path().join("xavantes-files-left");
        std::fs::create_dir_all(left.join("files")).unwrap();
        std::fs::write(left.join("lock"), "").unwrap();
        let other = within.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let first = Temporary::new(within.path()).unwrap();
        let second = Temporary::new(within.path()).unwrap();
        assert!(!left.exists() && other.exists());
        assert!(first.folder.path().exists() && second.folder.path().exists());
        drop((first, second));
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_node_keeps_things_where_it_is_told_or_not_at_all() {
        let config = Config { data_dir: Some("/data".into()), ..Config::default() };
        assert_eq!(config.folder().unwrap(), Some("/data".into()));
        assert_eq!(Config { in_memory: true, ..config }.folder().unwrap(), None);
    }
}
