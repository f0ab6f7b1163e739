//! `Definition`: the documents and parameters with which a process was submitted, in parts, because both may be large.

use tonic::Status;
use xavantes_engine::Event;
use xavantes_model::definition::Program;
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::process::journal::{self, Head};
use crate::record_codec;
use crate::rpc::errors::{repository_status, unreadable_status};
use crate::rpc::outputs::PartStream;
use xavantes_proto::message_limits::check_path;

pub(super) async fn definition(
    coordinator: &Coordinator,
    request: v1::DefinitionRequest,
) -> Result<PartStream, Status> {
    check_path("the id of the process", &request.process)?;
    let entry = find_entry(coordinator, &request.process).await?;
    // The head of a process never changes, so every coordinator of the repository can answer.
    let head: Head = record_codec::decode("head", &entry.head).map_err(|error| unreadable_status(&error))?;
    let loaded = coordinator.programs.fetch(&head.program).await.map_err(|error| repository_status(&error))?;
    let loaded = loaded.ok_or_else(|| Status::data_loss("the definition of the process is lost"))?;
    let events = journal::first_events(&head).map_err(|error| unreadable_status(&error))?;
    let response = v1::DefinitionResponse {
        process_type: head.process_type.clone(),
        documents: loaded.wire.documents.clone(),
        parameters: parameters(&loaded.program, &head, &events),
    };
    Ok(Box::pin(tokio_stream::iter(xavantes_proto::split(&response).map(Ok))))
}

/// The process that a path is in.
async fn find_entry(coordinator: &Coordinator, path: &str) -> Result<Entry, Status> {
    let mut id = path;
    loop {
        if let Some(entry) = coordinator.repository.find(id).await.map_err(|error| repository_status(&error))? {
            return Ok(entry);
        }
        id = match id.rsplit_once('/') {
            Some((shorter, _)) => shorter,
            None => return Err(Status::not_found(format!("there is no process {id:?} here"))),
        };
    }
}

/// The values with which the process began, by name.
fn parameters(program: &Program, head: &Head, events: &[Event]) -> Vec<v1::Parameter> {
    let root = head.root();
    let Some(process) = program.processes.get(root.process) else { return Vec::new() };
    let started = events.iter().find_map(|event| match event {
        Event::Started { variables, .. } => Some(variables),
        _ => None,
    });
    let given = process.parameters().iter().zip(started.into_iter().flatten());
    let given = given.filter(|(variable, value)| variable.direction.is_in() && **value != Value::Null);
    given
        .map(|(variable, given)| v1::Parameter { name: variable.name.to_string(), value: Some(value(given)) })
        .collect()
}
