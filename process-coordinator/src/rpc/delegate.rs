//! `Delegate` and `Moved`: other coordinators delegate subtrees to this one, and report where subtrees of this one are.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};
use tracing::info;
use xavantes_proto::message_limits::{check_address, check_coordinator_hello, check_name, check_path};
use xavantes_proto::{Assembler, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, first_message, next_whole, pack, v1};

use crate::coordinator::Coordinator;
use crate::handover::SubtreePlace;
use crate::process::driver_input::ProcessInput;
use crate::rpc::errors::repository_status;
use crate::rpc::run_to_end::run_to_end;
use crate::subtrees::hosted_subtrees::Caller;
use crate::subtrees::parent_order::ParentOrder;
use crate::subtrees::parent_report_batch::{ParentReport, next_parent_message};
use crate::workers::worker_messages::MoveOutcome;
use xavantes_proto::AttemptKey;

/// Number of messages that wait on a stream.
const STREAM_BUFFER: usize = 4;
/// Upper bound on the reports in one message.
const REPORTS_AT_ONCE: usize = 256;
/// Interval at which a coordinator learns what its subtrees do here.
const SUBTREES_INTERVAL: Duration = Duration::from_millis(500);
/// Upper bound on the subtrees in one message.
const SUBTREES_PER_MESSAGE: usize = 256;

type ReportStream = Pin<Box<dyn Stream<Item = Result<v1::WorkReport, Status>> + Send>>;

/// Opens the stream of a coordinator that delegates subtrees.
pub(super) async fn delegate(
    coordinator: &Arc<Coordinator>,
    request: Request<Streaming<v1::WorkOrder>>,
) -> Result<ReportStream, Status> {
    let peer = request.remote_addr().map_or_else(String::new, |address| address.ip().to_string());
    let mut orders = request.into_inner();
    let first = first_message(&mut orders, "order").await?;
    let hello = first.hello.clone().ok_or_else(|| Status::invalid_argument("the first order has no hello"))?;
    check_coordinator_hello(&hello)?;
    let caller = Caller::of(&hello);
    let (here, former) = (coordinator.clone(), caller.clone());
    run_to_end(async move { retire(&here, &former).await }).await?;
    info!(coordinator = %caller, "a coordinator delegates subtrees");
    let (stream, mut own_hello, reports) = coordinator.parents.connect(&caller);
    own_hello.node.clone_from(&coordinator.options.node);
    own_hello.version = env!("CARGO_PKG_VERSION").into();
    let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
    let for_errors = sender.downgrade();
    let (here, peer_name) = (coordinator.clone(), caller.clone());
    tokio::spawn(async move {
        send_reports(&here, &peer_name, own_hello, reports, sender).await;
        // Nothing of a coordinator that has gone stays but its subtrees.
        here.parents.disconnect(&peer_name, stream);
    });
    let parts = Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES).of_peer(peer);
    let session = DelegateSession { coordinator: coordinator.clone(), caller, hello, stream };
    tokio::spawn(session.run(first, orders, parts, for_errors));
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

/// Ends the subtrees of former coordinators of the caller, which nobody waits for.
async fn retire(coordinator: &Coordinator, caller: &Caller) {
    for (process, runs) in coordinator.parents.retire(caller) {
        if runs {
            let _ = coordinator.notify_subtree(Some(process), ProcessInput::ParentCancelled).await;
        } else {
            coordinator.discard(&process);
        }
    }
}

/// A subtree of this coordinator's processes runs at another coordinator now.
pub(super) async fn moved(coordinator: &Coordinator, request: v1::MovedRequest) -> Result<v1::MovedResponse, Status> {
    let v1::MovedRequest { attempt, node, address, epoch } = request;
    check_name("the node", &node)?;
    check_address("the address", &address)?;
    check_path("the process", attempt.as_ref().map_or("", |attempt| &attempt.process))?;
    let key = AttemptKey::from(&attempt.ok_or_else(|| Status::invalid_argument("no attempt"))?);
    let place = SubtreePlace { node, address, epoch };
    let outcome = coordinator.on_moved(key, place).await.map_err(|error| repository_status(&error))?;
    let (unwanted, recorded) = (outcome == MoveOutcome::Unwanted, outcome == MoveOutcome::Recorded);
    Ok(v1::MovedResponse { unwanted, recorded })
}

/// The stream of one coordinator.
struct DelegateSession {
    coordinator: Arc<Coordinator>,
    caller: Caller,
    /// Hello of the caller.
    hello: v1::CoordinatorHello,
    /// Number of the stream.
    stream: u64,
}

impl DelegateSession {
    /// Carries out orders until the stream breaks. The subtrees run on; the caller asks for them when it is back.
    async fn run(
        self,
        first: v1::WorkOrder,
        mut orders: Streaming<v1::WorkOrder>,
        mut parts: Assembler<v1::WorkOrder>,
        for_errors: mpsc::WeakSender<Result<v1::WorkReport, Status>>,
    ) {
        self.on_order(first).await;
        loop {
            let next = next_whole(&mut orders, &mut parts).await;
            if !self.coordinator.parents.is_current(&self.caller, self.stream) {
                return;
            }
            match next {
                Ok(Some(order)) => self.on_order(order).await,
                Ok(None) => return,
                Err(status) => {
                    if let Some(sender) = for_errors.upgrade() {
                        let _ = sender.try_send(Err(status));
                    }
                    return;
                }
            }
        }
    }

    async fn on_order(&self, order: v1::WorkOrder) {
        let Self { coordinator, caller, hello, stream } = self;
        let parents = &coordinator.parents;
        for order in ParentOrder::split(order) {
            match order {
                // An invalid program stays unknown, and its subtrees are refused.
                ParentOrder::Program(program) => drop(coordinator.programs.add(program.documents).await),
                ParentOrder::Acknowledge(id) => {
                    if let Some(process) = parents.acknowledge(caller, &id) {
                        coordinator.discard(&process);
                    }
                }
                ParentOrder::Claim(claims) => parents.claim(caller, claims),
                ParentOrder::Job(job) => coordinator.accept_subtree(caller, *stream, hello, *job).await,
                ParentOrder::Cancel(id) => {
                    // On an error the parent cancels again when it connects again.
                    let cancelled = parents.cancel(caller, &id);
                    let _ = coordinator.notify_subtree(cancelled, ProcessInput::ParentCancelled).await;
                }
                ParentOrder::Pause(pause) => {
                    let process = parents.process(caller, &pause.id.unwrap_or_default());
                    let _ = coordinator.notify_subtree(process, ProcessInput::ParentPaused(pause.paused)).await;
                }
                ParentOrder::Reply(reply) => parents.reply(reply),
            }
        }
    }
}

/// What the subtrees of a coordinator do, if that has changed since it was told last.
fn changed_subtrees(
    coordinator: &Coordinator,
    caller: &Caller,
    told: &mut HashMap<Arc<str>, v1::SubtreeStatus>,
) -> Vec<v1::SubtreeStatus> {
    let mut now = HashMap::new();
    let mut changed = Vec::new();
    for (id, process) in coordinator.parents.running_for(caller) {
        let status = match coordinator.processes.find(&process) {
            Some(handle) => handle.status.borrow().clone(),
            None => match coordinator.processes.find_held(&process) {
                Some((_, held)) => held.status,
                None => continue,
            },
        };
        let v1::ProcessStatus { state, wait_reason, counts, .. } = status;
        let status = v1::SubtreeStatus { id: Some(id), state, wait_reason, counts };
        if told.get(&process) != Some(&status) {
            changed.push(status.clone());
        }
        now.insert(process, status);
    }
    *told = now;
    changed
}

/// Sends reports until the stream breaks, and regularly what the subtrees do.
async fn send_reports(
    coordinator: &Coordinator,
    caller: &Caller,
    hello: v1::WorkerHello,
    mut reports: mpsc::UnboundedReceiver<ParentReport>,
    sender: mpsc::Sender<Result<v1::WorkReport, Status>>,
) {
    let first = v1::WorkReport { hello: Some(hello), ..v1::WorkReport::default() };
    if sender.send(Ok(first)).await.is_err() {
        return;
    }
    let mut batch = Vec::new();
    let mut told = HashMap::new();
    let mut ticks = tokio::time::interval(SUBTREES_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            count = reports.recv_many(&mut batch, REPORTS_AT_ONCE) => if count == 0 { return },
            () = sender.closed() => return,
            _ = ticks.tick() => {
                let changed = changed_subtrees(coordinator, caller, &mut told);
                for subtrees in changed.chunks(SUBTREES_PER_MESSAGE) {
                    let message = v1::WorkReport { subtrees: subtrees.to_vec(), ..v1::WorkReport::default() };
                    if sender.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
            }
        }
        while let Some(message) = next_parent_message(&mut batch) {
            for part in pack(message) {
                if sender.send(Ok(part)).await.is_err() {
                    return;
                }
            }
        }
    }
}
