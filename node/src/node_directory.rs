//! The data directory of a node: where it is, and the lock that keeps other nodes out.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::settings::Settings;

/// The data directory of a node that runs. No other node uses it until this is dropped.
///
/// | in it | is |
/// |---|---|
/// | `repository/` | processes, types and other documents of coordinators and group managers |
/// | `answers/` | answers of activities that no coordinator has acknowledged yet; activity managers |
/// | `files/` | files of processes, by their content; coordinators and activity managers |
/// | `work/`, `failed/` | directories of attempts that run, and of those that failed; activity managers |
/// | `logs/` | output of attempts; activity managers |
/// | `lock` | locked by the node that uses the directory |
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Opens the data directory of a node, and makes it if it does not exist. `None` if the node keeps nothing.
    pub(crate) fn open(settings: &Settings) -> Result<Option<Self>, Error> {
        settings.data_dir_path()?.map(Self::lock).transpose()
    }

    fn lock(path: PathBuf) -> Result<Self, Error> {
        let unusable = |cause| Error::DataDir { path: path.clone(), cause };
        // Only the owner may read definitions, parameters and results.
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(unusable)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(path.join("lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::DataDirInUse(path)),
            Err(TryLockError::Error(cause)) => Err(unusable(cause)),
        }
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory for the answers of an activity manager.
    pub(crate) fn answers(&self) -> PathBuf {
        self.path.join("answers")
    }

    /// The directory for files of processes.
    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    /// The directory of the embedded repository.
    pub(crate) fn repository(&self) -> PathBuf {
        self.path.join("repository")
    }
}

impl Settings {
    /// The data directory that results from the settings and the environment; `None` if the node keeps nothing.
    pub fn data_dir_path(&self) -> Result<Option<PathBuf>, Error> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        match (self.in_memory, &self.data_dir) {
            (true, _) => Ok(None),
            (false, Some(path)) => Ok(Some(path.clone())),
            (false, None) => {
                let state = state_home(variable("XDG_STATE_HOME"), variable("HOME")).ok_or(Error::NoHomeDirectory)?;
                Ok(Some(state.join("xavantes").join(&self.group).join(&self.name)))
            }
        }
    }
}

/// The directory in which programs of a user keep their state. Relative paths do not count.
fn state_home(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    state.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".local/state")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_state_is_kept() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(state_home(path("/state"), path("/home/me")), path("/state"));
        assert_eq!(state_home(None, path("/home/me")), path("/home/me/.local/state"));
        assert_eq!(state_home(path(""), path("/home/me")), path("/home/me/.local/state"));
        assert_eq!(state_home(path("state"), path("me")), None);
        assert_eq!(state_home(None, None), None);
    }

    #[test]
    fn in_memory_overrides_the_data_directory() {
        let settings = Settings { data_dir: Some("/data".into()), ..Settings::default() };
        assert_eq!(settings.data_dir_path().unwrap(), Some("/data".into()));
        assert_eq!(Settings { in_memory: true, ..settings }.data_dir_path().unwrap(), None);
    }
}
