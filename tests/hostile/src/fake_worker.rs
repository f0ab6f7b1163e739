//! A worker on the real protocol that does what a test says: it joins a group, sends heartbeats, and accepts the Work streams
//! of coordinators. A closure gets every order and sends any reports, honest or not.
//!
//! ```no_run
//! use xavantes_hostile::fake_worker::{FakeWorker, completed};
//!
//! // A worker that answers every job twice.
//! let worker = FakeWorker::join("127.0.0.1:7000", "a", "twice", 4, |coordinator, order| {
//!     for job in order.jobs {
//!         let id = job.id.unwrap_or_default();
//!         coordinator.answer(completed(id.clone(), vec![]));
//!         coordinator.answer(completed(id, vec![]));
//!     }
//! });
//! worker.wait_for_jobs(1, 10);
//! ```

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnboundedReceiverStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use xavantes_proto::v1::activity_manager_server::{ActivityManager, ActivityManagerServer};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{Assembler, MAX_MESSAGE_BYTES, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, pack, v1};
use xavantes_tests::until;

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(300);
/// Messages that wait for the network.
const STREAM_BUFFER: usize = 4;

/// The answer that an attempt completed with these results: values of its OUT and INOUT parameters, in order.
pub fn completed(id: v1::AttemptId, results: Vec<v1::Value>) -> v1::Answer {
    let outcome = v1::answer::Outcome::Completed(v1::Completed { results });
    v1::Answer { id: Some(id), outcome: Some(outcome), ..v1::Answer::default() }
}

/// An integer.
pub fn int(value: i64) -> v1::Value {
    v1::Value { kind: Some(v1::value::Kind::Int(value)) }
}

/// A coordinator that is connected to the fake worker.
#[derive(Clone)]
pub struct ConnectedCoordinator {
    /// What the coordinator said of itself.
    pub hello: v1::CoordinatorHello,
    reports: mpsc::UnboundedSender<v1::WorkReport>,
}

impl ConnectedCoordinator {
    /// Sends a report. It is lost if the stream is closed.
    pub fn send(&self, report: v1::WorkReport) {
        let _ = self.reports.send(report);
    }

    /// Sends one answer.
    pub fn answer(&self, answer: v1::Answer) {
        self.send(v1::WorkReport { answers: vec![answer], ..v1::WorkReport::default() });
    }
}

/// What a fake worker does with orders.
type Behaviour = Box<dyn FnMut(&ConnectedCoordinator, v1::WorkOrder) + Send>;

/// What a fake worker has seen so far.
#[derive(Default)]
struct Seen {
    coordinators: Vec<ConnectedCoordinator>,
    jobs: Vec<v1::Job>,
    cancels: Vec<v1::AttemptId>,
    recalls: usize,
}

/// What the streams of a fake worker share.
struct WorkerState {
    /// First report of each stream.
    hello: Mutex<v1::WorkerHello>,
    heartbeat: Mutex<v1::Heartbeat>,
    seen: Mutex<Seen>,
    behaviour: Mutex<Behaviour>,
}

/// A worker that does what a test says. Dropping it closes its connections.
pub struct FakeWorker {
    /// Address of its services.
    pub address: String,
    shared: Arc<WorkerState>,
    runtime: Option<Runtime>,
}

impl FakeWorker {
    /// Joins a group as a worker with this number of slots, and a queue for as many attempts again. `behaviour` gets every
    /// order of every coordinator, including the first one of each stream.
    pub fn join(
        manager: &str,
        group: &str,
        name: &str,
        slots: u32,
        behaviour: impl FnMut(&ConnectedCoordinator, v1::WorkOrder) + Send + 'static,
    ) -> Self {
        let hello = v1::WorkerHello {
            node: name.into(),
            version: version(),
            slots,
            queue: slots,
            ..v1::WorkerHello::default()
        };
        Self::join_with(manager, group, hello, behaviour)
    }

    /// Joins a group with any first message to coordinators. The group manager hears the same offer.
    pub fn join_with(
        manager: &str,
        group: &str,
        hello: v1::WorkerHello,
        behaviour: impl FnMut(&ConnectedCoordinator, v1::WorkOrder) + Send + 'static,
    ) -> Self {
        let runtime = Runtime::new().expect("threads are available");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port is free");
        let address = listener.local_addr().expect("it listens").to_string();
        let node = v1::NodeDescription {
            name: hello.node.clone(),
            address: address.clone(),
            roles: vec![v1::Role::ActivityManager.into()],
            slots: hello.slots,
            tags: hello.tags.clone(),
            version: hello.version.clone(),
            memory: hello.memory,
            gpus: hello.gpus,
            interpreters: hello.interpreters.clone(),
            containers: hello.containers,
            ..v1::NodeDescription::default()
        };
        let heartbeat = v1::Heartbeat { node: Some(node), group: group.into(), life: 1, ..v1::Heartbeat::default() };
        let shared = Arc::new(WorkerState {
            hello: Mutex::new(hello),
            heartbeat: Mutex::new(heartbeat),
            seen: Mutex::default(),
            behaviour: Mutex::new(Box::new(behaviour)),
        });
        let service = ActivityManagerServer::new(Service(shared.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let server = tonic::transport::Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        runtime.spawn(beat(manager.to_owned(), shared.clone()));
        Self { address, shared, runtime: Some(runtime) }
    }

    /// Changes the first message to coordinators that connect from now on.
    pub fn change_hello(&self, change: impl FnOnce(&mut v1::WorkerHello)) {
        change(&mut lock(&self.shared.hello));
    }

    /// Changes the heartbeats from now on.
    pub fn change_heartbeat(&self, change: impl FnOnce(&mut v1::Heartbeat)) {
        change(&mut lock(&self.shared.heartbeat));
    }

    /// The jobs that it has received, in order.
    pub fn jobs(&self) -> Vec<v1::Job> {
        lock(&self.shared.seen).jobs.clone()
    }

    /// The attempts that coordinators wanted stopped, in order.
    pub fn cancels(&self) -> Vec<v1::AttemptId> {
        lock(&self.shared.seen).cancels.clone()
    }

    /// How often coordinators recalled attempts.
    pub fn recalls(&self) -> usize {
        lock(&self.shared.seen).recalls
    }

    /// The coordinators that have connected, in order; also those whose stream has ended.
    pub fn coordinators(&self) -> Vec<ConnectedCoordinator> {
        lock(&self.shared.seen).coordinators.clone()
    }

    /// Sends a report to all coordinators that have connected.
    pub fn send(&self, report: &v1::WorkReport) {
        self.coordinators().iter().for_each(|coordinator| coordinator.send(report.clone()));
    }

    /// Waits until a coordinator has connected.
    pub fn wait_for_coordinator(&self, seconds: u64) -> ConnectedCoordinator {
        until("a coordinator connects to the fake worker", seconds, || self.coordinators().pop())
    }

    /// Waits until it has received this number of jobs, and returns all that it has received.
    pub fn wait_for_jobs(&self, count: usize, seconds: u64) -> Vec<v1::Job> {
        until(&format!("the fake worker gets {count} jobs"), seconds, || {
            Some(self.jobs()).filter(|it| it.len() >= count)
        })
    }
}

impl Drop for FakeWorker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The version of the nodes under test.
fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// A test that failed while it held the lock must not hide its own message.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Joins the group and sends heartbeats; joins again when the stream ends.
async fn beat(manager: String, shared: Arc<WorkerState>) {
    loop {
        if let Ok(channel) = xavantes_proto::connect(&manager).await {
            let (sender, receiver) = mpsc::channel(1);
            let shared = shared.clone();
            let beats = tokio::spawn(async move {
                let mut ticks = tokio::time::interval(HEARTBEAT_INTERVAL);
                loop {
                    ticks.tick().await;
                    let heartbeat = lock(&shared.heartbeat).clone();
                    if sender.send(heartbeat).await.is_err() {
                        return;
                    }
                }
            });
            if let Ok(rosters) = GroupManagerClient::new(channel).join(ReceiverStream::new(receiver)).await {
                let mut rosters = rosters.into_inner();
                while let Ok(Some(_)) = rosters.message().await {}
            }
            beats.abort();
        }
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
    }
}

struct Service(Arc<WorkerState>);

#[tonic::async_trait]
impl ActivityManager for Service {
    type LogsStream = Pin<Box<dyn Stream<Item = Result<v1::LogPiece, Status>> + Send>>;
    type WorkStream = Pin<Box<dyn Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

    async fn work(&self, request: Request<Streaming<v1::WorkOrder>>) -> Result<Response<Self::WorkStream>, Status> {
        let mut orders = request.into_inner();
        let mut assembler = Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES);
        let mut first = orders.message().await?.ok_or_else(|| Status::invalid_argument("no first order"))?;
        let hello = first.hello.take().ok_or_else(|| Status::invalid_argument("no hello"))?;
        let (reports, unsent) = mpsc::unbounded_channel();
        let coordinator = ConnectedCoordinator { hello, reports };
        let hello = lock(&self.0.hello).clone();
        coordinator.send(v1::WorkReport { hello: Some(hello), ..v1::WorkReport::default() });
        lock(&self.0.seen).coordinators.push(coordinator.clone());
        let shared = self.0.clone();
        tokio::spawn(async move {
            let mut next = Some(first);
            while let Some(order) = next {
                if let Ok(Some(order)) = assembler.unpack(order) {
                    let mut seen = lock(&shared.seen);
                    seen.jobs.extend(order.jobs.iter().cloned());
                    seen.cancels.extend(order.cancels.iter().cloned());
                    seen.recalls += usize::from(order.recall);
                    drop(seen);
                    lock(&shared.behaviour)(&coordinator, order);
                }
                next = orders.message().await.ok().flatten();
            }
        });
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        let mut unsent = UnboundedReceiverStream::new(unsent);
        tokio::spawn(async move {
            while let Some(report) = unsent.next().await {
                for part in pack(report) {
                    if sender.send(Ok(part)).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn attempts(&self, _: Request<v1::AttemptsRequest>) -> Result<Response<v1::AttemptsResponse>, Status> {
        Ok(Response::new(v1::AttemptsResponse::default()))
    }

    async fn logs(&self, _: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        Err(Status::not_found("a fake worker has no logs"))
    }
}
