//! Adjacent groups' managers, with whom summaries are exchanged, and those managers of the own group that lead before
//! this one does.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tracing::{debug, info, warn};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;

use crate::service::Shared;

const TELL_EVERY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(1);
/// How often a replica looks whether somebody before it is there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// It leads when nobody was there so many times in a row.
const SILENT_LOOKS: u32 = 3;

pub(crate) async fn connect(address: &str) -> Result<GroupManagerClient<Channel>, tonic::transport::Error> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(Duration::from_secs(1))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(2))
        .keep_alive_timeout(Duration::from_secs(2))
        .keep_alive_while_idle(true)
        .connect()
        .await?;
    Ok(GroupManagerClient::new(channel))
}

/// Exchanges summaries with an adjacent group, for as long as this manager lives.
pub(crate) async fn exchange(shared: Weak<Shared>, address: String) {
    while shared.strong_count() > 0 {
        match connect(&address).await {
            Ok(client) => {
                if let Err(status) = talk(&shared, client).await {
                    debug!(%address, %status, "the adjacent group broke off");
                }
            }
            Err(error) => debug!(%address, %error, "the adjacent group is not there"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn talk(shared: &Weak<Shared>, mut client: GroupManagerClient<Channel>) -> Result<(), tonic::Status> {
    let (sender, receiver) = mpsc::channel(1);
    // Whom we talk to is only known when they answer; until then nothing is held back.
    let (name, named) = watch::channel(String::new());
    let telling = tokio::spawn(tell(shared.clone(), named, sender));
    let outcome = async {
        let mut news = client.exchange(ReceiverStream::new(receiver)).await?.into_inner();
        while let Some(heard) = news.message().await? {
            let Some(shared) = shared.upgrade() else { return Ok(()) };
            name.send_if_modified(|name| std::mem::replace(name, heard.group.clone()) != heard.group);
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

/// A replica leads while none of the managers before it is there.
pub(crate) async fn stand_by(shared: Weak<Shared>, before: Vec<String>) {
    let mut silent = 0;
    loop {
        let mut somebody = false;
        for address in &before {
            somebody |= connect(address).await.is_ok();
        }
        silent = if somebody { 0 } else { silent + 1 };
        let Some(shared) = shared.upgrade() else { return };
        let leads = silent >= SILENT_LOOKS;
        if shared.leads.load(Ordering::Acquire) != leads {
            if leads {
                warn!("the managers before this one are silent: leading the group");
            } else {
                info!("a manager before this one is back");
            }
            shared.lead(leads);
        }
        drop(shared);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
