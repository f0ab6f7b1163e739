//! The other managers of the group: each hears from all others, so that all know who leads, and what that one knows.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::debug;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{MAX_MESSAGE, question, v1};

use crate::registry::LEASE;
use crate::service::Shared;

/// How often a manager says that it is there.
const TELL_EVERY: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);

/// Follows the manager at this place in the order, for as long as this one lives.
pub(crate) async fn follow(shared: Weak<Shared>, group: String, place: usize, address: String) {
    while shared.strong_count() > 0 {
        if let Err(error) = listen(&shared, &group, place, &address).await {
            debug!(%address, %error, "the manager is not there");
        }
        match shared.upgrade() {
            Some(shared) => shared.books().succession.miss(place),
            None => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen(
    shared: &Weak<Shared>,
    group: &str,
    place: usize,
    address: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let client = GroupManagerClient::new(xavantes_proto::connect(address).await?);
    let mut client = client.max_decoding_message_size(MAX_MESSAGE);
    let mut states = question(client.follow(v1::FollowRequest { group: group.to_owned() })).await?;
    while let Some(state) = tokio::time::timeout(LEASE, states.message()).await?? {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        shared.follow(place, state);
    }
    Ok(())
}

/// Tells a follower what is known, until it has gone.
pub(crate) async fn tell(shared: Weak<Shared>, sender: mpsc::Sender<v1::GroupState>) {
    let mut ticks = tokio::time::interval(TELL_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(state) = shared.upgrade().map(|shared| shared.told()) else { return };
        if sender.send(state).await.is_err() {
            return;
        }
    }
}
