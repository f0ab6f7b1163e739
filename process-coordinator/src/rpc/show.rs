//! `Show`: an element and what is in it, while the process runs and after its end.

use tonic::Status;
use xavantes_proto::{call_with_timeout, v1};

use crate::coordinator::Coordinator;
use crate::process::shortened_views::cut_tree;
use crate::rpc::attempt_records::attempt_records;
use crate::rpc::ended_element::ended_element;
use crate::rpc::errors::{ended_status, held_status, rejection_status};
use crate::rpc::explain::reused_element;
use crate::rpc::find::{FoundProcess, client, delegate_of, find};
use crate::rpc::forward::{Owner, too_many_forwards};
use crate::rpc::outputs::PartStream;

/// Upper bound on the shown levels.
const MAX_DEPTH: u32 = 1000;
/// Upper bound on the bytes of a tree, without the element itself.
const MAX_TREE_BYTES: usize = 32 << 20;

pub(super) async fn show(coordinator: &Coordinator, request: v1::ShowRequest) -> Result<PartStream, Status> {
    let depth = request.depth.min(MAX_DEPTH);
    let forwarded = v1::ShowRequest { forwards: request.forwards.saturating_add(1), ..request.clone() };
    let element = match find(coordinator, &request.path).await? {
        FoundProcess::Running(id, process) => {
            match process.show(request.path.clone(), depth, request.forwards).await.map_err(ended_status)? {
                Ok(mut element) => {
                    if element.path == *process.path
                        && let Some(reason) = wait_reason(&process.status.borrow())
                    {
                        element.set_state(v1::State::Waiting);
                        element.wait_reason = Some(reason);
                    }
                    if depth == 0 && element.tag == "ACTIVITY" {
                        element.records = attempt_records(coordinator, &request.path).await;
                    }
                    element
                }
                Err(rejection) => match delegate_of(coordinator, id, &rejection).await {
                    Some(address) => {
                        if let Some(refusal) = too_many_forwards(&request.path, request.forwards) {
                            return Err(refusal);
                        }
                        let mut client = client(&address).await?;
                        return Ok(Box::pin(call_with_timeout(client.show(forwarded)).await?));
                    }
                    None => match ended_activity(coordinator, request.path).await {
                        Some(element) => element,
                        None => return Err(rejection_status(&rejection)),
                    },
                },
            }
        }
        FoundProcess::Elsewhere(entry) => {
            let owner = Owner::of(coordinator, &entry, request.forwards).await?;
            let answer = owner.ask(|mut client| async move { client.show(forwarded).await }).await?;
            return Ok(Box::pin(owner.pass_on(answer)));
        }
        FoundProcess::Held(id, held) if request.path == *id || request.path == held.status.path => {
            held_element(request.path, &held.status)
        }
        FoundProcess::Held(id, held) => return Err(held_status(&id, &held)),
        FoundProcess::Ended(entry) => {
            let element = match ended_activity(coordinator, request.path.clone()).await {
                Some(element) => Ok(element),
                None => ended_element(coordinator, &entry, &request.path, depth).await,
            };
            match element {
                Ok(element) => element,
                // The coordinator that ran the process may know workers that this one does not know.
                Err(status) if entry.owner != coordinator.options.node => {
                    let Ok(owner) = Owner::of(coordinator, &entry, request.forwards).await else { return Err(status) };
                    let asked = owner.ask(|mut client| async move { client.show(forwarded).await }).await;
                    return Ok(Box::pin(owner.pass_on(asked.map_err(|_| status)?)));
                }
                Err(status) => return Err(status),
            }
        }
    };
    Ok(parts_of(element))
}

/// An element on the wire. Long texts within it are cut, and a tree that is too large is cut from below.
fn parts_of(mut element: v1::Element) -> PartStream {
    cut_tree(&mut element, MAX_TREE_BYTES);
    let parts = xavantes_proto::split(&v1::ShowResponse { element: Some(element) });
    Box::pin(tokio_stream::iter(parts.map(Ok)))
}

/// A held process. Nothing but its head is loaded, so nothing in it can be shown.
fn held_element(path: String, status: &v1::ProcessStatus) -> v1::Element {
    v1::Element {
        path,
        tag: "PROCESS".into(),
        r#type: status.process_type.clone(),
        state: v1::State::Held.into(),
        held_reason: status.stalled.as_ref().and_then(|reason| reason.held()).cloned(),
        ..v1::Element::default()
    }
}

/// Why a process waits that has no other reason.
fn wait_reason(status: &v1::ProcessStatus) -> Option<v1::WaitReason> {
    match status.stalled.as_ref()?.kind {
        Some(v1::stall_reason::Kind::CoordinatorFull(size)) => {
            Some(v1::wait_reason::Kind::CoordinatorFull(size).into())
        }
        _ => None,
    }
}

/// An activity that has ended, if a worker or the result cache still knows it.
async fn ended_activity(coordinator: &Coordinator, path: String) -> Option<v1::Element> {
    let records = attempt_records(coordinator, &path).await;
    let Some(last) = records.last() else { return reused_element(coordinator, path).await };
    let (state, attempts) = (last.state, last.attempt);
    let worker = last.usage.as_ref().map_or_else(String::new, |usage| usage.node.clone());
    let began_ms = records.first().map_or(0, |first| first.began_ms);
    let ended_ms = if last.state().is_ended() { last.ended_ms } else { 0 };
    Some(v1::Element {
        path,
        tag: "ACTIVITY".into(),
        state,
        attempts,
        worker,
        began_ms,
        ended_ms,
        records,
        ..v1::Element::default()
    })
}
