//! `Submit`: checks everything, stores the process, and starts it.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tonic::Status;
use xavantes_engine::Start;
use xavantes_model::value::Value;
use xavantes_proto::message_limits::{check_count, check_labels, check_optional_name};
use xavantes_proto::{v1, value_from};
use xavantes_telemetry::metrics;

use crate::clock::unix_ms;
use crate::coordinator::Coordinator;
use crate::process::journal::{Head, ProcessTags};
use crate::process::start_process::{StartError, StartOptions};
use crate::record_codec;
use crate::rpc::errors::repository_status;

/// Hexadecimal digits of a process id that are tried one after the other: short ids are easy to type.
const ID_DIGITS: [usize; 5] = [4, 6, 8, 12, 16];

/// Upper bound on the parameters of a submission.
const MAX_PARAMETERS: usize = 10_000;

/// Starts a process. A repeated request with the same id gets the process that the first one started.
pub(super) async fn submit(
    coordinator: &Arc<Coordinator>,
    request: v1::SubmitRequest,
) -> Result<v1::SubmitResponse, Status> {
    check_optional_name("the process type", &request.process_type)?;
    check_optional_name("the id of the request", &request.request_id)?;
    check_count("the list of parameters", request.parameters.len(), MAX_PARAMETERS)?;
    for parameter in &request.parameters {
        check_optional_name("the name of a parameter", &parameter.name)?;
    }
    check_optional_name("the name of the process", &request.name)?;
    check_labels(&request.labels)?;
    let tags = ProcessTags {
        name: request.name,
        labels: request.labels.into_iter().map(|label| (label.key, label.value)).collect(),
    };
    let loaded = coordinator.programs.add(request.documents).await?;
    let wanted = Some(request.process_type.as_str()).filter(|name| !name.is_empty());
    let process = loaded.program.entry(wanted).map_err(Status::invalid_argument)?;
    let parameters = request
        .parameters
        .into_iter()
        .map(|parameter| Ok((parameter.name, value_from(parameter.value.unwrap_or_default())?)))
        .collect::<Result<Vec<(String, Value)>, Status>>()?;
    let process_type = loaded.program.processes[process].name.to_string();
    let number = id_number(coordinator, &request.request_id);
    for digits in ID_DIGITS {
        let mask = u64::MAX >> (64 - 4 * digits);
        // `FindPrimes-7f3a`
        let id: Arc<str> = format!("{process_type}-{:0digits$x}", number & mask).into();
        let start = Start::new(id.clone(), process, parameters.clone());
        let options = StartOptions {
            request: &request.request_id,
            no_reuse: request.no_reuse,
            tags: tags.clone(),
            ..StartOptions::default()
        };
        match coordinator.start(id.clone(), loaded.clone(), start, options, None).await {
            Ok(_) => {
                metrics().processes_submitted.inc();
                return Ok(v1::SubmitResponse { process: id.to_string() });
            }
            Err(StartError::IdTaken) => {
                if is_of_request(coordinator, &id, &request.request_id).await? {
                    return Ok(v1::SubmitResponse { process: id.to_string() });
                }
            }
            Err(StartError::InvalidParameters(problems)) => return Err(Status::invalid_argument(problems)),
            Err(StartError::NotStored(error)) => return Err(repository_status(&error)),
        }
    }
    Err(Status::resource_exhausted("there is no free id for the process"))
}

/// The number in the id of a new process: random, or the same for all repetitions of a request.
fn id_number(coordinator: &Coordinator, request_id: &str) -> u64 {
    if request_id.is_empty() {
        let submission = coordinator.submissions.fetch_add(1, Ordering::Relaxed);
        return coordinator.random.hash_one((submission, unix_ms()));
    }
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&blake3::hash(request_id.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

/// Did this request start this process?
async fn is_of_request(coordinator: &Coordinator, id: &str, request_id: &str) -> Result<bool, Status> {
    if request_id.is_empty() {
        return Ok(false);
    }
    let entry = coordinator.repository.find(id).await.map_err(|error| repository_status(&error))?;
    let head = entry.and_then(|entry| record_codec::decode::<Head>("head", &entry.head).ok());
    Ok(head.is_some_and(|head| head.request == request_id))
}
