//! A node from its start to its orderly end.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;
use xavantes_process_coordinator::Printed;
use xavantes_proto::v1;

use crate::connections::open_file_limit::connection_limit;
use crate::error::Error;
use crate::foundation::Foundation;
use crate::introduction::Introduction;
use crate::listener::Listener;
use crate::membership;
use crate::roles::{activity_manager, group_manager, process_coordinator};
use crate::services::Services;
use crate::settings::{Role, Settings};
use crate::waiting;
use crate::web::{self, Measured};

/// Time that streams of other nodes get to close when the server stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time in which the last heartbeat, which says that the node leaves, reaches the group manager.
const FAREWELL_TIME: Duration = Duration::from_millis(100);

/// A node that runs.
pub struct Node {
    address: SocketAddr,
    worker: Option<xavantes_activity_manager::Service>,
    coordinator: Option<xavantes_process_coordinator::Service>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
    drain_timeout: Duration,
    /// An administrator wants the node to drain.
    drain_requested: CancellationToken,
    /// The node accepts no new work.
    draining: CancellationToken,
    /// The server and the membership end.
    stop: CancellationToken,
    foundation: Foundation,
}

impl Node {
    /// Starts a node; it serves when this returns. `printed` receives what activities of its processes print.
    pub async fn start(settings: Settings, printed: Option<Printed>) -> Result<Self, Error> {
        settings.check()?;
        let listener = Listener::bind(settings.listen).await?;
        let opened = Opened::new(&settings, &listener, printed).await?;
        Self::serve(opened, &listener).await
    }

    /// Starts a node. While its disk is full or its database does not answer, waits, and tells clients why.
    pub async fn start_patiently(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let listener = Listener::bind(settings.listen).await?;
        let opened =
            waiting::until_open(&settings.roles, &listener, || Opened::new(&settings, &listener, None)).await?;
        Self::serve(opened, &listener).await
    }

    async fn serve(opened: Opened, listener: &Listener) -> Result<Self, Error> {
        let Opened { foundation, manager, coordinator } = opened;
        let (address, listener) = (listener.address(), listener.share()?);
        let worker = activity_manager::open(&foundation)?;
        let files = foundation
            .files
            .as_ref()
            .map(|files| xavantes_files::Service::new(files.fetcher.clone(), foundation.address.as_str()));
        let stop = CancellationToken::new();
        let introduction = Introduction::new(
            describe(&foundation.settings, foundation.address.clone()),
            &foundation.settings.group,
            &foundation.managers,
        );
        let services =
            Services { introduction, manager, coordinator: coordinator.clone(), worker: worker.clone(), files };
        let connections = connection_limit(foundation.settings.max_connections);
        if let Some(web) = foundation.settings.web {
            let files = foundation.files.as_ref().map(|files| files.fetcher.store().clone());
            web::serve(web, Measured::new(services.clone(), files), stop.clone()).await?;
        }
        let server = services.serve(listener, connections, stop.clone()).await?;

        let (draining, drain_requested) = (CancellationToken::new(), CancellationToken::new());
        let heartbeat = heartbeats(&foundation, coordinator.clone(), worker.clone(), draining.clone());
        let (request, informed) = (drain_requested.clone(), coordinator.clone());
        let on_roster = move |roster: v1::Roster| {
            if roster.drain {
                request.cancel();
            }
            if let Some(coordinator) = &informed {
                coordinator.set_roster(roster);
            }
        };
        let (managers, stopped, leaves) = (foundation.managers.clone(), stop.clone(), draining.clone());
        tokio::spawn(async move {
            stopped.run_until_cancelled(membership::run(managers, heartbeat, leaves, on_roster)).await;
        });
        let settings = &foundation.settings;
        info!(node = settings.name, group = settings.group, %address, "node started");
        let drain_timeout = Duration::from_secs(settings.drain_seconds);
        Ok(Self { address, worker, coordinator, server, drain_timeout, drain_requested, draining, stop, foundation })
    }

    /// The address that the node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when an administrator wants the node to drain.
    pub async fn drain_requested(&self) {
        self.drain_requested.cancelled().await;
    }

    /// A function that ends at once everything that the node has started, while it shuts down or instead of that.
    pub fn emergency_stop(&self) -> impl FnOnce() + use<> {
        let worker = self.worker.clone();
        move || worker.iter().for_each(|worker| worker.kill())
    }

    /// Accepts no new work, lets running activities end or hands them back, then stops serving. Running activities may take as
    /// long as they want until `hurry` ends, and then for the time that the settings give them.
    pub async fn shut_down(mut self, hurry: impl Future<Output = ()>) {
        self.draining.cancel();
        if let Some(worker) = &self.worker {
            worker.drain(self.drain_timeout, hurry).await;
        }
        tokio::time::sleep(FAREWELL_TIME).await;
        self.stop.cancel();
        // Streams of other nodes may stay open; those nodes notice the end of the connection.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut self.server).await;
        self.close().await;
    }

    /// Stops at once, whatever runs, and closes everything that the node keeps.
    pub async fn close(self) {
        self.stop.cancel();
        self.server.abort();
        if let Some(worker) = &self.worker {
            worker.close();
        }
        if let Some(coordinator) = &self.coordinator {
            coordinator.close().await;
        }
        self.foundation.repositories.shut_down().await;
    }
}

/// What a node has opened before it serves.
struct Opened {
    foundation: Foundation,
    manager: Option<xavantes_group_manager::Service>,
    coordinator: Option<xavantes_process_coordinator::Service>,
}

impl Opened {
    async fn new(settings: &Settings, listener: &Listener, printed: Option<Printed>) -> Result<Self, Error> {
        let advertised = settings.advertise.clone().unwrap_or_else(|| listener.address().to_string());
        let foundation = Foundation::open(settings.clone(), advertised).await?;
        let services = async {
            let manager = group_manager::open(&foundation).await?;
            let coordinator = process_coordinator::open(&foundation, printed).await?;
            Ok((manager, coordinator))
        };
        match services.await {
            Ok((manager, coordinator)) => Ok(Self { foundation, manager, coordinator }),
            Err(error) => {
                // The next attempt opens them again.
                foundation.repositories.shut_down().await;
                Err(error)
            }
        }
    }
}

/// What the node reports to its group manager, again and again.
fn heartbeats(
    foundation: &Foundation,
    coordinator: Option<xavantes_process_coordinator::Service>,
    worker: Option<xavantes_activity_manager::Service>,
    draining: CancellationToken,
) -> impl Fn() -> v1::Heartbeat + Clone + Send + 'static {
    let description = describe(&foundation.settings, foundation.address.clone());
    let description = match &worker {
        Some(worker) => worker.describe(description),
        None => description,
    };
    let group = foundation.settings.group.clone();
    let life = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    move || v1::Heartbeat {
        life,
        node: Some(description.clone()),
        group: group.clone(),
        busy: worker.as_ref().map_or(0, |worker| worker.busy()),
        processes: coordinator.as_ref().map_or(0, |coordinator| coordinator.running()),
        draining: draining.is_cancelled(),
        waiting: worker.as_ref().map_or(0, |worker| worker.waiting()),
        impaired: worker.as_ref().and_then(|worker| worker.impaired()),
    }
}

fn describe(settings: &Settings, address: String) -> v1::NodeDescription {
    let role = |role: &Role| match role {
        Role::GroupManager => v1::Role::GroupManager as i32,
        Role::ProcessCoordinator => v1::Role::ProcessCoordinator as i32,
        Role::ActivityManager => v1::Role::ActivityManager as i32,
    };
    v1::NodeDescription {
        name: settings.name.clone(),
        address,
        roles: settings.roles.iter().map(role).collect(),
        slots: settings.slots,
        tags: settings.tags.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..v1::NodeDescription::default()
    }
}
