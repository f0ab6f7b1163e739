//! `Show`: an element and what is in it, while the process runs and after its end.

use tonic::Status;
use xavantes_proto::{call_with_timeout, v1};
use xavantes_repository::Entry;

use crate::codec::{self, Unreadable};
use crate::coordinator::Coordinator;
use crate::process::ended_view::EndedView;
use crate::process::journal::Head;
use crate::process::summary::Summary;
use crate::process::view::MAX_SHOWN_CHILDREN;
use crate::rpc::errors::{
    ended_status, held_status, not_here_status, rejection_status, repository_status, unreadable_status,
};
use crate::rpc::explain::reused_element;
use crate::rpc::find::{FoundProcess, client, delegate_of, find};
use crate::rpc::logs::attempt_records;

/// Upper bound on the shown levels.
const MAX_DEPTH: u32 = 1000;

pub(super) async fn show(coordinator: &Coordinator, request: v1::ShowRequest) -> Result<v1::ShowResponse, Status> {
    let depth = request.depth.min(MAX_DEPTH);
    let (id, process) = match find(coordinator, &request.path).await? {
        FoundProcess::Running(id, process) => (id, process),
        FoundProcess::Held(id, held) if request.path == *id || request.path == held.status.path => {
            return Ok(v1::ShowResponse { element: Some(held_element(request.path, &held.status)) });
        }
        FoundProcess::Held(id, held) => return Err(held_status(&id, &held)),
        FoundProcess::Stored(entry) => {
            let element = match ended_activity(coordinator, request.path.clone()).await {
                Some(element) => element,
                None => ended_element(coordinator, &entry, &request.path, depth).await?,
            };
            return Ok(v1::ShowResponse { element: Some(element) });
        }
    };
    match process.show(request.path.clone(), depth).await.map_err(ended_status)? {
        Ok(mut element) => {
            if depth == 0 && element.tag == "ACTIVITY" {
                element.records = attempt_records(coordinator, &request.path).await;
            }
            Ok(v1::ShowResponse { element: Some(element) })
        }
        Err(rejection) => match delegate_of(coordinator, id, &rejection).await {
            Some(address) => call_with_timeout(client(&address).await?.show(request)).await,
            None => match ended_activity(coordinator, request.path).await {
                Some(element) => Ok(v1::ShowResponse { element: Some(element) }),
                None => Err(rejection_status(&rejection)),
            },
        },
    }
}

/// A held process. Nothing but its head is loaded, so nothing in it can be shown.
fn held_element(path: String, status: &v1::ProcessStatus) -> v1::Element {
    v1::Element {
        path,
        tag: "PROCESS".into(),
        r#type: status.process_type.clone(),
        condition: v1::Condition::Held.into(),
        held_reason: status.stalled.as_ref().and_then(|reason| reason.held()).cloned(),
        ..v1::Element::default()
    }
}

/// An activity that has ended, if a worker or the result cache still knows it.
async fn ended_activity(coordinator: &Coordinator, path: String) -> Option<v1::Element> {
    let records = attempt_records(coordinator, &path).await;
    let Some(last) = records.last() else { return reused_element(coordinator, path).await };
    let (condition, attempts) = (attempt_condition(last.state()).into(), last.attempt);
    let worker = last.usage.as_ref().map_or_else(String::new, |usage| usage.node.clone());
    Some(v1::Element { path, tag: "ACTIVITY".into(), condition, attempts, worker, records, ..v1::Element::default() })
}

/// What became of an element of a process that has ended.
async fn ended_element(
    coordinator: &Coordinator,
    entry: &Entry,
    path: &str,
    depth: u32,
) -> Result<v1::Element, Status> {
    let Some(summary) = &entry.summary else { return Err(not_here_status(entry)) };
    let unreadable = |error: Unreadable| unreadable_status(&error);
    let summary: Summary = codec::decode("summary", summary).map_err(unreadable)?;
    let head: Head = codec::decode("head", &entry.head).map_err(unreadable)?;
    let (status, history) = (summary.status().map_err(unreadable)?, summary.history().map_err(unreadable)?);
    let loaded = coordinator.programs.fetch(&head.program).await.map_err(|error| repository_status(&error))?;
    let program = loaded.ok_or_else(|| unreadable(Unreadable("program")))?.program;
    let view = EndedView { history: &history, program: &program, root: head.root(), id: &entry.process };
    let mut element = view.element(path, depth, MAX_SHOWN_CHILDREN).map_err(Status::not_found)?;
    if element.path == entry.process {
        element.set_condition(process_condition(status.state()));
        (element.runs, element.began_ms, element.ended_ms) = (1, status.submitted_ms, status.ended_ms);
        element.failure = status.failure;
    }
    Ok(element)
}

fn process_condition(state: v1::ProcessState) -> v1::Condition {
    match state {
        v1::ProcessState::Completed => v1::Condition::Completed,
        v1::ProcessState::Cancelled => v1::Condition::Cancelled,
        _ => v1::Condition::Failed,
    }
}

fn attempt_condition(state: v1::AttemptState) -> v1::Condition {
    match state {
        v1::AttemptState::Running => v1::Condition::Running,
        v1::AttemptState::Completed => v1::Condition::Completed,
        v1::AttemptState::Failed => v1::Condition::Failed,
        v1::AttemptState::Cancelled => v1::Condition::Cancelled,
        v1::AttemptState::Unspecified => v1::Condition::Unspecified,
    }
}
