//! A node's place in its group: it beats, and hears of the group.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, info, warn};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{call_with_timeout, v1};

const BEAT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);
/// Managers tell something every second. One that does not for so long is not there.
const SILENCE: Duration = Duration::from_secs(5);

/// Why a node is not, or no longer, in its group through a manager.
#[derive(Debug)]
enum Apart {
    /// The manager let go.
    Closed,
    /// It leads in an epoch that is over, as far as this node knows.
    Outdated,
    /// It cannot be reached, does not lead, or is silent.
    Failed(String),
}

/// Joins the group through the manager that leads, again and again. `beat` tells how the node is; `roster` takes what it
/// hears.
pub(crate) async fn run(
    managers: Vec<String>,
    beat: impl Fn() -> v1::Heartbeat + Clone + Send + 'static,
    roster: impl Fn(v1::Roster),
) {
    let mut warned = false;
    // The epoch that was heard last.
    let mut epoch = 0;
    loop {
        let mut outdated = None;
        // Always from the first: whoever comes earlier leads when it is there.
        for manager in &managers {
            let least = epoch;
            match join(manager, beat.clone(), &roster, least, &mut epoch).await {
                Apart::Closed => {
                    warn!(%manager, "the group manager closed the connection");
                    warned = false;
                    outdated = None;
                    break;
                }
                Apart::Outdated => outdated = Some(manager),
                Apart::Failed(error) if !warned && managers.len() == 1 => {
                    warn!(%manager, error, "cannot join the group; trying on");
                    warned = true;
                }
                Apart::Failed(error) => debug!(%manager, error, "cannot join the group here"),
            }
        }
        if let Some(manager) = outdated {
            // Nobody leads in a newer one: the managers have begun anew.
            epoch = 0;
            join(manager, beat.clone(), &roster, 0, &mut epoch).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Is in the group as long as the manager is there and leads, in an epoch that is not before `least`.
async fn join(
    manager: &str,
    beat: impl Fn() -> v1::Heartbeat + Send + 'static,
    roster: &impl Fn(v1::Roster),
    least: u64,
    epoch: &mut u64,
) -> Apart {
    let channel = match xavantes_proto::connect(manager).await {
        Ok(channel) => channel,
        Err(error) => return Apart::Failed(error.to_string()),
    };
    let (sender, receiver) = mpsc::channel(1);
    let beating = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(BEAT);
        loop {
            ticks.tick().await;
            if sender.send(beat()).await.is_err() {
                return;
            }
        }
    });
    let apart = async {
        let mut news =
            match call_with_timeout(GroupManagerClient::new(channel).join(ReceiverStream::new(receiver))).await {
                Ok(news) => news,
                Err(status) => return Apart::Failed(status.to_string()),
            };
        info!(%manager, "joined the group");
        loop {
            match tokio::time::timeout(SILENCE, news.message()).await {
                Ok(Ok(Some(heard))) if heard.epoch < least => return Apart::Outdated,
                Ok(Ok(Some(heard))) => {
                    *epoch = heard.epoch;
                    roster(heard);
                }
                Ok(Ok(None)) => return Apart::Closed,
                Ok(Err(status)) => return Apart::Failed(status.to_string()),
                Err(_) => return Apart::Failed("it is silent".into()),
            }
        }
    }
    .await;
    beating.abort();
    apart
}
