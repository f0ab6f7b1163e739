//! `Logs`: what activities write, found at the workers that run or ran them. The coordinator does not store which worker ran
//! an attempt: it asks them all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_stream::Stream;
use tonic::Status;
use xavantes_proto::message_limits::check_path;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, call_with_timeout, connect, v1};
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::rpc::attempt_records::ask_workers;
use crate::rpc::ended_element::local_element;
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
            return Err(nothing_known(coordinator, &request).await);
        }
        tokio::time::sleep(SEARCH_INTERVAL).await;
    }
}

/// Why there is no output: as exactly as this coordinator knows the element.
async fn nothing_known(coordinator: &Coordinator, request: &v1::LogsRequest) -> Status {
    let element = match local_element(coordinator, &request.path).await {
        Ok(element) => element,
        Err(status) => return status,
    };
    Status::not_found(why_no_output(&request.path, request.attempt, element.as_ref()))
}

fn why_no_output(path: &str, attempt: u32, element: Option<&v1::Element>) -> String {
    use v1::State;
    let which = match attempt {
        0 => path.to_owned(),
        number => format!("attempt {number} of {path}"),
    };
    let unknown = |why: &str| format!("nothing is known of what {which} wrote: {why}");
    let Some(element) = element else {
        return unknown(
            "it is in a part of the process that another coordinator runs or ran, and that one does not answer",
        );
    };
    if element.tag != "ACTIVITY" {
        return format!("{path} is a {}, which writes nothing itself: give the path of an activity in it", element.tag);
    }
    match element.state() {
        _ if element.reused => unknown("the activity did not run, because an earlier result was reused"),
        _ if attempt > element.attempts && element.attempts > 0 => {
            unknown(&format!("the last attempt is {}", element.attempts))
        }
        State::Waiting | State::Queued if element.attempts == 0 => unknown("the activity has not begun"),
        State::Running | State::Stopping => {
            unknown("the activity runs, and its worker does not answer or it wrote nothing")
        }
        _ => unknown("Lua code that prints nothing has no output; otherwise its worker removed the output, or is gone"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_no_output_is_the_one_that_holds() {
        let element = |tag: &str, state: v1::State, attempts| v1::Element {
            tag: tag.into(),
            state: state.into(),
            attempts,
            ..v1::Element::default()
        };
        let why = |attempt, element: v1::Element| why_no_output("P-1/a", attempt, Some(&element));
        assert!(why(0, element("PARFOR", v1::State::Running, 0)).starts_with("P-1/a is a PARFOR"));
        assert!(why(0, element("ACTIVITY", v1::State::Waiting, 0)).ends_with("the activity has not begun"));
        let reused = v1::Element { reused: true, ..element("ACTIVITY", v1::State::Completed, 0) };
        assert!(why(0, reused).contains("an earlier result was reused"));
        let late = why(3, element("ACTIVITY", v1::State::Running, 2));
        assert_eq!(late, "nothing is known of what attempt 3 of P-1/a wrote: the last attempt is 2");
        assert!(why(0, element("ACTIVITY", v1::State::Completed, 1)).contains("is gone"));
    }
}
