//! Adjacent groups' managers, with whom summaries are exchanged.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tracing::debug;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{question, v1};

use crate::service::Shared;

const TELL_EVERY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(1);
/// A neighbour that tells nothing for so long is not there.
const SILENCE: Duration = Duration::from_secs(5);

/// Exchanges summaries with an adjacent group, for as long as this manager lives: with the manager at this address, or,
/// while that one is not there or does not lead, with one that it named as another manager of its group.
pub(crate) async fn exchange(shared: Weak<Shared>, configured: String) {
    for turn in 0.. {
        let Some(others) = shared.upgrade().map(|it| it.books().adjacent.get(&configured).cloned()) else { return };
        let others = others.unwrap_or_default();
        let turn = turn % (others.len() + 1);
        let address = if turn == 0 { &configured } else { &others[turn - 1] };
        match talk(&shared, &configured, address, !others.is_empty()).await {
            Ok(()) => debug!(address, "the adjacent group is not led from here"),
            Err(error) => debug!(address, %error, "the adjacent group is not there"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Talks to a manager as long as it is there, and leads if there are others that might.
async fn talk(
    shared: &Weak<Shared>,
    configured: &str,
    address: &str,
    others: bool,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut client = GroupManagerClient::new(xavantes_proto::connect(address).await?);
    let (sender, receiver) = mpsc::channel(1);
    // Whom we talk to is only known when they answer; until then nothing is held back.
    let (name, named) = watch::channel(String::new());
    let telling = tokio::spawn(tell(shared.clone(), named, sender));
    let outcome = async {
        let mut news = question(client.exchange(ReceiverStream::new(receiver))).await?;
        while let Some(heard) = tokio::time::timeout(SILENCE, news.message()).await?? {
            let Some(shared) = shared.upgrade() else { return Ok(()) };
            name.send_if_modified(|name| std::mem::replace(name, heard.group.clone()) != heard.group);
            // Whoever does not lead tells nothing.
            match heard.summaries.iter().find(|it| it.group == heard.group) {
                None if others => return Ok(()),
                // The first is the one that speaks.
                Some(own) if address == configured => {
                    let others = own.managers.iter().skip(1).cloned().collect();
                    shared.books().adjacent.insert(configured.to_owned(), others);
                }
                _ => {}
            }
            shared.hear(heard);
        }
        Ok(())
    }
    .await;
    telling.abort();
    outcome
}

/// Tells a neighbour what is known, every second, until it has gone.
pub(crate) async fn tell(
    shared: Weak<Shared>,
    neighbour: watch::Receiver<String>,
    sender: mpsc::Sender<v1::GroupSummaries>,
) {
    let mut ticks = tokio::time::interval(TELL_EVERY);
    loop {
        ticks.tick().await;
        let name = neighbour.borrow().clone();
        let Some(news) = shared.upgrade().map(|shared| shared.summaries(&name)) else { return };
        if sender.send(news).await.is_err() {
            return;
        }
    }
}
