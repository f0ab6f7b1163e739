//! A coordinator that sends any orders: to a worker, or to another coordinator that runs subtrees for it.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use xavantes_proto::v1;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;

/// Upper bound on the messages here: larger than any node accepts.
const MAX_BYTES: usize = 1 << 30;
/// Upper bound on the time that a report may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stream of a coordinator. Dropping it closes the stream.
pub struct FakeCoordinator {
    orders: mpsc::Sender<v1::WorkOrder>,
    reports: Streaming<v1::WorkReport>,
}

impl FakeCoordinator {
    /// The hello of a coordinator of this name, in a group and a realm of the same name.
    pub fn hello(name: &str) -> v1::CoordinatorHello {
        v1::CoordinatorHello {
            node: name.into(),
            group: name.into(),
            version: "1".into(),
            realm: name.into(),
            address: "127.0.0.1:1".into(),
            ..v1::CoordinatorHello::default()
        }
    }

    /// Opens a stream to a worker.
    pub async fn to_worker(channel: &Channel, hello: v1::CoordinatorHello) -> Result<Self, Status> {
        let (orders, sent) = first_order(hello);
        let client = ActivityManagerClient::new(channel.clone()).max_encoding_message_size(MAX_BYTES);
        let reports = client.max_decoding_message_size(MAX_BYTES).work(sent).await?.into_inner();
        Ok(Self { orders, reports })
    }

    /// Opens a stream to a coordinator that runs subtrees for others.
    pub async fn to_coordinator(channel: &Channel, hello: v1::CoordinatorHello) -> Result<Self, Status> {
        let (orders, sent) = first_order(hello);
        let client = ProcessCoordinatorClient::new(channel.clone()).max_encoding_message_size(MAX_BYTES);
        let reports = client.max_decoding_message_size(MAX_BYTES).delegate(sent).await?.into_inner();
        Ok(Self { orders, reports })
    }

    /// Sends an order. Returns false if the node has closed the stream, or does not read it.
    pub async fn send(&self, order: v1::WorkOrder) -> bool {
        matches!(self.orders.send_timeout(order, PATIENCE).await, Ok(()))
    }

    /// Sends a part of a large order.
    pub async fn send_part(&self, bytes: usize, last: bool) -> bool {
        let part = v1::Part { data: vec![0; bytes], last };
        self.send(v1::WorkOrder { part: Some(part), ..v1::WorkOrder::default() }).await
    }

    /// The next report; `None` if the node closed the stream. Panics if neither happens.
    pub async fn report(&mut self) -> Result<Option<v1::WorkReport>, Status> {
        tokio::time::timeout(PATIENCE, self.reports.message()).await.expect("a report in time")
    }

    /// The first answer to an attempt; `None` if the node closed the stream before.
    pub async fn answer(&mut self) -> Result<Option<v1::Answer>, Status> {
        while let Some(report) = self.report().await? {
            if let Some(answer) = report.answers.into_iter().next() {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The next answer to an attempt of this element; `None` if the node closed the stream before.
    pub async fn answer_to(&mut self, element: u64) -> Option<v1::Answer> {
        while let Ok(Some(report)) = self.report().await {
            let is_wanted = |answer: &v1::Answer| answer.id.as_ref().is_some_and(|id| id.element == element);
            if let Some(answer) = report.answers.into_iter().find(is_wanted) {
                return Some(answer);
            }
        }
        None
    }

    /// The error with which the node closed the stream. Panics if it does not.
    pub async fn refusal(&mut self) -> Status {
        loop {
            match self.report().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("the stream ended without an error"),
                Err(status) => return status,
            }
        }
    }
}

fn first_order(hello: v1::CoordinatorHello) -> (mpsc::Sender<v1::WorkOrder>, ReceiverStream<v1::WorkOrder>) {
    let (orders, receiver) = mpsc::channel(1);
    let first = v1::WorkOrder { hello: Some(hello), ..v1::WorkOrder::default() };
    orders.try_send(first).expect("the channel is empty");
    (orders, ReceiverStream::new(receiver))
}
