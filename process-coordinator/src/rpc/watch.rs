//! `Watch`: the status of a process, as it changes, until its end. The stream outlives a change of the owner.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use xavantes_proto::v1;
use xavantes_repository::Entry;
use xavantes_telemetry::metrics;

use crate::coordinator::Coordinator;
use crate::process::process_registry::HeldProcess;
use crate::process::shortened_views::cut_status;
use crate::rpc::find::{FoundProcess, find};
use crate::rpc::forward::Owner;

/// Shortest time between two updates. The last update comes at once.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(200);
/// After the owner was lost, the process is looked for at this interval, and for this long: a takeover waits for the end of
/// a lease.
const SEARCH_INTERVAL: Duration = Duration::from_millis(500);
const SEARCH_TIMEOUT: Duration = Duration::from_secs(40);

type StatusStream = Pin<Box<dyn Stream<Item = Result<v1::ProcessStatus, Status>> + Send>>;
type Watcher = mpsc::Sender<Result<v1::ProcessStatus, Status>>;

/// Where the changes of a process come from.
enum WatchSource {
    Here(watch::Receiver<v1::ProcessStatus>),
    Owner(Box<Streaming<v1::ProcessStatus>>),
    /// The process is held here, until the receiver changes.
    Held(Box<HeldProcess>, watch::Receiver<()>),
    /// The repository: the process has ended.
    Ended(Box<Entry>),
}

/// How a source ended.
enum SourceEnd {
    /// The watcher has seen the end of the process, or is gone.
    Done,
    /// The source knows no more, and the process has not ended.
    Lost,
}

pub(super) async fn watch(coordinator: &Arc<Coordinator>, request: v1::WatchRequest) -> Result<StatusStream, Status> {
    let source = open(coordinator, &request).await?;
    let (sender, receiver) = mpsc::channel(1);
    let coordinator = coordinator.clone();
    tokio::spawn(async move {
        metrics().watchers.inc();
        follow(coordinator, request, source, sender).await;
        metrics().watchers.dec();
    });
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

async fn open(coordinator: &Coordinator, request: &v1::WatchRequest) -> Result<WatchSource, Status> {
    let held_changes = coordinator.processes.held_changes();
    match find(coordinator, &request.process).await? {
        FoundProcess::Running(_, handle) => Ok(WatchSource::Here(handle.status)),
        FoundProcess::Held(_, held) => Ok(WatchSource::Held(held, held_changes)),
        FoundProcess::Ended(entry) => Ok(WatchSource::Ended(entry)),
        FoundProcess::Elsewhere(entry) => {
            let request = v1::WatchRequest { forwards: request.forwards.saturating_add(1), ..request.clone() };
            let owner = Owner::of(coordinator, &entry, request.forwards).await?;
            let changes = owner.ask(|mut client| async move { client.watch(request).await }).await?;
            Ok(WatchSource::Owner(Box::new(changes)))
        }
    }
}

/// Sends the status until the process has ended, wherever it runs.
async fn follow(coordinator: Arc<Coordinator>, request: v1::WatchRequest, mut source: WatchSource, watcher: Watcher) {
    loop {
        let end = match source {
            WatchSource::Here(status) => send_updates(status, &watcher).await,
            WatchSource::Owner(changes) => pass_on(*changes, &watcher).await,
            WatchSource::Held(held, changes) => send_held(*held, changes, &watcher).await,
            WatchSource::Ended(entry) => {
                let _ = watcher.send(Ok(coordinator.status_of(&entry))).await;
                return;
            }
        };
        if matches!(end, SourceEnd::Done) {
            return;
        }
        let lost = Instant::now();
        source = loop {
            match open(&coordinator, &request).await {
                Ok(source) => break source,
                Err(status) if lost.elapsed() > SEARCH_TIMEOUT => {
                    let _ = watcher.send(Err(status)).await;
                    return;
                }
                Err(_) => tokio::select! {
                    () = tokio::time::sleep(SEARCH_INTERVAL) => {}
                    () = watcher.closed() => return,
                },
            }
        };
    }
}

async fn send_held(held: HeldProcess, mut changes: watch::Receiver<()>, watcher: &Watcher) -> SourceEnd {
    if watcher.send(Ok(held.status)).await.is_err() {
        return SourceEnd::Done;
    }
    tokio::select! {
        _ = changes.changed() => SourceEnd::Lost,
        () = watcher.closed() => SourceEnd::Done,
    }
}

async fn pass_on(mut changes: Streaming<v1::ProcessStatus>, watcher: &Watcher) -> SourceEnd {
    loop {
        let status = tokio::select! {
            status = changes.message() => status,
            () = watcher.closed() => return SourceEnd::Done,
        };
        let Ok(Some(status)) = status else { return SourceEnd::Lost };
        let ended = status.ended_ms > 0;
        if watcher.send(Ok(status)).await.is_err() || ended {
            return SourceEnd::Done;
        }
    }
}

async fn send_updates(mut status: watch::Receiver<v1::ProcessStatus>, watcher: &Watcher) -> SourceEnd {
    loop {
        let mut now = status.borrow_and_update().clone();
        cut_status(&mut now);
        let ended = now.ended_ms > 0;
        if watcher.send(Ok(now)).await.is_err() || ended {
            return SourceEnd::Done;
        }
        // A process may have many watchers: none of them wakes up for every change.
        tokio::select! {
            ended = status.wait_for(|status| status.ended_ms > 0) => if ended.is_err() { return SourceEnd::Lost },
            () = tokio::time::sleep(MIN_UPDATE_INTERVAL) => {}
            () = watcher.closed() => return SourceEnd::Done,
        }
        // An unchanged status is not sent.
        while !status.has_changed().unwrap_or(true) {
            tokio::select! {
                changed = status.changed() => {
                    if changed.is_err() {
                        return SourceEnd::Lost;
                    }
                    status.mark_changed();
                }
                () = watcher.closed() => return SourceEnd::Done,
            }
        }
    }
}
