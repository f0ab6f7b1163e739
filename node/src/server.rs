//! The services of a node behind one address, from start to orderly end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::info;
use xavantes_activity_manager::ProgramOptions;
use xavantes_files::Sources;
use xavantes_proto::v1;
use xavantes_proto::v1::activity_manager_server::ActivityManagerServer;
use xavantes_proto::v1::files_server::FilesServer;
use xavantes_proto::v1::group_manager_server::GroupManagerServer;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinatorServer;

use crate::config::{Cgroups, Config, Role, Unusable};
use crate::membership;
use crate::store::{Files, Folder, Stores};

/// Ended processes that are only in memory take at most so many bytes.
const MOST_IN_MEMORY: u64 = 256 << 20;
/// And so do results that could be used again.
const MOST_REUSE_IN_MEMORY: u64 = 32 << 20;
/// What may be on its way to this node in a stream, and in all streams of a connection: enough for files over long lines.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A node did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] Unusable),
    /// A manager that the others do not know.
    #[error("{address} is not among the managers of the group ({managers}): say --advertise, or correct --join")]
    NotAmongManagers {
        /// Where it is reached.
        address: String,
        /// The managers.
        managers: String,
    },
    /// Its address is taken.
    #[error("cannot listen on {0}: the address is in use; is another node running there? choose another with --listen")]
    AddressInUse(SocketAddr),
    /// Its address is not its own.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// What it keeps cannot be opened.
    #[error(transparent)]
    Repository(#[from] xavantes_repository::Error),
    /// There is no place for the data directory.
    #[error("there is no home directory to keep data in: say where with --data-dir, or keep nothing with --in-memory")]
    NoFolder,
    /// The data directory cannot be used.
    #[error("cannot keep data in {}: {cause}; choose another place with --data-dir", path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Another node has the data directory.
    #[error(
        "the data directory {} is in use by a node that runs: stop that one first, or choose another with --data-dir",
        .0.display()
    )]
    InUse(PathBuf),
    /// There are no control groups for it.
    #[error(
        "control groups are required, but cannot be used: {0}; see \"Limits\" in docs/nodes.md, or say --cgroups auto"
    )]
    Cgroups(String),
    /// It cannot describe itself.
    #[error("cannot offer reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A node that runs.
pub struct Node {
    address: SocketAddr,
    worker: Option<xavantes_activity_manager::Service>,
    stop: Arc<Notify>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
    membership: JoinHandle<()>,
    patience: Duration,
    draining: Arc<AtomicBool>,
    drain_wanted: Arc<Notify>,
    stores: Stores,
    /// Held until the stores are closed.
    folder: Option<Folder>,
    files: Option<Files>,
}

impl Node {
    /// Starts a node; it serves when this returns. `printed` takes what activities of its processes print.
    pub async fn start(config: Config, printed: Option<xavantes_process_coordinator::Printed>) -> Result<Self, Error> {
        config.check()?;
        let is = |role| config.roles.contains(&role);
        let listen = |cause: std::io::Error| match cause.kind() {
            std::io::ErrorKind::AddrInUse => Error::AddressInUse(config.listen),
            _ => Error::Listen { address: config.listen, cause },
        };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let reachable = config.advertise.clone().unwrap_or_else(|| address.to_string());

        let managers = if config.join.is_empty() { vec![reachable.clone()] } else { config.join.clone() };
        if is(Role::GroupManager) && !managers.contains(&reachable) {
            return Err(Error::NotAmongManagers { address: reachable, managers: managers.join(", ") });
        }
        let foreign_slots = config.foreign_slots.unwrap_or(u32::MAX);
        let folder = Folder::of(&config)?;
        let stores = Stores::open(&config, folder.as_ref()).await?;
        let keeps_files = is(Role::ProcessCoordinator) || is(Role::ActivityManager);
        let files = if keeps_files { Some(Files::open(&config, folder.as_ref(), &reachable)?) } else { None };
        let manager = if let Some(store) = stores.manager.clone() {
            let options = xavantes_group_manager::Options {
                group: config.group.clone(),
                address: reachable.clone(),
                managers: managers.clone(),
                adjacent: config.adjacent.clone(),
                sources: config.sources.clone(),
                foreign_groups: config.foreign_groups.clone(),
                foreign_slots,
            };
            Some(xavantes_group_manager::Service::open(options, store).await?)
        } else {
            None
        };
        let kept = folder.is_some() || config.repository.is_some();
        let coordinator = if let Some(store) = stores.coordinator.clone() {
            let options = xavantes_process_coordinator::Options {
                node: config.name.clone(),
                address: reachable.clone(),
                retention_age: Some(DAY.saturating_mul(config.retention_days)),
                // Memory is scarcer than disk.
                retention_size: Some(config.retention_mib.saturating_mul(1 << 20).min(if kept {
                    u64::MAX
                } else {
                    MOST_IN_MEMORY
                })),
                reuse_size: config.reuse_mib.saturating_mul(1 << 20).min(if kept {
                    u64::MAX
                } else {
                    MOST_REUSE_IN_MEMORY
                }),
                shared: config.repository.is_some(),
                group: config.group.clone(),
                managers: managers.clone(),
                foreign_groups: config.foreign_groups.clone(),
                foreign_slots,
                files: files.as_ref().map(|files| files.fetcher.clone()),
                printed,
            };
            Some(xavantes_process_coordinator::Service::open(options, store).await?)
        } else {
            None
        };
        let worker = if let Some(files) = files.as_ref().filter(|_| is(Role::ActivityManager)) {
            let unusable = |cause| Error::Folder {
                path: folder.as_ref().map_or_else(std::env::temp_dir, |folder| folder.path().to_owned()),
                cause,
            };
            let options = xavantes_activity_manager::Options {
                folder: folder.as_ref().map(Folder::answers),
                node: config.name.clone(),
                slots: config.slots,
                queue: config.queue,
                tags: config.tags.iter().cloned().collect(),
                files: files.fetcher.clone(),
                sources: Sources::new(files.fetcher.store().clone(), managers.clone()),
                address: reachable.clone(),
                programs: programs(&config, folder.as_ref())?,
            };
            Some(xavantes_activity_manager::Service::open(options).map_err(unusable)?)
        } else {
            None
        };

        let (health, health_service) = tonic_health::server::health_reporter();
        if manager.is_some() {
            health.set_serving::<GroupManagerServer<xavantes_group_manager::Service>>().await;
        }
        if coordinator.is_some() {
            health.set_serving::<ProcessCoordinatorServer<xavantes_process_coordinator::Service>>().await;
        }
        if worker.is_some() {
            health.set_serving::<ActivityManagerServer<xavantes_activity_manager::Service>>().await;
        }
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(xavantes_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let most = xavantes_proto::MAX_MESSAGE;
        let router = Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(5)))
            .http2_keepalive_timeout(Some(Duration::from_secs(5)))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .add_service(health_service)
            .add_service(reflection)
            .add_optional_service(manager.map(GroupManagerServer::new))
            .add_optional_service(coordinator.clone().map(|service| {
                ProcessCoordinatorServer::new(service).max_decoding_message_size(most).max_encoding_message_size(most)
            }))
            .add_optional_service(worker.clone().map(|service| {
                ActivityManagerServer::new(service).max_decoding_message_size(most).max_encoding_message_size(most)
            }));
        let offered = files
            .as_ref()
            .map(|files| FilesServer::new(xavantes_files::Service::new(files.fetcher.clone(), reachable.as_str())));
        let router = router.add_optional_service(offered);
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = tokio::spawn(async move {
            router.serve_with_incoming_shutdown(incoming, async move { stopped.notified().await }).await
        });

        let (draining, drain_wanted) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let description = describe(&config, reachable);
        let description = match &worker {
            Some(worker) => worker.describe(description),
            None => description,
        };
        let beat = {
            let (coordinator, worker, draining) = (coordinator.clone(), worker.clone(), draining.clone());
            let group = config.group.clone();
            let life = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
            move || v1::Heartbeat {
                life,
                node: Some(description.clone()),
                group: group.clone(),
                busy: worker.as_ref().map_or(0, |worker| worker.busy()),
                processes: coordinator.as_ref().map_or(0, |coordinator| coordinator.running()),
                draining: draining.load(Ordering::Relaxed),
                waiting: worker.as_ref().map_or(0, |worker| worker.waiting()),
            }
        };
        let wanted = drain_wanted.clone();
        let roster = move |roster: v1::Roster| {
            if roster.drain {
                wanted.notify_one();
            }
            if let Some(coordinator) = &coordinator {
                coordinator.set_roster(roster);
            }
        };
        let membership = tokio::spawn(membership::run(managers, beat, roster));
        info!(node = config.name, group = config.group, %address, "node started");
        let patience = Duration::from_secs(config.drain_seconds);
        Ok(Self { address, worker, stop, server, membership, patience, draining, drain_wanted, stores, folder, files })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when an administrator wants the node to drain.
    pub async fn drain_wanted(&self) {
        self.drain_wanted.notified().await;
    }

    /// What ends everything at once that the node has started, while it shuts down or instead of that.
    pub fn emergency(&self) -> impl FnOnce() + use<> {
        let worker = self.worker.clone();
        move || worker.iter().for_each(|worker| worker.kill())
    }

    /// Takes no new work, lets running activities end or hands them back, then stops serving.
    pub async fn shut_down(mut self) {
        self.draining.store(true, Ordering::Relaxed);
        if let Some(worker) = &self.worker {
            worker.drain(self.patience).await;
        }
        self.membership.abort();
        self.stop.notify_one();
        // Streams of others may stay open; they are told by the end of the connection.
        let _ = tokio::time::timeout(Duration::from_secs(1), &mut self.server).await;
        self.close().await;
    }

    /// Stops at once, whatever runs, and closes what it keeps.
    pub async fn close(self) {
        self.membership.abort();
        self.server.abort();
        if let Some(worker) = &self.worker {
            worker.close();
        }
        self.stores.shut_down().await;
        drop(self.files);
        drop(self.folder);
    }
}

/// How the node runs programs. It has no other children.
fn programs(config: &Config, folder: Option<&Folder>) -> Result<ProgramOptions, Error> {
    let cgroups = match config.cgroups {
        Cgroups::Off => None,
        Cgroups::Required => Some(xavantes_activity_manager::Cgroups::acquire().map_err(Error::Cgroups)?),
        Cgroups::Auto => {
            let none = |why: &String| info!(why, "without control groups it is looked what programs use");
            xavantes_activity_manager::Cgroups::acquire().inspect_err(none).ok()
        }
    };
    Ok(ProgramOptions {
        folder: folder.map(|folder| folder.path().to_owned()),
        interpreters: config.interpreters.clone(),
        environment: config.pass_environment.clone(),
        grace: Duration::from_secs(config.grace_seconds),
        keep_failed: config.keep_failed,
        memory: config.memory_mib.map(|mib| mib.saturating_mul(1 << 20)),
        gpus: config.gpus,
        logs: xavantes_activity_manager::LogLimits {
            limit: config.log_mib.saturating_mul(1 << 20),
            total: config.logs_mib.saturating_mul(1 << 20),
            age: DAY.saturating_mul(config.logs_days),
        },
        containers: config.containers.clone(),
        cgroups,
        adopts: true,
    })
}

fn describe(config: &Config, address: String) -> v1::NodeDescription {
    let role = |role: &Role| match role {
        Role::GroupManager => v1::Role::GroupManager as i32,
        Role::ProcessCoordinator => v1::Role::ProcessCoordinator as i32,
        Role::ActivityManager => v1::Role::ActivityManager as i32,
    };
    v1::NodeDescription {
        name: config.name.clone(),
        address,
        roles: config.roles.iter().map(role).collect(),
        slots: config.slots,
        tags: config.tags.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..v1::NodeDescription::default()
    }
}
