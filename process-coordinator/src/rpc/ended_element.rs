//! An element as this coordinator itself knows it: from a process that runs here, or from the summary of an ended one.

use tonic::Status;
use xavantes_proto::{v1, value_from};
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::process::ended_summary::Summary;
use crate::process::ended_view::EndedView;
use crate::process::journal::Head;
use crate::process::process_view::{MAX_SHOWN_CHILDREN, bounded_parameters, shown_parameter};
use crate::record_codec::{self, Unreadable};
use crate::rpc::errors::{ended_status, rejection_status, repository_status, unreadable_status};
use crate::rpc::find::{FoundProcess, delegate_of, find};

/// An element as this coordinator knows it, without asking others. `None` if another coordinator has it.
pub(super) async fn local_element(coordinator: &Coordinator, path: &str) -> Result<Option<v1::Element>, Status> {
    match find(coordinator, path).await? {
        FoundProcess::Running(id, process) => match process.show(path.to_owned(), 0, 0).await.map_err(ended_status)? {
            Ok(element) => Ok(Some(element)),
            Err(rejection) => match delegate_of(coordinator, id, &rejection).await {
                Some(_) => Ok(None),
                None => Err(rejection_status(&rejection)),
            },
        },
        FoundProcess::Ended(entry) => ended_element(coordinator, &entry, path, 0).await.map(Some),
        FoundProcess::Held(..) | FoundProcess::Elsewhere(_) => Ok(None),
    }
}

/// What became of an element of a process that has ended.
pub(super) async fn ended_element(
    coordinator: &Coordinator,
    entry: &Entry,
    path: &str,
    depth: u32,
) -> Result<v1::Element, Status> {
    let summary = entry.summary.as_deref().unwrap_or_default();
    let unreadable = |error: Unreadable| unreadable_status(&error);
    let summary: Summary = record_codec::decode("summary", summary).map_err(unreadable)?;
    let head: Head = record_codec::decode("head", &entry.head).map_err(unreadable)?;
    let (status, history) = (summary.status().map_err(unreadable)?, summary.history().map_err(unreadable)?);
    let loaded = coordinator.programs.fetch(&head.program).await.map_err(|error| repository_status(&error))?;
    let program = loaded.ok_or_else(|| unreadable(Unreadable("program")))?.program;
    let view = EndedView { history: &history, program: &program, root: head.root(), id: &entry.process };
    let mut element = view.element(path, depth, MAX_SHOWN_CHILDREN).map_err(Status::not_found)?;
    element.attempts_unknown = depth == 0 && element.tag == "ACTIVITY";
    if element.path == entry.process {
        element.set_state(status.state());
        (element.runs, element.began_ms, element.ended_ms) = (1, status.submitted_ms, status.ended_ms);
        element.failure = status.failure;
        if depth == 0 {
            let parameters = program.processes.get(head.root().process).map_or(&[][..], |process| process.parameters());
            let given = head.given().unwrap_or_default();
            let inputs = parameters.iter().zip(&given).filter(|(parameter, _)| parameter.direction.is_in());
            let inputs = inputs.map(|(parameter, value)| shown_parameter(&parameter.name, value, parameter.secret));
            let secret = |name: &str| parameters.iter().any(|it| *it.name == *name && it.secret);
            let outputs = summary.results().map_err(unreadable)?.into_iter().filter_map(|it| {
                let value = value_from(it.value?).ok()?;
                Some(shown_parameter(&it.name, &value, secret(&it.name)))
            });
            let more;
            (element.inputs, more) = bounded_parameters(inputs);
            (element.outputs, element.more_parameters) = bounded_parameters(outputs);
            element.more_parameters += more;
        }
    }
    Ok(element)
}
