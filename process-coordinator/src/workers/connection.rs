//! The stream to one worker, or to another coordinator. A link opens it, sends orders, hands reports on, and opens it again
//! when it breaks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tracing::{debug, info};
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{Assembler, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, call_with_timeout, connect, pack, v1};
use xavantes_repository::Store;

use crate::codec;
use crate::convert::release_except;
use crate::process::handle::DecisionSender;
use crate::process::input::ProcessInput;
use crate::process::registry::ProcessRegistry;
use crate::process::summary::Summary;
use crate::workers::handle::{Orders, PoolHandle};
use crate::workers::messages::{Order, PeerKind};
use crate::workers::order_batch::{MAX_ORDERS_PER_MESSAGE, next_order_message, remove_sent_programs};
use crate::workers::peer_report::{PeerReport, ProcessAnswers, reply_ended};

/// Pauses before a link connects again: they double from the first to the longest.
const MIN_RECONNECT_PAUSE: Duration = Duration::from_millis(50);
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(2);

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
}

impl Context {
    /// Which files a worker may release that it keeps for a process; `None` if the process still runs or is foreign.
    async fn release(&self, process: String) -> Option<v1::Release> {
        if self.processes.find(&process).is_some() || self.processes.is_foreign(&process) {
            return None;
        }
        let results = match self.repository.find(&process).await.ok()? {
            None => Vec::new(),
            Some(entry) => codec::decode::<Summary>("summary", &entry.summary?).ok()?.results().ok()?,
        };
        Some(release_except(&process, results.iter().filter_map(|result| result.value.as_ref())))
    }

    /// Asks the group managers for a coordinator or a worker, or for a longer lease of the worker `again`. Only the manager
    /// that leads answers.
    pub async fn place(&self, what: v1::place_request::What, again: Option<&str>) -> Option<v1::PlaceResponse> {
        let (renew_group, renew) = again.and_then(|worker| worker.split_once('/')).unwrap_or_default();
        let request = v1::PlaceRequest {
            what: what.into(),
            node: self.hello.node.clone(),
            group: self.hello.group.clone(),
            renew: renew.to_owned(),
            renew_group: renew_group.to_owned(),
        };
        for manager in self.managers.iter() {
            if let Ok(channel) = connect(manager).await
                && let Ok(place) = call_with_timeout(GroupManagerClient::new(channel).place(request.clone())).await
            {
                return Some(place).filter(|place| place.node.is_some());
            }
        }
        None
    }
}

/// Keeps a connection to a peer until the dispatcher aborts this task.
pub(crate) async fn run(context: Context, peer: PeerKind, worker: Arc<str>, address: String) {
    let mut pause = MIN_RECONNECT_PAUSE;
    loop {
        match connect(&address).await {
            Ok(channel) => {
                let began = Instant::now();
                if let Err(status) = talk(&context, peer, &worker, channel).await {
                    debug!(%worker, %status, "stream broke");
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
async fn talk(context: &Context, peer: PeerKind, worker: &Arc<str>, channel: Channel) -> Result<(), tonic::Status> {
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
    let writer = tokio::spawn(async move {
        let mut batch = Vec::with_capacity(MAX_ORDERS_PER_MESSAGE);
        let mut sent_programs = HashSet::new();
        while to_send.recv_many(&mut batch, MAX_ORDERS_PER_MESSAGE).await > 0 {
            remove_sent_programs(&mut batch, &mut sent_programs);
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
        let mut assembler = Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES);
        while let Some(report) = reports.message().await? {
            if let Some(report) = assembler.unpack(report)? {
                on_report(context, worker, &orders, report).await;
            }
        }
        Ok(())
    }
    .await;
    writer.abort();
    outcome
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
    for input in report.pool_inputs {
        context.pool.handle(input);
    }
    for ProcessAnswers { process, inputs } in report.answers {
        let late = match context.processes.find(&process) {
            // If the process has much mail this waits, and with it the stream and the worker.
            Some(process) => process.deliver(inputs).await,
            None => inputs,
        };
        // The process ended: the worker can forget the answers. Answers of a foreign process are for its owner.
        for answer in late {
            if let ProcessInput::Answered { key, .. } = answer
                && !context.processes.note_answer(orders, &key)
            {
                let _ = orders.send(Order::Acknowledge(key));
            }
        }
    }
    for call in report.calls {
        let (ticket, process) = (call.ticket, call.id.as_ref().map_or("", |id| &id.process).to_owned());
        let sent = match context.processes.find(&process) {
            Some(process) => process.call(call, orders.clone()).await,
            None => false,
        };
        // The owner of a foreign process gets the call when it claims the attempt.
        if !sent && !context.processes.is_foreign(&process) {
            let _ = orders.send(Order::Reply(reply_ended(ticket)));
        }
    }
}
