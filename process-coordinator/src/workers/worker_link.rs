//! The stream to one worker, or to another coordinator. A link opens it, sends orders, hands reports on, and opens it again
//! when it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tracing::{debug, info, warn};
use xavantes_proto::message_limits::check_node;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{
    Assembler, AttemptKey, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, call_with_timeout, connect, next_whole, pack,
    status_text, v1,
};
use xavantes_repository::Store;

use crate::engine_messages::release_except;
use crate::process::driver_input::ProcessInput;
use crate::process::ended_summary::Summary;
use crate::process::handle::DecisionSender;
use crate::process::process_registry::ProcessRegistry;
use crate::record_codec;
use crate::workers::handle::{NotHeld, Orders, PoolHandle};
use crate::workers::link_state::{LinkState, check_report};
use crate::workers::order_batch::{MAX_ORDERS_PER_MESSAGE, next_order_message, remove_sent_programs};
use crate::workers::peer_report::{PeerReport, ProcessAnswers, reply_ended};
use crate::workers::pool::pool_input::PoolInput;
use crate::workers::worker_messages::{Order, PeerKind};

/// Pauses before a link connects again: they double from the first to the longest.
const MIN_RECONNECT_PAUSE: Duration = Duration::from_millis(50);
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(2);

/// Whether a link is handing a report on, for the dispatcher: meanwhile the link reads no other report of its peer.
#[derive(Debug, Default)]
pub(crate) struct Delivery(AtomicU64);

impl Delivery {
    /// A number that changes when a delivery begins and when it ends.
    pub fn state(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a delivery was under way in this state.
    pub fn is_busy(state: u64) -> bool {
        state % 2 == 1
    }

    fn begin(&self) {
        self.0.fetch_or(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What all links of a coordinator share.
#[derive(Clone)]
pub(crate) struct Context {
    pub hello: v1::CoordinatorHello,
    pub processes: ProcessRegistry,
    pub pool: PoolHandle,
    pub repository: Store,
    /// Addresses of the managers of the local group.
    pub managers: Arc<[String]>,
    /// Files of this node.
    pub files: Option<xavantes_files::Fetcher>,
    /// How long an attempt may stay at a worker without a sign that it moves.
    pub patience: Duration,
}

impl Context {
    /// Which files a worker may release that it keeps for a process; `None` if the process still runs or is foreign.
    async fn release(&self, process: String) -> Option<v1::Release> {
        if self.processes.find(&process).is_some() || self.processes.is_foreign(&process) {
            return None;
        }
        let results = match self.repository.find(&process).await.ok()? {
            None => Vec::new(),
            Some(entry) => record_codec::decode::<Summary>("summary", &entry.summary?).ok()?.results().ok()?,
        };
        Some(release_except(&process, results.iter().filter_map(|result| result.value.as_ref())))
    }

    /// Asks the group managers for a coordinator that takes a subtree. `lenders` are groups with room for it.
    pub async fn find_coordinator(&self, lenders: Vec<String>) -> Option<v1::PlaceResponse> {
        let what = v1::place_request::What::Coordinator.into();
        self.place(v1::PlaceRequest { what, lenders, ..Default::default() }).await
    }

    /// Asks the group managers for a worker that meets one of these needs.
    pub async fn borrow_worker(&self, needs: Vec<v1::ActivityNeeds>) -> Option<v1::PlaceResponse> {
        self.place(v1::PlaceRequest { what: v1::place_request::What::Worker.into(), needs, ..Default::default() }).await
    }

    /// Asks the group managers for a longer lease of a worker.
    pub async fn renew_lease(&self, worker: &str) -> Option<v1::PlaceResponse> {
        let (renew_group, renew) = worker.split_once('/').unwrap_or_default();
        let (renew, renew_group) = (renew.to_owned(), renew_group.to_owned());
        let what = v1::place_request::What::Worker.into();
        self.place(v1::PlaceRequest { what, renew, renew_group, ..Default::default() }).await
    }

    /// Only the manager that leads answers.
    async fn place(&self, request: v1::PlaceRequest) -> Option<v1::PlaceResponse> {
        let (node, group) = (self.hello.node.clone(), self.hello.group.clone());
        let request = v1::PlaceRequest { node, group, ..request };
        for manager in self.managers.iter() {
            if let Ok(channel) = connect(manager).await
                && let Ok(place) = call_with_timeout(GroupManagerClient::new(channel).place(request.clone())).await
            {
                let named = place.node.as_ref().is_some_and(|node| check_node(node).is_ok());
                return Some(place).filter(|_| named);
            }
        }
        None
    }
}

/// Keeps a connection to a peer until the dispatcher aborts this task.
pub(crate) async fn run(context: Context, peer: PeerKind, worker: Arc<str>, address: String, delivery: Arc<Delivery>) {
    let mut pause = MIN_RECONNECT_PAUSE;
    loop {
        match connect(&address).await {
            Ok(channel) => {
                let began = Instant::now();
                match talk(&context, peer, &worker, &address, channel, &delivery).await {
                    Err(status) if status.code() == Code::InvalidArgument => {
                        warn!(%worker, %address, error = %status_text(&status), "disconnected a peer that does not keep to the protocol");
                        pause = MAX_RECONNECT_PAUSE;
                    }
                    Err(status) => debug!(%worker, error = %status_text(&status), "stream broke"),
                    Ok(()) => {}
                }
                if began.elapsed() > MAX_RECONNECT_PAUSE {
                    pause = MIN_RECONNECT_PAUSE;
                }
                if !context.pool.disconnected(worker.clone()) {
                    return;
                }
            }
            Err(error) => debug!(%worker, %address, %error, "cannot connect"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_RECONNECT_PAUSE);
    }
}

/// Runs one stream to its end.
async fn talk(
    context: &Context,
    peer: PeerKind,
    worker: &Arc<str>,
    address: &str,
    channel: Channel,
    delivery: &Delivery,
) -> Result<(), Status> {
    let (sender, receiver) = mpsc::channel::<v1::WorkOrder>(4);
    let (orders, mut to_send) = mpsc::unbounded_channel::<Order>();
    let first = v1::WorkOrder { hello: Some(context.hello.clone()), ..v1::WorkOrder::default() };
    // This cannot fail: the channel is empty, and its receiver exists.
    let _ = sender.send(first).await;
    let most = xavantes_proto::MAX_MESSAGE_BYTES;
    let sent = ReceiverStream::new(receiver);
    let mut reports = match peer {
        PeerKind::Worker => {
            let client = ActivityManagerClient::new(channel);
            client.max_decoding_message_size(most).max_encoding_message_size(most).work(sent).await?.into_inner()
        }
        PeerKind::Coordinator => {
            let client = ProcessCoordinatorClient::new(channel);
            client.max_decoding_message_size(most).max_encoding_message_size(most).delegate(sent).await?.into_inner()
        }
    };
    let link = Arc::new(LinkState::default());
    let writing = link.clone();
    let writer = tokio::spawn(async move {
        let mut batch = Vec::with_capacity(MAX_ORDERS_PER_MESSAGE);
        while to_send.recv_many(&mut batch, MAX_ORDERS_PER_MESSAGE).await > 0 {
            writing.on_taken(&batch);
            remove_sent_programs(&mut batch, &mut writing.sent_programs.lock());
            while let Some(message) = next_order_message(&mut batch) {
                for part in pack(message) {
                    if sender.send(part).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    let outcome = async {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let mut assembler = Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES).of_peer(host);
        let mut first = true;
        while let Some(mut report) = next_whole(&mut reports, &mut assembler).await? {
            check_report(&mut report, std::mem::take(&mut first))?;
            link.on_report(&report);
            delivery.begin();
            on_report(context, worker, &orders, report).await;
            delivery.end();
            link.wait_for_space().await?;
        }
        Ok(())
    }
    .await;
    writer.abort();
    outcome
}

/// Hands a part of a report on to the pool. Returns the attempts that the peer speaks for without having them.
async fn inform_pool(
    context: &Context,
    worker: &Arc<str>,
    inputs: Vec<PoolInput>,
    calls: &[v1::SharedCall],
) -> NotHeld {
    let mut answered = Vec::new();
    for input in inputs {
        match input {
            PoolInput::Answered(_, keys) => answered = keys,
            input => {
                if let PoolInput::Running(_, running) = &input {
                    context.processes.note_running(running);
                }
                context.pool.handle(input);
            }
        }
    }
    let callers: Vec<AttemptKey> = calls.iter().filter_map(|call| call.id.as_ref()).map(AttemptKey::from).collect();
    if answered.is_empty() && callers.is_empty() {
        return NotHeld::default();
    }
    let not_held = context.pool.reported(worker.clone(), answered, callers).await;
    let (answers, calls) = (not_held.answers.len(), not_held.calls.len());
    if answers + calls > 0 {
        debug!(%worker, answers, calls, "doubts answers and calls of attempts that the worker does not have");
    }
    not_held
}

/// Hands a report of a peer on to the pool and to the processes.
async fn on_report(context: &Context, worker: &Arc<str>, orders: &Orders, report: v1::WorkReport) {
    let report: PeerReport<Orders, DecisionSender> = PeerReport::sort(worker, orders, report);
    if let Some(hello) = report.hello {
        info!(%worker, slots = hello.slots, "worker connected");
        if !hello.keeps.is_empty() {
            let (context, keeps, orders) = (context.clone(), hello.keeps.clone(), orders.clone());
            tokio::spawn(async move {
                for process in keeps {
                    if let Some(release) = context.release(process).await {
                        let _ = orders.send(Order::Release(release.into()));
                    }
                }
            });
        }
        context.pool.connected(worker.clone(), hello, orders.clone());
    }
    for printed in report.printed {
        if let Some(id) = printed.id
            && let Some(process) = context.processes.find(&id.process)
        {
            process.print(id.element, printed.line).await;
        }
    }
    let PeerReport { pool_inputs, answers, calls, .. } = report;
    if pool_inputs.is_empty() && answers.is_empty() && calls.is_empty() {
        return;
    }
    // A task of its own, which goes on if the dispatcher ends this link meanwhile: the pool no longer has the attempts that the
    // report answers, so if their processes did not get these answers, they would believe no others.
    let handed_on = tokio::spawn(hand_on(context.clone(), worker.clone(), orders.clone(), pool_inputs, answers, calls));
    if let Err(error) = handed_on.await {
        warn!(%worker, %error, "a report was not handed on");
    }
}

/// Hands the parts of a report on that concern attempts.
async fn hand_on(
    context: Context,
    worker: Arc<str>,
    orders: Orders,
    pool_inputs: Vec<PoolInput>,
    answers: Vec<ProcessAnswers<Orders, DecisionSender>>,
    calls: Vec<v1::SharedCall>,
) {
    let not_held = inform_pool(&context, &worker, pool_inputs, &calls).await;
    for ProcessAnswers { process, mut inputs } in answers {
        if !not_held.answers.is_empty() {
            inputs = inputs.into_iter().map(|input| input.doubt(&not_held.answers)).collect();
        }
        let late = match context.processes.find(&process) {
            // If the process has much mail this waits, and with it the stream and the worker.
            Some(process) => process.deliver(inputs).await,
            None => inputs,
        };
        // The process ended: the worker can forget the answers. Answers of a foreign process are for its owner.
        for answer in late {
            if let ProcessInput::Answered { key, .. } | ProcessInput::Doubted { key, .. } = answer
                && !context.processes.note_answer(&orders, &key)
            {
                let _ = orders.send(Order::Acknowledge(key));
            }
        }
    }
    for call in calls {
        let (ticket, process) = (call.ticket, call.id.as_ref().map_or("", |id| &id.process).to_owned());
        let doubted = !not_held.calls.is_empty()
            && call.id.as_ref().is_none_or(|id| not_held.calls.contains(&AttemptKey::from(id)));
        let sent = match context.processes.find(&process) {
            // The peer sends the call again if the pool learns that it has the attempt.
            Some(_) if doubted => true,
            Some(process) => process.call(call, orders.clone()).await,
            None => false,
        };
        // The owner of a foreign process gets the call when it claims the attempt.
        if !sent && !context.processes.is_foreign(&process) {
            let _ = orders.send(Order::Reply(reply_ended(ticket)));
        }
    }
}
