//! The exchange of summaries with the managers of adjacent groups.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tracing::debug;
use xavantes_proto::message_limits::{check_address, check_name};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{call_with_timeout, v1};

use crate::federation::{MAX_MANAGERS, Merged};
use crate::group_manager::Manager;

/// Interval at which a manager sends its summaries.
const SEND_INTERVAL: Duration = Duration::from_secs(1);
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// A neighbour that sends nothing for this long counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Exchanges summaries with an adjacent group until this manager is dropped. Talks to the manager at the configured
/// address. While that one cannot be reached or does not lead, tries the other managers that it named.
pub(crate) async fn exchange(manager: Weak<Manager>, configured: String) {
    for turn in 0.. {
        let Some(others) = manager.upgrade().map(|it| it.state().adjacent.get(&configured).cloned()) else { return };
        let others = others.unwrap_or_default();
        let turn = turn % (others.len() + 1);
        let address = if turn == 0 { &configured } else { &others[turn - 1] };
        match talk(&manager, &configured, address, !others.is_empty()).await {
            Ok(()) => debug!(address, "this manager does not lead the adjacent group"),
            Err(error) => debug!(address, %error, "cannot reach the adjacent group"),
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// Exchanges summaries with one manager until the connection breaks. Also ends if that manager does not lead and the
/// group has other managers.
async fn talk(
    manager: &Weak<Manager>,
    configured: &str,
    address: &str,
    has_others: bool,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut client = GroupManagerClient::new(xavantes_proto::connect(address).await?);
    let (sender, receiver) = mpsc::channel(1);
    // The name of the neighbour is unknown before its first answer. Until then no summary is left out.
    let (name, named) = watch::channel(String::new());
    let sending = tokio::spawn(send_summaries(manager.clone(), named, sender));
    let outcome = async {
        let mut answers = call_with_timeout(client.exchange(ReceiverStream::new(receiver))).await?;
        while let Some(received) = tokio::time::timeout(SILENCE_TIMEOUT, answers.message()).await?? {
            let Some(manager) = manager.upgrade() else { return Ok(()) };
            check_name("the name of the neighbour", &received.group)?;
            name.send_if_modified(|name| std::mem::replace(name, received.group.clone()) != received.group);
            // Only a leader sends the summary of its own group.
            match received.summaries.iter().find(|it| it.group == received.group) {
                None if has_others => return Ok(()),
                // The sender is the first of the managers.
                Some(own) if address == configured => {
                    let valid = |address: &&String| check_address("the address of a manager", address).is_ok();
                    let others = own.managers.iter().skip(1).filter(valid).take(MAX_MANAGERS).cloned().collect();
                    manager.state().adjacent.insert(configured.to_owned(), others);
                }
                _ => {}
            }
            let merged = manager.on_summaries(received);
            if merged != Merged::default() {
                debug!(address, ?merged, "ignored summaries of a neighbour: too many, or not valid");
            }
        }
        Ok(())
    }
    .await;
    sending.abort();
    outcome
}

/// Sends summaries to a neighbour until it disconnects.
pub(crate) async fn send_summaries(
    manager: Weak<Manager>,
    neighbour: watch::Receiver<String>,
    sender: mpsc::Sender<v1::GroupSummaries>,
) {
    let mut ticks = tokio::time::interval(SEND_INTERVAL);
    loop {
        ticks.tick().await;
        let name = neighbour.borrow().clone();
        let Some(summaries) = manager.upgrade().map(|manager| manager.summaries_for(&name)) else { return };
        if sender.send(summaries).await.is_err() {
            return;
        }
    }
}
