//! What all programs of a worker share: where they run, what there is to run them, and what they write.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xavantes_model::definition::{ActivityCode, ActivityType};
use xavantes_proto::v1::{Nothing, requirement};

use super::cgroups::Cgroups;
use super::container::Engine;
use super::folder::Folders;
use super::guard::Guard;
use super::interpreters::{Interpreters, default_path, search};
use super::register::{self, Register};
use super::system;
use crate::logs::{Rules, Shelf};

/// How programs are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where attempts have their directories and what they write is kept; without it in a temporary folder.
    pub folder: Option<PathBuf>,
    /// Commands of interpreters by language, besides those that are found; an empty one is not offered.
    pub interpreters: BTreeMap<String, Vec<String>>,
    /// Variables of this program's own environment that programs get.
    pub environment: Vec<String>,
    /// How long a program may take to end after it was asked to.
    pub grace: Duration,
    /// So many directories of attempts that failed are kept.
    pub keep_failed: usize,
    /// Bytes of memory that activities may ask for; without it, all that this machine has.
    pub memory: Option<u64>,
    /// Graphics processors that activities may ask for.
    pub gpus: u32,
    /// How much of what programs write is kept.
    pub logs: Rules,
    /// `docker`, `podman`, `none`, or whichever is there.
    pub containers: Option<String>,
    /// Control groups for programs that ask for limits.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Orphans of programs become children of this program, so that they can be found. It must then have no children but
    /// those that are started here.
    pub adopts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: None,
            interpreters: BTreeMap::new(),
            environment: Vec::new(),
            grace: Duration::from_secs(5),
            keep_failed: 0,
            memory: None,
            gpus: 0,
            logs: Rules::default(),
            containers: None,
            cgroups: None,
            adopts: false,
        }
    }
}

/// The workshop of a worker.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub node: String,
    pub grace: Duration,
    pub memory: u64,
    pub gpus: Gpus,
    pub register: Arc<Register>,
    pub folders: Arc<Folders>,
    pub shelf: Arc<Shelf>,
    pub interpreters: Interpreters,
    pub engine: Option<Engine>,
    pub cgroups: Option<Arc<Cgroups>>,
    /// What every program finds in its environment.
    pub environment: Vec<(OsString, OsString)>,
    path: OsString,
    /// Is removed at the end.
    temporary: Option<PathBuf>,
    guard: Mutex<Option<Guard>>,
}

impl Workshop {
    /// Must be called on a runtime. What a former life has left running in the same folder is ended.
    pub fn open(node: &str, options: Options) -> io::Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (folder, temporary) = match options.folder {
            Some(folder) => (folder, None),
            None => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("xavantes-{}-{number}", std::process::id());
                let folder = std::env::temp_dir().join(name);
                (folder.clone(), Some(folder))
            }
        };
        let path = default_path();
        let folders = Folders::open(&folder, options.keep_failed)?;
        let shelf = Shelf::open(&folder.join("logs"), options.logs)?;
        let engine = Engine::find(&path, options.containers.as_deref(), folders.root());
        let register = Register::new(options.adopts);
        tokio::spawn(register::watch(Arc::downgrade(&register)));
        let adopts = options.adopts;
        let guard = adopts.then(|| Guard::start(&register, folders.root(), temporary.as_deref())).flatten();
        let mut environment = vec![
            (OsString::from("PATH"), path.clone()),
            ("LANG".into(), std::env::var_os("LANG").unwrap_or_else(|| "C.UTF-8".into())),
            ("XAVANTES_NODE".into(), node.into()),
        ];
        let passed = options.environment.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        environment.extend(passed);
        Ok(Arc::new(Self {
            node: node.to_owned(),
            grace: options.grace,
            memory: options.memory.unwrap_or_else(system::memory),
            gpus: Gpus::new(options.gpus),
            register,
            folders,
            shelf,
            interpreters: Interpreters::find(&path, &options.interpreters),
            engine,
            cgroups: options.cgroups,
            environment,
            path,
            temporary,
            guard: Mutex::new(guard),
        }))
    }

    /// Why an activity of that type cannot run here, whatever else runs.
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

    /// Where a program is; nothing if there is none of that name.
    pub fn search(&self, program: &str) -> Option<PathBuf> {
        search(&self.path, program)
    }

    /// Removes what must not outlive it.
    pub fn close(&self) {
        self.folders.close();
        if let Some(guard) = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take() {
            guard.dismiss();
        }
        if let Some(folder) = &self.temporary {
            self.shelf.close();
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Graphics processors by number.
#[derive(Debug)]
pub(crate) struct Gpus {
    pub count: u32,
    free: Mutex<BTreeSet<u32>>,
}

impl Gpus {
    fn new(count: u32) -> Self {
        Self { count, free: Mutex::new((0..count).collect()) }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, BTreeSet<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many; admission has seen to it that they are there.
    pub fn take(&self, count: u32) -> Taken<'_> {
        let mut free = self.free();
        let numbers = (0..count).map_while(|_| free.pop_first()).collect();
        Taken { gpus: self, numbers }
    }
}

/// Graphics processors that an attempt has.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    gpus: &'a Gpus,
    pub numbers: Vec<u32>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.gpus.free().extend(self.numbers.drain(..));
    }
}
