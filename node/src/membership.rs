//! A node's place in its group: it beats, and hears of the group.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tracing::{debug, info, warn};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;

const BEAT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);

/// Joins the group through the first manager that leads, again and again. `beat` tells how the node is; `roster` takes
/// what it hears.
pub(crate) async fn run(
    managers: Vec<String>,
    beat: impl Fn() -> v1::Heartbeat + Clone + Send + 'static,
    roster: impl Fn(v1::Roster),
) {
    let mut warned = false;
    loop {
        // Always from the first: whoever comes earlier leads when it is there.
        for manager in &managers {
            match join(manager, beat.clone(), &roster).await {
                Ok(()) => {
                    warn!(%manager, "the group manager closed the connection");
                    warned = false;
                    break;
                }
                Err(error) if !warned && managers.len() == 1 => {
                    warn!(%manager, %error, "cannot join the group; trying on");
                    warned = true;
                }
                Err(error) => debug!(%manager, %error, "cannot join the group here"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn join(
    manager: &str,
    beat: impl Fn() -> v1::Heartbeat + Send + 'static,
    roster: &impl Fn(v1::Roster),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let channel = Endpoint::from_shared(format!("http://{manager}"))?
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(2))
        .keep_alive_timeout(Duration::from_secs(2))
        .keep_alive_while_idle(true)
        .connect()
        .await?;
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
    let outcome = async {
        let mut news = GroupManagerClient::new(channel).join(ReceiverStream::new(receiver)).await?.into_inner();
        info!(%manager, "joined the group");
        while let Some(heard) = news.message().await? {
            roster(heard);
        }
        Ok(())
    }
    .await;
    beating.abort();
    outcome
}
