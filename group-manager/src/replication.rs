//! Replication between the managers of a group: each manager receives the states of all others, so that it knows which
//! one leads, and the state of the leader.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::debug;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, call_with_timeout, v1};

use crate::group_manager::Manager;
use crate::node_registry::NODE_LEASE;

/// Interval at which a manager sends its state.
const SEND_INTERVAL: Duration = Duration::from_millis(500);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// Follows the manager at a position in the order of succession until this manager is dropped.
pub(crate) async fn follow(manager: Weak<Manager>, group: String, position: usize, address: String) {
    while manager.strong_count() > 0 {
        if let Err(error) = receive(&manager, &group, position, &address).await {
            debug!(%address, %error, "cannot follow another manager of the group");
        }
        match manager.upgrade() {
            Some(manager) => manager.state().succession.on_unreachable(position),
            None => return,
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

async fn receive(
    manager: &Weak<Manager>,
    group: &str,
    position: usize,
    address: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let client = GroupManagerClient::new(xavantes_proto::connect(address).await?);
    let mut client = client.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let mut states = call_with_timeout(client.follow(v1::FollowRequest { group: group.to_owned() })).await?;
    while let Some(state) = tokio::time::timeout(NODE_LEASE, states.message()).await?? {
        let Some(manager) = manager.upgrade() else { return Ok(()) };
        manager.on_replica_state(position, state);
    }
    Ok(())
}

/// Sends the state to a manager that follows this one, until the follower disconnects.
pub(crate) async fn send_states(manager: Weak<Manager>, sender: mpsc::Sender<v1::GroupState>) {
    let mut ticks = tokio::time::interval(SEND_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(state) = manager.upgrade().map(|manager| manager.state_for_replicas()) else { return };
        if sender.send(state).await.is_err() {
            return;
        }
    }
}
