//! The services of a node behind one address, from start to orderly end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::info;
use xavantes_proto::v1;
use xavantes_proto::v1::activity_manager_server::ActivityManagerServer;
use xavantes_proto::v1::group_manager_server::GroupManagerServer;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinatorServer;

use crate::config::{Config, Role};
use crate::membership;

/// A node did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has nothing to do.
    #[error("a node needs at least one role: group-manager, process-coordinator or activity-manager")]
    NoRole,
    /// It belongs to no group.
    #[error("a node that is no group manager needs the address of one: --join HOST:PORT")]
    NoManager,
    /// A manager that the others do not know.
    #[error("{address} is not among the managers of the group ({managers}): say --advertise, or correct --join")]
    NotAmongManagers {
        /// Where it is reached.
        address: String,
        /// The managers.
        managers: String,
    },
    /// Its address is taken or not its own.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
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
}

impl Node {
    /// Starts a node; it serves when this returns. `printed` takes what activities of its processes print.
    pub async fn start(config: Config, printed: Option<xavantes_process_coordinator::Printed>) -> Result<Self, Error> {
        if config.roles.is_empty() {
            return Err(Error::NoRole);
        }
        let is = |role| config.roles.contains(&role);
        if config.join.is_empty() && !is(Role::GroupManager) {
            return Err(Error::NoManager);
        }
        let listen = |cause| Error::Listen { address: config.listen, cause };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let reachable = config.advertise.clone().unwrap_or_else(|| address.to_string());

        let managers = if config.join.is_empty() { vec![reachable.clone()] } else { config.join.clone() };
        if is(Role::GroupManager) && !managers.contains(&reachable) {
            return Err(Error::NotAmongManagers { address: reachable, managers: managers.join(", ") });
        }
        let foreign_slots = config.foreign_slots.unwrap_or(u32::MAX);
        let manager = is(Role::GroupManager).then(|| {
            xavantes_group_manager::Service::new(xavantes_group_manager::Options {
                group: config.group.clone(),
                before: managers.iter().take_while(|manager| **manager != reachable).cloned().collect(),
                address: reachable.clone(),
                adjacent: config.adjacent.clone(),
                sources: config.sources.clone(),
                foreign_groups: config.foreign_groups.clone(),
                foreign_slots,
            })
        });
        let coordinator = is(Role::ProcessCoordinator).then(|| {
            xavantes_process_coordinator::Service::new(xavantes_process_coordinator::Options {
                node: config.name.clone(),
                group: config.group.clone(),
                managers: managers.clone(),
                foreign_groups: config.foreign_groups.clone(),
                foreign_slots,
                printed,
            })
        });
        let worker = is(Role::ActivityManager).then(|| {
            xavantes_activity_manager::Service::new(xavantes_activity_manager::Options {
                node: config.name.clone(),
                slots: config.slots.max(1),
                queue: config.queue,
                tags: config.tags.iter().cloned().collect(),
            })
        });

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
            .add_service(health_service)
            .add_service(reflection)
            .add_optional_service(manager.map(GroupManagerServer::new))
            .add_optional_service(coordinator.clone().map(|service| {
                ProcessCoordinatorServer::new(service).max_decoding_message_size(most).max_encoding_message_size(most)
            }))
            .add_optional_service(worker.clone().map(|service| {
                ActivityManagerServer::new(service).max_decoding_message_size(most).max_encoding_message_size(most)
            }));
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = tokio::spawn(async move {
            router.serve_with_incoming_shutdown(incoming, async move { stopped.notified().await }).await
        });

        let (draining, drain_wanted) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let description = describe(&config, reachable);
        let beat = {
            let (coordinator, worker, draining) = (coordinator.clone(), worker.clone(), draining.clone());
            move || v1::Heartbeat {
                node: Some(description.clone()),
                busy: worker.as_ref().map_or(0, |worker| worker.busy()),
                processes: coordinator.as_ref().map_or(0, |coordinator| coordinator.running()),
                draining: draining.load(Ordering::Relaxed),
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
        Ok(Self { address, worker, stop, server, membership, patience, draining, drain_wanted })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when an administrator wants the node to drain.
    pub async fn drain_wanted(&self) {
        self.drain_wanted.notified().await;
    }

    /// Takes no new work, lets running activities end or hands them back, then stops serving.
    pub async fn shut_down(self) {
        self.draining.store(true, Ordering::Relaxed);
        if let Some(worker) = &self.worker {
            worker.drain(self.patience).await;
        }
        self.membership.abort();
        self.stop.notify_one();
        // Streams of others may stay open; they are told by the end of the connection.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.server).await;
    }
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
    }
}
