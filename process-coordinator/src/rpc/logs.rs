//! `Logs`: what activities write, found at the workers that run or ran them. The coordinator does not store which worker ran
//! an attempt: it asks them all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_stream::Stream;
use tonic::Status;
use xavantes_proto::message_limits::check_path;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, call_with_timeout, connect, v1};
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;
use crate::rpc::forward::Owner;
use crate::workers::worker_messages::Vicinity;

/// Upper bound on the coordinators that pass on one question, because subtrees may have been delegated back and forth.
pub(super) const MAX_HOPS: u32 = 8;
/// A follower of an element that has not begun searches again at this interval.
const SEARCH_INTERVAL: Duration = Duration::from_millis(300);

type PieceStream = Pin<Box<dyn Stream<Item = Result<v1::LogPiece, Status>> + Send>>;

/// What an attempt of an element wrote, or writes.
pub(super) async fn logs(coordinator: &Arc<Coordinator>, request: v1::LogsRequest) -> Result<PieceStream, Status> {
    check_path("the path", &request.path)?;
    let process = request.path.split('/').next().unwrap_or_default();
    loop {
        // Before the search, so that it finds what the process writes just before its end.
        let runs = coordinator.processes.find(process).is_some();
        // The owner knows where its subtrees are, and waits for an element that has not begun.
        let owned = if runs || request.hops > 0 { None } else { owned_elsewhere(coordinator, process).await? };
        let follows = request.follow && request.hops == 0;
        if let Some(entry) = owned.as_ref().filter(|entry| follows && entry.summary.is_none()) {
            return ask_owner(coordinator, entry, &request).await;
        }
        if let Some(pieces) = search(coordinator, &request).await? {
            return Ok(pieces);
        }
        if let Some(entry) = owned {
            return ask_owner(coordinator, &entry, &request).await;
        }
        if !(follows && runs) {
            return Err(Status::not_found(nothing_known(&request)));
        }
        tokio::time::sleep(SEARCH_INTERVAL).await;
    }
}

fn nothing_known(request: &v1::LogsRequest) -> String {
    let which = match request.attempt {
        0 => String::new(),
        number => format!("attempt {number} of "),
    };
    format!(
        "nothing is known of what {which}{} wrote: it has not begun or is no activity, wrote nothing, ended too long ago, \
         or its worker is gone",
        request.path
    )
}

/// The process, if another coordinator of the repository runs or ran it.
pub(super) async fn owned_elsewhere(coordinator: &Coordinator, process: &str) -> Result<Option<Entry>, Status> {
    if !coordinator.options.shared {
        return Ok(None);
    }
    let entry = coordinator.repository.find(process).await.map_err(|error| repository_status(&error))?;
    Ok(entry.filter(|entry| entry.owner != coordinator.options.node))
}

async fn ask_owner(coordinator: &Coordinator, entry: &Entry, request: &v1::LogsRequest) -> Result<PieceStream, Status> {
    let owner = Owner::of(coordinator, entry, request.forwards).await?;
    let request = v1::LogsRequest { forwards: request.forwards.saturating_add(1), ..request.clone() };
    let pieces = match request.follow {
        // An activity that has not begun sends no piece for a while.
        true => owner.follow(|mut client| async move { client.logs(request).await }).await?,
        false => owner.ask(|mut client| async move { client.logs(request).await }).await?,
    };
    Ok(Box::pin(owner.pass_on(pieces)))
}

/// Records of an element's attempts, as far as connected workers have them, in the order of the attempts.
pub(super) async fn attempt_records(coordinator: &Coordinator, path: &str) -> Vec<v1::AttemptRecord> {
    let workers = coordinator.pool.vicinity(path).await.workers;
    let found = ask_workers(coordinator, path, workers).await;
    found.into_iter().map(|(_, record)| record).collect()
}

/// The attempts of an element that these workers have records of, with the addresses of the workers.
async fn ask_workers(coordinator: &Coordinator, path: &str, workers: Vec<String>) -> Vec<(String, v1::AttemptRecord)> {
    let request = v1::AttemptsRequest { realm: coordinator.repository.realm().to_owned(), path: path.to_owned() };
    let mut asked = JoinSet::new();
    for address in workers {
        let request = request.clone();
        asked.spawn(async move {
            let channel = connect(&address).await.ok()?;
            let known = call_with_timeout(ActivityManagerClient::new(channel).attempts(request)).await.ok()?;
            Some((address, known.attempts))
        });
    }
    let mut found: Vec<(String, v1::AttemptRecord)> = Vec::new();
    while let Some(answer) = asked.join_next().await {
        if let Ok(Some((address, attempts))) = answer {
            found.extend(attempts.into_iter().map(|record| (address.clone(), record)));
        }
    }
    found.sort_by_key(|(_, record)| (record.attempt, record.began_ms));
    found
}

/// Searches the workers of this coordinator, then the coordinators that run or ran the element.
async fn search(coordinator: &Coordinator, request: &v1::LogsRequest) -> Result<Option<PieceStream>, Status> {
    let Vicinity { workers, coordinators } = coordinator.pool.vicinity(&request.path).await;
    let mut known = ask_workers(coordinator, &request.path, workers).await.into_iter().rev();
    let wanted = known.find(|(_, record)| request.attempt == 0 || record.attempt == request.attempt);
    if let Some((address, record)) = wanted {
        let gone = |_| Status::unavailable(format!("the worker at {address} does not answer"));
        let channel = connect(&address).await.map_err(gone)?;
        let realm = coordinator.repository.realm().to_owned();
        let request = v1::LogsRequest { realm, attempt: record.attempt, ..request.clone() };
        let mut client = ActivityManagerClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        return Ok(Some(Box::pin(call_with_timeout(client.logs(request)).await?)));
    }
    if request.hops >= MAX_HOPS {
        return Ok(None);
    }
    for address in coordinators {
        let request = v1::LogsRequest { hops: request.hops + 1, ..request.clone() };
        if let Ok(channel) = connect(&address).await
            && let Ok(pieces) = call_with_timeout(
                ProcessCoordinatorClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES).logs(request),
            )
            .await
        {
            return Ok(Some(Box::pin(pieces)));
        }
    }
    Ok(None)
}
