//! The membership of a node in its group: it sends heartbeats to the manager that leads and receives the roster.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{call_with_timeout, status_text, transport_text, v1};

const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Managers send a roster every second. A manager that sends none for this long is gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the membership through one manager ended, or did not begin.
#[derive(Debug)]
enum Departure {
    /// The manager closed the stream.
    Closed,
    /// The manager leads in an earlier epoch than this node has seen.
    Outdated,
    /// The manager cannot be reached, does not lead, or is silent.
    Failed(String),
}

/// Joins the group through the manager that leads, again and again. `heartbeat` reports the state of the node, also at once
/// when it begins to drain; `on_roster` handles each roster.
pub(crate) async fn run(
    managers: Vec<String>,
    heartbeat: impl Fn() -> v1::Heartbeat + Clone + Send + 'static,
    draining: CancellationToken,
    on_roster: impl Fn(v1::Roster),
) {
    let mut warned = false;
    // Epoch of the last roster.
    let mut epoch = 0;
    loop {
        let mut outdated = None;
        // Always from the first: a manager leads when all those before it are gone.
        for manager in &managers {
            let minimum = epoch;
            match join(manager, heartbeat.clone(), draining.clone(), &on_roster, minimum, &mut epoch).await {
                Departure::Closed => {
                    warn!(%manager, "the group manager closed the connection");
                    warned = false;
                    outdated = None;
                    break;
                }
                Departure::Outdated => outdated = Some(manager),
                Departure::Failed(error) if !warned && managers.len() == 1 => {
                    warn!(%manager, error, "cannot join the group; trying again");
                    warned = true;
                }
                Departure::Failed(error) => debug!(%manager, error, "cannot join the group through this manager"),
            }
        }
        if let Some(manager) = outdated {
            // No manager leads in a newer epoch: the managers lost their state and count anew.
            epoch = 0;
            join(manager, heartbeat.clone(), draining.clone(), &on_roster, 0, &mut epoch).await;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Stays in the group while the manager is there and leads, in the epoch `minimum` or later.
async fn join(
    manager: &str,
    heartbeat: impl Fn() -> v1::Heartbeat + Send + 'static,
    draining: CancellationToken,
    on_roster: &impl Fn(v1::Roster),
    minimum: u64,
    epoch: &mut u64,
) -> Departure {
    let channel = match xavantes_proto::connect(manager).await {
        Ok(channel) => channel,
        Err(error) => return Departure::Failed(transport_text(&error)),
    };
    let (sender, receiver) = mpsc::channel(1);
    let heartbeats = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(HEARTBEAT_INTERVAL);
        loop {
            // The manager lists a node as lost that ends without a heartbeat that says so.
            let leaves = draining.is_cancelled();
            tokio::select! {
                _ = ticks.tick() => {}
                () = draining.cancelled(), if !leaves => {}
            }
            if sender.send(heartbeat()).await.is_err() {
                return;
            }
        }
    });
    let departure = async {
        let mut rosters =
            match call_with_timeout(GroupManagerClient::new(channel).join(ReceiverStream::new(receiver))).await {
                Ok(rosters) => rosters,
                Err(status) => return Departure::Failed(status_text(&status).into()),
            };
        info!(%manager, "joined the group");
        loop {
            match tokio::time::timeout(SILENCE_TIMEOUT, rosters.message()).await {
                Ok(Ok(Some(roster))) if roster.epoch < minimum => return Departure::Outdated,
                Ok(Ok(Some(roster))) => {
                    *epoch = roster.epoch;
                    on_roster(roster);
                }
                Ok(Ok(None)) => return Departure::Closed,
                Ok(Err(status)) => return Departure::Failed(status_text(&status).into()),
                Err(_) => return Departure::Failed("the manager is silent".into()),
            }
        }
    }
    .await;
    heartbeats.abort();
    departure
}
