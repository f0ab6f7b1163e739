//! A group manager that sends any roster to the nodes that join, and the neighbour of a real manager.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::group_manager_server::{GroupManager, GroupManagerServer};

type Sent<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A manager that accepts every node and sends all of them the same roster. It serves until the runtime ends.
#[derive(Clone)]
pub struct FakeManager {
    rosters: Arc<watch::Sender<v1::Roster>>,
    /// The place that it offers to coordinators.
    place: Arc<watch::Sender<v1::PlaceResponse>>,
    /// The summaries that it sends to adjacent groups.
    summaries: Arc<watch::Sender<v1::GroupSummaries>>,
}

impl FakeManager {
    /// Serves at an address.
    pub fn serve(address: &str) -> Self {
        let manager = Self {
            rosters: Arc::new(watch::channel(v1::Roster::default()).0),
            place: Arc::new(watch::channel(v1::PlaceResponse::default()).0),
            summaries: Arc::new(watch::channel(v1::GroupSummaries::default()).0),
        };
        let address: SocketAddr = address.parse().expect("it is an address");
        let service = GroupManagerServer::new(manager.clone());
        tokio::spawn(async move { Server::builder().add_service(service).serve(address).await.expect("it serves") });
        manager
    }

    /// Sends all nodes this roster from now on.
    pub fn set_roster(&self, roster: v1::Roster) {
        self.rosters.send_replace(roster);
    }

    /// Answers requests for a place with this one from now on.
    pub fn set_place(&self, place: v1::PlaceResponse) {
        self.place.send_replace(place);
    }

    /// Sends adjacent groups these summaries from now on.
    pub fn set_summaries(&self, summaries: v1::GroupSummaries) {
        self.summaries.send_replace(summaries);
    }
}

#[tonic::async_trait]
impl GroupManager for FakeManager {
    type JoinStream = Sent<v1::Roster>;
    type ExchangeStream = Sent<v1::GroupSummaries>;
    type FollowStream = Sent<v1::GroupState>;

    async fn join(&self, _: Request<Streaming<v1::Heartbeat>>) -> Result<Response<Self::JoinStream>, Status> {
        Ok(Response::new(Box::pin(WatchStream::new(self.rosters.subscribe()).map(Ok))))
    }

    async fn exchange(
        &self,
        _: Request<Streaming<v1::GroupSummaries>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        Ok(Response::new(Box::pin(WatchStream::new(self.summaries.subscribe()).map(Ok))))
    }

    async fn follow(&self, _: Request<v1::FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        Err(not_here())
    }

    async fn place(&self, _: Request<v1::PlaceRequest>) -> Result<Response<v1::PlaceResponse>, Status> {
        Ok(Response::new(self.place.borrow().clone()))
    }

    async fn list_groups(&self, _: Request<v1::ListGroupsRequest>) -> Result<Response<v1::ListGroupsResponse>, Status> {
        Err(not_here())
    }

    async fn list_sources(
        &self,
        _: Request<v1::ListSourcesRequest>,
    ) -> Result<Response<v1::ListSourcesResponse>, Status> {
        Err(not_here())
    }

    async fn add_source(&self, _: Request<v1::AddSourceRequest>) -> Result<Response<v1::AddSourceResponse>, Status> {
        Err(not_here())
    }

    async fn remove_source(
        &self,
        _: Request<v1::RemoveSourceRequest>,
    ) -> Result<Response<v1::RemoveSourceResponse>, Status> {
        Err(not_here())
    }

    async fn list_nodes(&self, _: Request<v1::ListNodesRequest>) -> Result<Response<v1::ListNodesResponse>, Status> {
        Err(not_here())
    }

    async fn drain(&self, _: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        Err(not_here())
    }
}

fn not_here() -> Status {
    Status::unimplemented("the fake manager does not answer this call")
}

/// The manager of an adjacent group, as a client of a real manager.
pub struct FakeNeighbour {
    sent: mpsc::Sender<v1::GroupSummaries>,
    received: Streaming<v1::GroupSummaries>,
}

impl FakeNeighbour {
    /// Connects with these first summaries.
    pub async fn connect(channel: &Channel, first: v1::GroupSummaries) -> Result<Self, Status> {
        let (sent, receiver) = mpsc::channel(4);
        sent.try_send(first).expect("the channel is empty");
        let client = GroupManagerClient::new(channel.clone()).max_decoding_message_size(1 << 30);
        let mut client = client.max_encoding_message_size(1 << 30);
        let received = client.exchange(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { sent, received })
    }

    /// Sends further summaries. Returns false if the manager has closed the stream.
    pub async fn send(&self, summaries: v1::GroupSummaries) -> bool {
        self.sent.send(summaries).await.is_ok()
    }

    /// The next summaries of the manager; `None` if it closed the stream.
    pub async fn summaries(&mut self) -> Result<Option<v1::GroupSummaries>, Status> {
        self.received.message().await
    }
}

/// Summaries of groups `PREFIX-0`, `PREFIX-1`, …, each with free slots and a coordinator.
pub fn many_summaries(sender: &str, prefix: &str, count: usize, number: u64) -> v1::GroupSummaries {
    let summary = |position: usize| v1::GroupSummary {
        group: format!("{prefix}-{position}"),
        managers: vec!["127.0.0.1:1".into()],
        free_slots: 1,
        slots: 1,
        workers: 1,
        number,
        ..v1::GroupSummary::default()
    };
    v1::GroupSummaries { group: sender.into(), summaries: (0..count).map(summary).collect() }
}
