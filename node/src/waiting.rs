//! A node that cannot open its data yet, because its disk is full or its database does not answer. It tries again and again.
//! Meanwhile its health is "not serving", and every call gets the reason.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tracing::{info, warn};
use xavantes_proto::v1::activity_manager_server::ActivityManagerServer;
use xavantes_proto::v1::files_server::FilesServer;
use xavantes_proto::v1::group_manager_server::GroupManagerServer;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinatorServer;

use crate::error::Error;
use crate::listener::Listener;
use crate::settings::Role;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// A node that still waits repeats the reason in its log at this interval.
const REMINDER_ATTEMPTS: u32 = 60;

/// Calls `open` until it succeeds or fails for a reason that does not pass.
pub(crate) async fn until_open<T>(
    roles: &[Role],
    listener: &Listener,
    open: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut server: Option<WaitingServer> = None;
    for attempt in 0u32.. {
        let problem = match open().await {
            Err(error) if error.may_pass() => error.to_string(),
            opened => {
                if let Some(server) = server {
                    server.stop().await;
                    opened.iter().for_each(|_| info!("the data of the node is available; starting"));
                }
                return opened;
            }
        };
        let is_new = server.as_ref().is_none_or(|server| server.problem.lock().as_str() != problem);
        if is_new || attempt % REMINDER_ATTEMPTS == 0 {
            warn!(problem, "the node cannot start yet; trying again every second");
        }
        match &server {
            Some(server) => *server.problem.lock() = problem,
            None => server = Some(WaitingServer::start(roles, listener, problem).await?),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    unreachable!("the attempts do not end")
}

/// Answers every call with the reason why the node waits.
struct WaitingServer {
    problem: Arc<Mutex<String>>,
    stop: CancellationToken,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl WaitingServer {
    async fn start(roles: &[Role], listener: &Listener, problem: String) -> Result<Self, Error> {
        let (health, health_service) = tonic_health::server::health_reporter();
        let problem = Arc::new(Mutex::new(problem));
        let mut router = Server::builder().add_service(health_service).add_service(Refusal::<Files>::new(&problem));
        health.set_service_status("", ServingStatus::NotServing).await;
        for role in roles {
            let name = match role {
                Role::GroupManager => Manager::NAME,
                Role::ProcessCoordinator => Coordinator::NAME,
                Role::ActivityManager => Worker::NAME,
            };
            health.set_service_status(name, ServingStatus::NotServing).await;
            router = match role {
                Role::GroupManager => router.add_service(Refusal::<Manager>::new(&problem)),
                Role::ProcessCoordinator => router.add_service(Refusal::<Coordinator>::new(&problem)),
                Role::ActivityManager => router.add_service(Refusal::<Worker>::new(&problem)),
            };
        }
        let stop = CancellationToken::new();
        let incoming = TcpIncoming::from(listener.share()?).with_nodelay(Some(true));
        let server = tokio::spawn(router.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned()));
        Ok(Self { problem, stop, server })
    }

    /// Stops at once; clients connect again and reach the node.
    async fn stop(self) {
        self.stop.cancel();
        self.server.abort();
        // An error says that the server was aborted.
        let _ = self.server.await;
    }
}

type Manager = GroupManagerServer<xavantes_group_manager::Service>;
type Coordinator = ProcessCoordinatorServer<xavantes_process_coordinator::Service>;
type Worker = ActivityManagerServer<xavantes_activity_manager::Service>;
type Files = FilesServer<xavantes_files::Service>;

/// Refuses all calls of a service.
struct Refusal<S> {
    problem: Arc<Mutex<String>>,
    service: PhantomData<fn() -> S>,
}

impl<S> Refusal<S> {
    fn new(problem: &Arc<Mutex<String>>) -> Self {
        Self { problem: problem.clone(), service: PhantomData }
    }
}

impl<S> Clone for Refusal<S> {
    fn clone(&self) -> Self {
        Self::new(&self.problem)
    }
}

impl<S: NamedService> NamedService for Refusal<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Refusal<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        let status = Status::unavailable(format!("the node has not started yet: {}", self.problem.lock()));
        ready(Ok(status.into_http()))
    }
}
