//! A node that joins a group with any description.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;

/// Upper bound on the time that a roster may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node in a group. The manager loses it when this is dropped.
pub struct FakeNode {
    heartbeats: mpsc::Sender<v1::Heartbeat>,
    rosters: Streaming<v1::Roster>,
}

impl FakeNode {
    /// A heartbeat of a worker with slots.
    pub fn worker(group: &str, name: &str, address: &str, slots: u32) -> v1::Heartbeat {
        let node = v1::NodeDescription {
            name: name.into(),
            address: address.into(),
            roles: vec![v1::Role::ActivityManager.into()],
            slots,
            version: "1".into(),
            ..v1::NodeDescription::default()
        };
        v1::Heartbeat { node: Some(node), group: group.into(), life: 1, ..v1::Heartbeat::default() }
    }

    /// Joins a group with this first heartbeat.
    pub async fn join(channel: &Channel, first: v1::Heartbeat) -> Result<Self, Status> {
        let (heartbeats, receiver) = mpsc::channel(4);
        heartbeats.try_send(first).expect("the channel is empty");
        let rosters = GroupManagerClient::new(channel.clone()).join(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { heartbeats, rosters })
    }

    /// Sends a further heartbeat. Returns false if the manager has closed the stream.
    pub async fn beat(&self, heartbeat: v1::Heartbeat) -> bool {
        self.heartbeats.send(heartbeat).await.is_ok()
    }

    /// The next roster; `None` if the manager closed the stream.
    pub async fn roster(&mut self) -> Result<Option<v1::Roster>, Status> {
        tokio::time::timeout(PATIENCE, self.rosters.message()).await.expect("a roster in time")
    }
}
