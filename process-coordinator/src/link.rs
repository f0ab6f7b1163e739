//! The stream to one worker: kept open, batched, opened again when it breaks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tracing::{debug, info};
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_PART, Message, too_large, v1};

use crate::pool::{Key, PoolMail, key_of};
use crate::process::{Mail, Processes};

/// Something for a worker.
#[derive(Debug)]
pub(crate) enum Order {
    Program(Arc<v1::Program>),
    Job(v1::Job),
    Cancel(Key),
    Pause(Key, bool),
    Reply(v1::SharedReply),
    Acknowledge(Key),
}

impl Order {
    /// How much room it takes in a message.
    fn size(&self) -> usize {
        match self {
            Self::Program(program) => program.encoded_len(),
            Self::Job(job) => job.encoded_len(),
            Self::Reply(reply) => reply.encoded_len(),
            Self::Cancel(key) | Self::Pause(key, _) | Self::Acknowledge(key) => key.0.len() + 32,
        }
    }
}

/// To a worker. What waits in it is bounded by the attempts that the worker has.
pub(crate) type Orders = mpsc::UnboundedSender<Order>;

/// Orders in one message at most.
const BATCH: usize = 256;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What every link of a coordinator needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub hello: v1::CoordinatorHello,
    pub processes: Processes,
    pub pool: mpsc::UnboundedSender<PoolMail>,
    /// The managers of the group.
    pub managers: Arc<[String]>,
}

impl Context {
    /// Asks the group's managers where something can run; the first that leads answers.
    pub async fn place(&self, what: v1::place_request::What) -> Option<v1::PlaceResponse> {
        let request =
            v1::PlaceRequest { what: what.into(), node: self.hello.node.clone(), group: self.hello.group.clone() };
        for manager in self.managers.iter() {
            if let Ok(channel) = connect(manager).await
                && let Ok(answer) = GroupManagerClient::new(channel).place(request.clone()).await
            {
                return Some(answer.into_inner()).filter(|place| place.node.is_some());
            }
        }
        None
    }
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An activity manager, which runs activities.
    Worker,
    /// Another coordinator, which runs subtrees.
    Coordinator,
}

/// Connects to a worker or another coordinator, for as long as the pool wants it.
pub(crate) async fn run(context: Context, peer: Peer, worker: Arc<str>, address: String) {
    let mut pause = FIRST_PAUSE;
    loop {
        match connect(&address).await {
            Ok(channel) => {
                let began = Instant::now();
                if let Err(status) = talk(&context, peer, &worker, channel).await {
                    debug!(%worker, %status, "stream broke");
                }
                if began.elapsed() > LONGEST_PAUSE {
                    pause = FIRST_PAUSE;
                }
                if context.pool.send(PoolMail::Disconnected(worker.clone())).is_err() {
                    return;
                }
            }
            Err(error) => debug!(%worker, %address, %error, "no connection"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

pub(crate) async fn connect(address: &str) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(5))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true)
        .connect()
        .await
}

async fn talk(context: &Context, peer: Peer, worker: &Arc<str>, channel: Channel) -> Result<(), tonic::Status> {
    let (sender, receiver) = mpsc::channel(4);
    let (orders, mut to_send) = mpsc::unbounded_channel::<Order>();
    let first = v1::WorkOrder { hello: Some(context.hello.clone()), ..v1::WorkOrder::default() };
    // The channel is empty and open.
    let _ = sender.send(first).await;
    let most = xavantes_proto::MAX_MESSAGE;
    let sent = ReceiverStream::new(receiver);
    let mut reports = match peer {
        Peer::Worker => {
            let client = ActivityManagerClient::new(channel);
            client.max_decoding_message_size(most).max_encoding_message_size(most).work(sent).await?.into_inner()
        }
        Peer::Coordinator => {
            let client = ProcessCoordinatorClient::new(channel);
            client.max_decoding_message_size(most).max_encoding_message_size(most).delegate(sent).await?.into_inner()
        }
    };
    let writer = tokio::spawn(async move {
        let mut batch = Vec::with_capacity(BATCH);
        let mut known = HashSet::new();
        while to_send.recv_many(&mut batch, BATCH).await > 0 {
            batch.retain(|order| !matches!(order, Order::Program(program) if !known.insert(program.digest.clone())));
            while !batch.is_empty() {
                let count = xavantes_proto::fitting(batch.iter().map(Order::size));
                if sender.send(message(batch.drain(..count))).await.is_err() {
                    return;
                }
            }
        }
    });
    let outcome = async {
        while let Some(report) = reports.message().await? {
            take(context, worker, &orders, report).await;
        }
        Ok(())
    }
    .await;
    writer.abort();
    outcome
}

fn message(orders: impl Iterator<Item = Order>) -> v1::WorkOrder {
    let mut message = v1::WorkOrder::default();
    for order in orders {
        match order {
            Order::Program(program) => message.programs.push(v1::Program::clone(&program)),
            Order::Job(job) => message.jobs.push(job),
            Order::Cancel(key) => message.cancels.push(wire_id(&key)),
            Order::Pause(key, paused) => message.pauses.push(v1::PauseOrder { id: Some(wire_id(&key)), paused }),
            Order::Reply(reply) => message.replies.push(sendable(reply)),
            Order::Acknowledge(key) => message.acknowledged.push(wire_id(&key)),
        }
    }
    message
}

/// The content of a shared object may be larger than a message.
fn sendable(reply: v1::SharedReply) -> v1::SharedReply {
    match reply.encoded_len() {
        size if size > MAX_PART => {
            let error = v1::shared_reply::Result::Error(too_large("the values", size));
            v1::SharedReply { ticket: reply.ticket, result: Some(error) }
        }
        _ => reply,
    }
}

fn wire_id((process, element, attempt): &Key) -> v1::AttemptId {
    v1::AttemptId { process: process.to_string(), element: *element, attempt: *attempt }
}

async fn take(context: &Context, worker: &Arc<str>, orders: &Orders, report: v1::WorkReport) {
    if let Some(hello) = report.hello {
        info!(%worker, slots = hello.slots, "worker connected");
        let _ = context.pool.send(PoolMail::Connected(worker.clone(), hello, orders.clone()));
    }
    if report.draining {
        let _ = context.pool.send(PoolMail::Draining(worker.clone()));
    }
    // Before the answers: afterwards the element that printed is gone.
    for printed in report.printed {
        if let Some(id) = printed.id
            && let Some(process) = context.processes.find(&id.process)
        {
            let _ = process.mail.send(Mail::Printed(id.element, printed.line)).await;
        }
    }
    for answer in report.answers {
        let (Some(id), Some(outcome)) = (answer.id, answer.outcome) else { continue };
        let key = key_of(&id);
        if let v1::answer::Outcome::Refused(refusal) = outcome {
            let _ = context.pool.send(PoolMail::Refused(worker.clone(), key, refusal));
            continue;
        }
        let _ = context.pool.send(PoolMail::Answered(worker.clone(), key.clone()));
        match context.processes.find(&key.0) {
            Some(process) => {
                let mail = Mail::Answered { key, outcome, counts: answer.counts, orders: Some(orders.clone()) };
                // Waits if the process has much mail: so does the worker's stream, and so the worker.
                let _ = process.mail.send(mail).await;
            }
            // Of a process that is over: nobody wants it any more.
            None => drop(orders.send(Order::Acknowledge(key))),
        }
    }
    for call in report.calls {
        let ticket = call.ticket;
        let process = call.id.as_ref().and_then(|id| context.processes.find(&id.process));
        let sent = match process {
            Some(process) => process.mail.send(Mail::Called { call, orders: orders.clone() }).await.is_ok(),
            None => false,
        };
        if !sent {
            let result = Some(v1::shared_reply::Result::Error("the process has ended".into()));
            let _ = orders.send(Order::Reply(v1::SharedReply { ticket, result }));
        }
    }
}
