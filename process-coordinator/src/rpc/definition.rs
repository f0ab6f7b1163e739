//! `Definition`: the documents and parameters with which a process was submitted, in parts, because both may be large.

use tonic::Status;
use xavantes_engine::Event;
use xavantes_model::definition::{ProcessType, Program};
use xavantes_model::value::Value;
use xavantes_proto::{v1, value};

use crate::cache::shown_value::HIDDEN;
use crate::coordinator::Coordinator;
use crate::process::journal::{self, Head};
use crate::record_codec;
use crate::rpc::errors::{repository_status, unreadable_status};
use crate::rpc::find::find_entry;
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
        hidden: secret_names(&loaded.program, &head),
    };
    Ok(Box::pin(tokio_stream::iter(xavantes_proto::split(&response).map(Ok))))
}

/// The names of the secret parameters of the process.
fn secret_names(program: &Program, head: &Head) -> Vec<String> {
    let process = program.processes.get(head.root().process);
    let secret = process.into_iter().flat_map(|process| process.parameters()).filter(|variable| variable.secret);
    secret.map(|variable| variable.name.to_string()).collect()
}

/// The values with which the process began, by name. Secret values stay in the coordinator.
fn parameters(program: &Program, head: &Head, events: &[Event]) -> Vec<v1::Parameter> {
    let root = head.root();
    let Some(process) = program.processes.get(root.process) else { return Vec::new() };
    let started = events.iter().find_map(|event| match event {
        Event::Started { variables, .. } => Some(variables),
        _ => None,
    });
    shown_parameters(process, started.into_iter().flatten())
}

/// The values of the `IN` and `INOUT` parameters, which come first among the variables of a process.
fn shown_parameters<'a>(process: &ProcessType, variables: impl Iterator<Item = &'a Value>) -> Vec<v1::Parameter> {
    let given = process.parameters().iter().zip(variables);
    let given = given.filter(|(variable, value)| variable.direction.is_in() && **value != Value::Null);
    given
        .map(|(variable, given)| {
            let shown = if variable.secret { value(&HIDDEN.into()) } else { value(given) };
            v1::Parameter { name: variable.name.to_string(), value: Some(shown) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use xavantes_model::diagnostic::Source;
    use xavantes_model::load::load;
    use xavantes_proto::value_from;

    use super::*;

    #[test]
    fn secret_parameters_stay_in_the_coordinator() {
        let text = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Main">
            <IN_PARAMETER TYPE="string" NAME="user"/><IN_PARAMETER TYPE="string" NAME="token" SECRET="true"/>
            <BODY/></PROCESS_TYPE></XAVANTES>"#;
        let program = load(&[Source::new("a.xml", text)]).unwrap_or_else(|problems| panic!("{problems:?}"));
        let variables = ["ada", "t0ken"].map(Value::from);
        let shown = shown_parameters(&program.processes[0], variables.iter()).into_iter().map(|it| {
            let value = value_from(it.value.unwrap_or_default()).expect("the value is valid");
            (it.name, value)
        });
        let expected = [("user", "ada"), ("token", HIDDEN)].map(|(name, value)| (name.to_owned(), value.into()));
        assert_eq!(shown.collect::<Vec<(String, Value)>>(), expected);
    }
}
