//! `Watch`: the status of a process, as it changes, until its end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use xavantes_proto::v1;

use crate::coordinator::Coordinator;
use crate::rpc::find::{FoundProcess, find};

/// Shortest time between two updates. The last update comes at once.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(200);

type StatusStream = Pin<Box<dyn Stream<Item = Result<v1::ProcessStatus, Status>> + Send>>;

pub(super) async fn watch(coordinator: &Arc<Coordinator>, request: v1::WatchRequest) -> Result<StatusStream, Status> {
    let (sender, receiver) = mpsc::channel(1);
    let mut changes = coordinator.processes.held_changes();
    let mut found = find(coordinator, &request.process).await?;
    if let FoundProcess::Stored(entry) = found {
        return Ok(Box::pin(tokio_stream::once(Ok(coordinator.status_of(&entry)))));
    }
    let coordinator = coordinator.clone();
    tokio::spawn(async move {
        loop {
            match found {
                FoundProcess::Running(_, handle) => return send_updates(handle.status, sender).await,
                FoundProcess::Held(_, held) => {
                    if sender.send(Ok(held.status)).await.is_err() {
                        return;
                    }
                }
                FoundProcess::Stored(entry) => {
                    let status = coordinator.status_of(&entry);
                    let ended = status.ended_ms > 0;
                    if sender.send(Ok(status)).await.is_err() || ended {
                        return;
                    }
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
            found = match find(&coordinator, &request.process).await {
                Ok(found) => found,
                Err(error) => return drop(sender.send(Err(error)).await),
            };
        }
    });
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

async fn send_updates(
    mut status: watch::Receiver<v1::ProcessStatus>,
    sender: mpsc::Sender<Result<v1::ProcessStatus, Status>>,
) {
    loop {
        let now = status.borrow_and_update().clone();
        let ended = now.ended_ms > 0;
        if sender.send(Ok(now)).await.is_err() || ended {
            return;
        }
        // A process may have many watchers: none of them wakes up for every change.
        tokio::select! {
            ended = status.wait_for(|status| status.ended_ms > 0) => if ended.is_err() { return },
            () = tokio::time::sleep(MIN_UPDATE_INTERVAL) => {}
            () = sender.closed() => return,
        }
        // An unchanged status is not sent.
        while !status.has_changed().unwrap_or(true) {
            tokio::select! {
                changed = status.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    status.mark_changed();
                }
                () = sender.closed() => return,
            }
        }
    }
}
