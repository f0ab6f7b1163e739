//! What all programs of a worker share: directories, the process table, logs, interpreters, container engine, control groups.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use xavantes_model::definition::{ActivityCode, ActivityType};
use xavantes_proto::v1::{Nothing, requirement};

use super::attempt_directories::WorkDirs;
use super::cgroups::Cgroups;
use super::container::ContainerEngine;
use super::gpus::Gpus;
use super::interpreters::{Interpreters, default_path, search};
use super::machine_memory::available_memory;
use super::options::ProgramOptions;
use super::program_table::{self, ProgramTable};
use super::watchdog::Watchdog;
use crate::logs::log_store::LogStore;

/// The variable with the path of the command `xavantes`. Containers do not have it: they need not have the command.
pub(crate) const COMMAND_VARIABLE: &str = "XAVANTES_COMMAND";

/// The folders of programs, with that of the command at the end if it is not among them.
fn path_with(path: OsString, command: Option<&Path>) -> OsString {
    let Some(folder) = command.and_then(Path::parent) else { return path };
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if folders.iter().any(|known| known == folder) {
        return path;
    }
    folders.push(folder.to_owned());
    // A folder with a colon in its name cannot be on the path.
    std::env::join_paths(folders).unwrap_or(path)
}

/// Makes a new folder that only this user can enter. Other users cannot foresee its name, so they cannot make it first.
fn private_folder(within: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("xavantes-programs-").rand_bytes(16).permissions(Permissions::from_mode(0o700)).tempdir_in(within)
}

/// What the programs of a worker run on.
#[derive(Debug)]
pub(crate) struct ProgramHost {
    pub node: String,
    /// Time between the request to end and the kill.
    pub grace: Duration,
    /// Bytes of memory that activities may require.
    pub memory: u64,
    pub gpus: Gpus,
    pub processes: Arc<ProgramTable>,
    pub workdirs: Arc<WorkDirs>,
    pub logs: Arc<LogStore>,
    pub interpreters: Interpreters,
    pub engine: Option<ContainerEngine>,
    pub cgroups: Option<Arc<Cgroups>>,
    /// Environment variables of every program.
    pub variables: Vec<(OsString, OsString)>,
    /// Folders in which programs are searched.
    path: OsString,
    /// Removed at the end.
    temporary: Option<PathBuf>,
    watchdog: Mutex<Option<Watchdog>>,
}

impl ProgramHost {
    /// Prepares to run programs. Must be called on a runtime. Kills the programs that a former process left in the same folder.
    pub fn open(node: &str, options: ProgramOptions) -> io::Result<Self> {
        let (folder, temporary) = match options.folder {
            Some(folder) => (folder, None),
            None => {
                let made = private_folder(&std::env::temp_dir())?;
                (made.path().to_owned(), Some(made))
            }
        };
        let command = std::env::current_exe().ok();
        let path = path_with(default_path(), command.as_deref());
        let workdirs = WorkDirs::open(&folder, options.keep_failed)?;
        let logs = LogStore::open(&folder.join("logs"), options.logs)?;
        let engine = ContainerEngine::find(&path, options.containers.as_deref(), workdirs.root());
        let processes = ProgramTable::new(options.adopts);
        tokio::spawn(program_table::observe(Arc::downgrade(&processes)));
        let start = || Watchdog::start(&processes, workdirs.root(), temporary.as_ref().map(TempDir::path));
        let watchdog = options.adopts.then(start).flatten();
        let mut variables = vec![
            (OsString::from("PATH"), path.clone()),
            ("LANG".into(), std::env::var_os("LANG").unwrap_or_else(|| "C.UTF-8".into())),
            ("XAVANTES_NODE".into(), node.into()),
        ];
        // Programs make calls of shared objects with this command.
        variables.extend(command.map(|command| (COMMAND_VARIABLE.into(), command.into())));
        let inherited = options.environment.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        variables.extend(inherited);
        Ok(Self {
            node: node.to_owned(),
            grace: options.grace,
            memory: options.memory.unwrap_or_else(available_memory),
            gpus: Gpus::new(options.gpus),
            interpreters: Interpreters::find(&path, &options.interpreters),
            cgroups: options.cgroups,
            watchdog: Mutex::new(watchdog),
            processes,
            workdirs,
            logs,
            engine,
            variables,
            path,
            temporary: temporary.map(TempDir::keep),
        })
    }

    /// What an activity requires that this worker never has.
    pub fn lacks(&self, activity: &ActivityType) -> Option<requirement::Kind> {
        match &activity.code {
            ActivityCode::Lua { .. } => None,
            _ if activity.launch.image.is_some() => {
                self.engine.is_none().then_some(requirement::Kind::Containers(Nothing {}))
            }
            ActivityCode::Interpreter { language, .. } if self.interpreters.command(language).is_none() => {
                Some(requirement::Kind::Interpreter(language.to_string()))
            }
            _ => None,
        }
    }

    /// The path of a program.
    pub fn search(&self, program: &str) -> Option<PathBuf> {
        search(&self.path, program)
    }

    /// Removes working directories and the temporary folder, and ends the watchdog.
    pub fn close(&self) {
        self.workdirs.close();
        if let Some(watchdog) = self.watchdog.lock().take() {
            watchdog.dismiss();
        }
        if let Some(folder) = &self.temporary {
            self.logs.remove();
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn folders_of_nodes_without_a_data_directory_are_private_and_new() {
        let within = tempfile::tempdir().expect("the disk has space");
        let make = || private_folder(within.path()).expect("the disk has space");
        let (one, two) = (make(), make());
        assert_ne!(one.path(), two.path());
        let mode = one.path().symlink_metadata().expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o700);
    }
}
