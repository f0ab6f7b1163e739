//! The gRPC service: the stream of orders and reports between a coordinator and this worker, and the logs of attempts.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};
use xavantes_proto::message_limits::{check_coordinator_hello, check_path};
use xavantes_proto::v1::activity_manager_server::ActivityManager;
use xavantes_proto::{Assembler, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, cut_text, first_message, next_whole, pack, v1};
use xavantes_telemetry::{SlotUse, metrics};

use crate::attempt_manager::AttemptManager;
use crate::attempts::admission::Load;
use crate::attempts::realm_attempt::CoordinatorStream;
use crate::logs::send_logs::send_log;
use crate::options::Options;
use crate::outbox::OutboxReceiver;

/// The time that stopped attempts get to end, besides their grace.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper bound on the attempts of an element in one answer.
const MAX_SENT_ATTEMPTS: usize = 200;
/// Messages that wait for the network, per stream.
const STREAM_BUFFER: usize = 4;
/// Shortest interval at which a coordinator hears of its running attempts.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The activity manager. Clones share one manager.
#[derive(Clone)]
pub struct Service {
    manager: Arc<AttemptManager>,
}

impl Service {
    /// Opens a worker. Must be called on the runtime that serves it.
    pub fn open(options: Options) -> std::io::Result<Self> {
        Ok(Self { manager: AttemptManager::open(options)? })
    }

    /// Adds what this worker offers to the description of its node.
    pub fn describe(&self, node: v1::NodeDescription) -> v1::NodeDescription {
        let environment = &self.manager.programs.program_host;
        let controllers = environment.cgroups.iter().flat_map(|groups| groups.controllers());
        v1::NodeDescription {
            memory: environment.memory,
            gpus: environment.gpus.count,
            interpreters: environment.interpreters.languages(),
            containers: environment.engine.is_some(),
            cgroups: controllers.map(|controller| (*controller).into()).collect(),
            ..node
        }
    }

    /// Kills all external programs.
    pub fn kill(&self) {
        self.manager.programs.program_host.processes.kill_all();
    }

    /// Removes working directories and the temporary folder. Call it when no attempt runs.
    pub fn close(&self) {
        self.manager.programs.program_host.close();
    }

    /// Slots in use plus attempts that wait.
    pub fn busy(&self) -> u32 {
        let Load { slots, queued } = self.load();
        slots + queued
    }

    /// Attempts that wait for a slot.
    pub fn waiting(&self) -> u32 {
        self.load().queued
    }

    /// Slots in use and attempts that wait.
    pub fn load(&self) -> Load {
        self.manager.load()
    }

    /// Updates the metrics that say how the worker is now.
    pub fn measure(&self) {
        let Load { slots, queued } = self.load();
        let metrics = metrics();
        metrics.worker_slots.of(SlotUse::Busy).set(slots.into());
        metrics.worker_slots.of(SlotUse::Free).set(self.manager.slots.saturating_sub(slots).into());
        metrics.worker_queued.set(queued.into());
    }

    /// Why this worker takes no work at the moment.
    pub fn impaired(&self) -> Option<v1::ImpairmentReason> {
        self.manager.impaired()
    }

    /// Refuses new attempts and hands back those that wait. Running attempts may end until `patience` has passed after
    /// the end of `hurry`; then they are stopped. Afterwards files that processes need are handed over, within `patience` again.
    pub async fn drain(&self, patience: Duration, hurry: impl Future<Output = ()>) {
        self.manager.drain();
        let too_late = async {
            hurry.await;
            tokio::time::sleep(patience).await;
        };
        let is_idle = tokio::select! {
            () = self.wait_until_idle() => true,
            () = too_late => false,
        };
        if !is_idle {
            warn!(busy = self.busy(), "drain timed out; stopping running attempts");
            self.manager.stop_all();
            let grace = self.manager.programs.program_host.grace;
            let _ = tokio::time::timeout(grace + STOP_TIMEOUT, self.wait_until_idle()).await;
        }
        if tokio::time::timeout(patience, self.manager.hand_over_files()).await.is_err() {
            warn!("drain timed out; not all files that only this node may hold were handed over");
        }
    }

    /// Returns when no attempt runs or waits, and all answers are durable.
    async fn wait_until_idle(&self) {
        loop {
            let progress = self.manager.progress.notified();
            if self.manager.is_idle() {
                return;
            }
            progress.await;
        }
    }
}

#[tonic::async_trait]
impl ActivityManager for Service {
    type LogsStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::LogPiece, Status>> + Send>>;
    type WorkStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

    async fn work(&self, request: Request<Streaming<v1::WorkOrder>>) -> Result<Response<Self::WorkStream>, Status> {
        let peer = request.remote_addr().map_or_else(String::new, |address| address.ip().to_string());
        let parts = Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES).of_peer(peer);
        let mut stream = request.into_inner();
        let mut first = first_message(&mut stream, "order").await?;
        let mut orders = OrderStream { stream, parts };
        let hello = first.hello.take().ok_or_else(|| Status::invalid_argument("the first order has no hello"))?;
        check_coordinator_hello(&hello)?;
        // Node names are unique within a group only.
        let coordinator: Arc<str> = format!("{}/{}", hello.group, hello.node).into();
        let (stream, reports) = self.manager.connect(&coordinator, &hello.realm.into(), hello.address);
        if hello.report_running_ms > 0 {
            let interval = Duration::from_millis(hello.report_running_ms.into()).max(MIN_REPORT_INTERVAL);
            tokio::spawn(report_running(self.manager.clone(), stream.clone(), interval));
        }
        info!(%coordinator, realm = %stream.realm, "coordinator connected");
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        let for_errors = sender.downgrade();
        let backlog = reports.backlog.clone();
        tokio::spawn(send_reports(self.manager.clone(), stream.clone(), reports, sender));
        let manager = self.manager.clone();
        tokio::spawn(async move {
            let mut next = Ok(Some(first));
            while let Ok(Some(mut order)) = next {
                // A coordinator that does not read reports gets no further orders handled.
                backlog.wait_for_space().await;
                let programs = std::mem::take(&mut order.programs);
                if !programs.is_empty() {
                    manager.definitions.add_all(programs, &stream.coordinator).await;
                }
                if !manager.on_order(&stream, order) {
                    return;
                }
                next = orders.next().await;
            }
            // Running attempts go on: the coordinator asks for them when it connects again.
            info!(%coordinator, "coordinator disconnected");
            if let Err(status) = next {
                if let Some(sender) = for_errors.upgrade() {
                    let _ = sender.try_send(Err(status));
                }
                manager.disconnect(&stream);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn attempts(&self, request: Request<v1::AttemptsRequest>) -> Result<Response<v1::AttemptsResponse>, Status> {
        let v1::AttemptsRequest { realm, path } = request.into_inner();
        check_path("the path", &path)?;
        let mut attempts = self.manager.programs.program_host.logs.attempts(&realm, &path);
        attempts.drain(..attempts.len().saturating_sub(MAX_SENT_ATTEMPTS));
        attempts.iter_mut().for_each(|attempt| cut_text(&mut attempt.reason));
        Ok(Response::new(v1::AttemptsResponse { attempts }))
    }

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        check_path("the path", &request.path)?;
        let log = self.manager.programs.program_host.logs.find(&request.realm, &request.path, request.attempt);
        let log = log.ok_or_else(|| Status::not_found(format!("nothing is known of {} here", request.path)))?;
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        tokio::spawn(send_log(log, request, self.manager.node.clone(), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Sends reports until the stream ends or the coordinator connects again.
async fn send_reports(
    manager: Arc<AttemptManager>,
    stream: CoordinatorStream,
    mut reports: OutboxReceiver,
    sender: mpsc::Sender<Result<v1::WorkReport, Status>>,
) {
    'open: loop {
        let message = tokio::select! {
            message = reports.next() => message,
            () = sender.closed() => break,
        };
        let Some(message) = message else { break };
        for part in pack(message) {
            if sender.send(Ok(part)).await.is_err() {
                break 'open;
            }
        }
    }
    manager.disconnect(&stream);
}

/// Reports the running attempts of a coordinator at this interval, until its stream ends.
async fn report_running(manager: Arc<AttemptManager>, stream: CoordinatorStream, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !manager.report_running(&stream) {
            return;
        }
    }
}

/// Orders of a coordinator, assembled from the parts that the wire carries.
struct OrderStream {
    stream: Streaming<v1::WorkOrder>,
    parts: Assembler<v1::WorkOrder>,
}

impl OrderStream {
    async fn next(&mut self) -> Result<Option<v1::WorkOrder>, Status> {
        next_whole(&mut self.stream, &mut self.parts).await
    }
}
