//! The coordinator: everything that its tasks share, its opening, and its background tasks. Its methods are in the files
//! about their subjects.

use std::hash::RandomState;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tracing::warn;
use xavantes_proto::v1;
use xavantes_repository::{Error, Store};

use crate::cache::cache_store::ResultCache;
use crate::data::pinning::Pinning;
use crate::definitions::Programs;
use crate::options::Options;
use crate::process::memory_budget::Memory;
use crate::process::process_registry::ProcessRegistry;
use crate::process::recovery_marks::RecoveryMarks;
use crate::subtrees::move_notice::STILL_WANTED_INTERVAL;
use crate::subtrees::parent_streams::Parents;
use crate::workers::dispatcher::Dispatcher;
use crate::workers::handle::PoolHandle;
use crate::workers::worker_link::Context;
use crate::workers::worker_messages::Share;

/// Processes of coordinators that died are claimed at this interval.
const TAKE_OVER_INTERVAL: Duration = Duration::from_secs(2);
/// Expired processes are removed at this interval.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Number of reports about running attempts that a worker sends while this coordinator waits for one of them.
const REPORTS_WITHIN_PATIENCE: u32 = 4;
/// Longest interval between these reports.
const MAX_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Plans of reruns that are made at once: each may take a processor for some seconds.
const MAX_PLANS: usize = 2;

/// Everything that the tasks of a coordinator share.
pub(crate) struct Coordinator {
    pub options: Options,
    pub repository: Store,
    pub programs: Programs,
    pub cache: Arc<ResultCache>,
    pub pinning: Arc<Pinning>,
    pub processes: ProcessRegistry,
    /// Memory of all processes that run here.
    pub memory: Arc<Memory>,
    /// Marks of processes that were recovered and have made no progress since.
    pub marks: Arc<RecoveryMarks>,
    pub parents: Arc<Parents>,
    pub pool: PoolHandle,
    /// What each process may have outstanding.
    pub share: watch::Receiver<Share>,
    /// Source of process ids.
    pub random: RandomState,
    /// Number of submissions, for process ids.
    pub submissions: AtomicU64,
    /// Permits for plans of reruns.
    pub plans: Semaphore,
}

impl Coordinator {
    /// Opens a coordinator, recovers the processes of its repository, and spawns its background tasks.
    pub async fn open(options: Options, repository: Store) -> Result<Arc<Self>, Error> {
        let (pool, mail) = PoolHandle::new();
        let processes = ProcessRegistry::default();
        let context = Context {
            hello: v1::CoordinatorHello {
                node: options.node.clone(),
                group: options.group.clone(),
                version: env!("CARGO_PKG_VERSION").into(),
                realm: repository.realm().to_owned(),
                address: options.address.clone(),
                report_running_ms: report_interval(options.worker_patience).as_millis() as u32,
            },
            patience: options.worker_patience,
            processes: processes.clone(),
            pool: pool.clone(),
            repository: repository.clone(),
            managers: options.managers.clone().into(),
            files: options.files.clone(),
        };
        let pinning = Arc::new(Pinning {
            pool: pool.clone(),
            files: options.files.clone(),
            address: options.address.clone(),
            realm: repository.realm().to_owned(),
        });
        let (stored_lease, stored_leases) = mpsc::unbounded_channel();
        let (dispatcher, share) = Dispatcher::new(context, stored_lease);
        let coordinator = Arc::new(Self {
            programs: Programs::open(repository.clone()).await?,
            cache: Arc::new(ResultCache::open(repository.clone(), pinning.clone(), &options).await?),
            pinning,
            memory: Arc::new(Memory::new(options.processes_bytes)),
            options,
            processes,
            marks: Arc::new(RecoveryMarks::new(repository.clone())),
            parents: Arc::default(),
            pool,
            share,
            random: RandomState::new(),
            submissions: AtomicU64::new(0),
            plans: Semaphore::new(MAX_PLANS),
            repository,
        });
        coordinator.restore_leases().await?;
        coordinator.announce_address().await?;
        coordinator.take_over().await?;
        coordinator.leave_foreign().await?;
        tokio::spawn(dispatcher.run(mail));
        tokio::spawn(take_over_regularly(Arc::downgrade(&coordinator), stored_leases));
        tokio::spawn(end_moved_regularly(Arc::downgrade(&coordinator)));
        tokio::spawn(sweep_regularly(Arc::downgrade(&coordinator)));
        Ok(coordinator)
    }
}

/// How often workers report what they run: often enough that a lost report does not matter.
fn report_interval(patience: Duration) -> Duration {
    (patience / REPORTS_WITHIN_PATIENCE).min(MAX_REPORT_INTERVAL)
}

/// Follows what other coordinators do in the repository, until the coordinator is dropped. A borrowed worker whose name is
/// stored gets attempts after that: a coordinator that took over processes before the name was stored does not ask the
/// worker for their attempts, so this one must know that it has lost them.
async fn take_over_regularly(coordinator: Weak<Coordinator>, mut stored_leases: mpsc::UnboundedReceiver<Arc<str>>) {
    let mut stored = Vec::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(TAKE_OVER_INTERVAL) => {}
            Some(worker) = stored_leases.recv(), if stored.is_empty() => stored.push(worker),
        }
        stored.extend(std::iter::from_fn(|| stored_leases.try_recv().ok()));
        let Some(coordinator) = coordinator.upgrade() else { return };
        match coordinator.take_over().await {
            Ok(()) => stored.drain(..).for_each(|worker| coordinator.pool.lease_stored(worker)),
            Err(error) => warn!(%error, "could not claim processes of other coordinators"),
        }
        if let Err(error) = coordinator.read_move_notices().await {
            warn!(%error, "could not read notices of moved subtrees");
        }
        if let Err(error) = coordinator.end_foreign().await {
            warn!(%error, "could not check processes of other coordinators");
        }
    }
}

/// Ends subtrees that moved, until the coordinator is dropped.
async fn end_moved_regularly(coordinator: Weak<Coordinator>) {
    loop {
        tokio::time::sleep(STILL_WANTED_INTERVAL).await;
        let Some(coordinator) = coordinator.upgrade() else { return };
        if let Err(error) = coordinator.end_moved_subtrees().await {
            warn!(%error, "could not check subtrees of other coordinators");
        }
    }
}

/// Removes expired processes, until the coordinator is dropped.
async fn sweep_regularly(coordinator: Weak<Coordinator>) {
    let mut clock = None;
    loop {
        {
            let Some(coordinator) = coordinator.upgrade() else { return };
            if let Err(error) = coordinator.sweep(&mut clock).await {
                warn!(%error, "retention sweep failed");
            }
        }
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}
