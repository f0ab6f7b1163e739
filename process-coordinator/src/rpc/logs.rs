//! What activities write, found wherever in the grid they run or ran. Who ran what is not kept here: workers are asked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tonic::Status;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{connect, question, v1};

use crate::coordinator::Coordinator;
use crate::workers::dispatcher::PoolMail;
use crate::workers::messages::Vicinity;

/// A question is passed on so often at most: subtrees may have been handed back and forth.
pub(crate) const MOST_HOPS: u32 = 8;
/// When somebody wants to follow what has not begun, it is looked again so often.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// What was written, as it comes.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<v1::LogPiece, Status>> + Send>>;

/// What attempts of an element took, as far as workers that are connected know; in the order of their numbers.
pub(crate) async fn records(coordinator: &Coordinator, path: &str) -> Vec<v1::AttemptRecord> {
    let workers = vicinity(coordinator, path).await.workers;
    let found = ask(coordinator, path, workers).await;
    found.into_iter().map(|(_, record)| record).collect()
}

pub(crate) async fn vicinity(coordinator: &Coordinator, path: &str) -> Vicinity {
    let (answer, answered) = oneshot::channel();
    let _ = coordinator.pool.send(PoolMail::Vicinity(path.to_owned(), answer));
    answered.await.unwrap_or_default()
}

/// The attempts of an element that these workers know, with where they are.
async fn ask(coordinator: &Coordinator, path: &str, workers: Vec<String>) -> Vec<(String, v1::AttemptRecord)> {
    let request = v1::AttemptsRequest { realm: coordinator.repository.realm().to_owned(), path: path.to_owned() };
    let mut asked = JoinSet::new();
    for address in workers {
        let request = request.clone();
        asked.spawn(async move {
            let channel = connect(&address).await.ok()?;
            let known = question(ActivityManagerClient::new(channel).attempts(request)).await.ok()?;
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

/// What an attempt of an element wrote, or writes.
pub(crate) async fn logs(coordinator: &Arc<Coordinator>, request: v1::LogsRequest) -> Result<Pieces, Status> {
    let process = request.path.split('/').next().unwrap_or_default();
    loop {
        // Looked at first: what it writes before its end is then found.
        let runs = coordinator.processes.find(process).is_some();
        if let Some(pieces) = find(coordinator, &request).await? {
            return Ok(pieces);
        }
        if !(request.follow && request.hops == 0 && runs) {
            let which = match request.attempt {
                0 => String::new(),
                number => format!("attempt {number} of "),
            };
            return Err(Status::not_found(format!(
                "nothing is known of what {which}{} wrote: it has not begun or is no activity, wrote nothing, ended too \
                 long ago, or its worker is gone",
                request.path
            )));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn find(coordinator: &Coordinator, request: &v1::LogsRequest) -> Result<Option<Pieces>, Status> {
    let Vicinity { workers, coordinators } = vicinity(coordinator, &request.path).await;
    let mut known = ask(coordinator, &request.path, workers).await.into_iter().rev();
    let wanted = known.find(|(_, record)| request.attempt == 0 || record.attempt == request.attempt);
    let most = xavantes_proto::MAX_MESSAGE;
    if let Some((address, record)) = wanted {
        let gone = |_| Status::unavailable(format!("the worker at {address} does not answer"));
        let channel = connect(&address).await.map_err(gone)?;
        let realm = coordinator.repository.realm().to_owned();
        let request = v1::LogsRequest { realm, attempt: record.attempt, ..request.clone() };
        let client = ActivityManagerClient::new(channel);
        return Ok(Some(Box::pin(question(client.max_decoding_message_size(most).logs(request)).await?)));
    }
    if request.hops >= MOST_HOPS {
        return Ok(None);
    }
    for address in coordinators {
        let request = v1::LogsRequest { hops: request.hops + 1, ..request.clone() };
        if let Ok(channel) = connect(&address).await
            && let Ok(pieces) =
                question(ProcessCoordinatorClient::new(channel).max_decoding_message_size(most).logs(request)).await
        {
            return Ok(Some(Box::pin(pieces)));
        }
    }
    Ok(None)
}
