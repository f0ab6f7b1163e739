//! `Explain`: whether the result of an activity was reused, and why not. Each coordinator stores its own decisions, so the
//! question goes on to the coordinators that ran the part of the process.

use tonic::Status;
use xavantes_model::definition;
use xavantes_proto::message_limits::check_path;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::v1::reuse_reason::Kind;
use xavantes_proto::{call_with_timeout, connect, v1};

use crate::cache::explain::explanation;
use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::definitions::definition_places::node_at;
use crate::process::journal::Head;
use crate::record_codec;
use crate::rpc::errors::repository_status;
use crate::rpc::forward::Owner;
use crate::rpc::logs::{MAX_HOPS, owned_elsewhere};
use crate::subtrees::hosted_subtrees;

/// Explains whether the activity at a path reused results.
pub(super) async fn explain(
    coordinator: &Coordinator,
    request: v1::ExplainRequest,
) -> Result<v1::ExplainResponse, Status> {
    let v1::ExplainRequest { path, hops, forwards } = request;
    let (defined, since) = definition(coordinator, &path).await?;
    let decided = coordinator.cache.decision(&path).await.map_err(|error| repository_status(&error))?;
    // A process id may be used again, long after its process was forgotten.
    if let Some((at_ms, decision)) = decided.filter(|(at_ms, _)| *at_ms >= since) {
        return Ok(explanation(at_ms, decision));
    }
    if let DefinedElement::Activity { type_name, cache: false } = &defined {
        return Ok(v1::ExplainResponse {
            path,
            r#type: type_name.clone(),
            reason: Some(Kind::NotCached(v1::Nothing {}).into()),
            ..v1::ExplainResponse::default()
        });
    }
    if hops < MAX_HOPS {
        for address in coordinator.pool.vicinity(&path).await.coordinators {
            let request = v1::ExplainRequest { path: path.clone(), hops: hops + 1, forwards };
            if let Ok(channel) = connect(&address).await
                && let Ok(answer) = call_with_timeout(ProcessCoordinatorClient::new(channel).explain(request)).await
                && is_decided(&answer)
            {
                return Ok(answer);
            }
        }
    }
    // The coordinator that runs or ran the process knows where its subtrees went.
    let process = path.split('/').next().unwrap_or_default();
    if let Some(entry) = owned_elsewhere(coordinator, process).await?.filter(|_| hops == 0) {
        let request = v1::ExplainRequest { path: path.clone(), hops, forwards: forwards.saturating_add(1) };
        let asked = match Owner::of(coordinator, &entry, forwards).await {
            Ok(owner) => owner.ask(|mut client| async move { client.explain(request).await }).await,
            Err(unknown) => Err(unknown),
        };
        match asked {
            // Of an ended process, this coordinator knows almost as much as the owner.
            Err(status) if entry.summary.is_none() => return Err(status),
            Ok(answer) if is_decided(&answer) => return Ok(answer),
            _ => {}
        }
    }
    match defined {
        DefinedElement::Activity { type_name, .. } => Ok(v1::ExplainResponse {
            path,
            r#type: type_name,
            reason: Some(Kind::Unknown(v1::Nothing {}).into()),
            ..v1::ExplainResponse::default()
        }),
        DefinedElement::Other => Err(Status::invalid_argument(format!("{path} is no activity"))),
        DefinedElement::Unknown => Err(Status::not_found(format!("there is no process with {path:?} here"))),
    }
}

fn is_decided(answer: &v1::ExplainResponse) -> bool {
    !matches!(answer.reason.as_ref().and_then(|reason| reason.kind.as_ref()), None | Some(Kind::Unknown(_)))
}

/// What the definition of a process has at a path.
enum DefinedElement {
    Activity { type_name: String, cache: bool },
    Other,
    Unknown,
}

/// What the definition has at a path, and the time when the process began.
async fn definition(coordinator: &Coordinator, path: &str) -> Result<(DefinedElement, u64), Status> {
    check_path("the path", path)?;
    let mut begin = path;
    loop {
        // The paths of a subtree begin with its path in the parent process, not with its id.
        let id = coordinator.processes.find_by_path(begin).map_or_else(|| begin.to_owned(), |(id, _)| id.to_string());
        let entry = coordinator.repository.find(&id).await.map_err(|error| repository_status(&error))?;
        let head = entry.and_then(|entry| record_codec::decode::<Head>("head", &entry.head).ok());
        if let Some(head) = head {
            let loaded = coordinator.programs.fetch(&head.program).await.map_err(|error| repository_status(&error))?;
            let Some(LoadedProgram { program, .. }) = loaded else { return Ok((DefinedElement::Unknown, 0)) };
            let root = head.root();
            let rest = path.strip_prefix(hosted_subtrees::path_of(&id, head.parent.is_some())).unwrap_or_default();
            let defined = match node_at(&program, root, rest.trim_start_matches('/')).map(|(_, node)| &node.kind) {
                Some(definition::Kind::Activity { activity }) => {
                    let activity = &program.activities[*activity];
                    DefinedElement::Activity { type_name: activity.name.to_string(), cache: activity.cache }
                }
                _ => DefinedElement::Other,
            };
            return Ok((defined, head.submitted_ms));
        }
        match begin.rsplit_once('/') {
            Some((shorter, _)) => begin = shorter,
            None => return Ok((DefinedElement::Unknown, 0)),
        }
    }
}

/// An activity that reused results instead of running, as `show` presents it.
pub(super) async fn reused_element(coordinator: &Coordinator, path: String) -> Option<v1::Element> {
    let (_, decision) = coordinator.cache.decision(&path).await.ok()??;
    decision.outcome.is_ok().then(|| v1::Element {
        path,
        tag: "ACTIVITY".into(),
        r#type: decision.type_name.to_string(),
        state: v1::State::Completed.into(),
        reused: true,
        ..v1::Element::default()
    })
}
