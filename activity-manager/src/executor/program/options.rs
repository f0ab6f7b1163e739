//! Settings for external programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::cgroups::Cgroups;
use crate::logs::log_store::LogLimits;

/// Settings for external programs.
#[derive(Debug, Clone)]
pub struct ProgramOptions {
    /// Folder of the attempts' directories and logs. Without it, a temporary folder.
    pub folder: Option<PathBuf>,
    /// Commands of interpreters by language, besides those that the worker finds. An empty command withdraws a language.
    pub interpreters: BTreeMap<String, Vec<String>>,
    /// Variables of this process's environment that programs inherit.
    pub environment: Vec<String>,
    /// Time between the request to end and the kill.
    pub grace: Duration,
    /// Number of directories of failed attempts that stay for inspection.
    pub keep_failed: usize,
    /// Bytes of memory that activities may require. Without it, all memory that this program may use.
    pub memory: Option<u64>,
    /// Graphics processors that activities may require.
    pub gpus: u32,
    /// Limits of the log store.
    pub logs: LogLimits,
    /// `docker`, `podman` or `none`. Without it, the first engine that works.
    pub containers: Option<String>,
    /// Control groups for programs that require limits.
    pub cgroups: Option<Arc<Cgroups>>,
    /// This process adopts the orphans of programs, so that it can find and end them. It must then start children through
    /// the process table only.
    pub adopts: bool,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self {
            folder: None,
            interpreters: BTreeMap::new(),
            environment: Vec::new(),
            grace: Duration::from_secs(5),
            keep_failed: 0,
            memory: None,
            gpus: 0,
            logs: LogLimits::default(),
            containers: None,
            cgroups: None,
            adopts: false,
        }
    }
}
