//! `Submit`: checks everything, stores the process, and starts it.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tonic::Status;
use xavantes_engine::Start;
use xavantes_model::value::Value;
use xavantes_proto::message_limits::{check_count, check_labels, check_optional_name, check_path};
use xavantes_proto::{v1, value_from};
use xavantes_telemetry::metrics;

use crate::clock::unix_ms;
use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::memo::former_activities::FormerActivities;
use crate::process::journal::{Head, ProcessTags};
use crate::process::start_process::{StartError, StartOptions};
use crate::record_codec;
use crate::rpc::errors::repository_status;

/// Hexadecimal digits of a process id that are tried one after the other: short ids are easy to type.
const ID_DIGITS: [usize; 5] = [4, 6, 8, 12, 16];

/// Upper bound on the parameters of a submission.
const MAX_PARAMETERS: usize = 10_000;

/// A submission that was checked.
pub(super) struct CheckedSubmission {
    pub loaded: LoadedProgram,
    /// Position of the process type.
    pub process: usize,
    pub parameters: Vec<(String, Value)>,
    /// What the former process completed, if the process is a rerun.
    pub former: Option<FormerActivities>,
}

impl CheckedSubmission {
    pub(super) async fn check(coordinator: &Coordinator, request: &mut v1::SubmitRequest) -> Result<Self, Status> {
        check_optional_name("the process type", &request.process_type)?;
        check_count("the list of parameters", request.parameters.len(), MAX_PARAMETERS)?;
        for parameter in &request.parameters {
            check_optional_name("the name of a parameter", &parameter.name)?;
        }
        let former = match &*request.rerun_of {
            "" => None,
            id => Some(former_activities(coordinator, id).await?),
        };
        let loaded = coordinator.programs.add(std::mem::take(&mut request.documents)).await?;
        let wanted = Some(request.process_type.as_str()).filter(|name| !name.is_empty());
        let process = loaded.program.entry(wanted).map_err(Status::invalid_argument)?;
        let parameters = std::mem::take(&mut request.parameters)
            .into_iter()
            .map(|parameter| Ok((parameter.name, value_from(parameter.value.unwrap_or_default())?)))
            .collect::<Result<Vec<(String, Value)>, Status>>()?;
        Ok(Self { loaded, process, parameters, former })
    }
}

/// What an ended process completed.
async fn former_activities(coordinator: &Coordinator, id: &str) -> Result<FormerActivities, Status> {
    check_path("the id of the former process", id)?;
    let entry = coordinator.repository.find(id).await.map_err(|error| repository_status(&error))?;
    let entry = entry.ok_or_else(|| Status::not_found(format!("there is no process {id:?} here")))?;
    if entry.summary.is_none() || coordinator.processes.find(id).is_some() {
        return Err(Status::failed_precondition(format!(
            "process {id:?} has not ended: wait for its end with `xavantes wait {id}`, or cancel it first"
        )));
    }
    let former = coordinator.former_activities(&entry).await.map_err(|error| repository_status(&error))?;
    former.ok_or_else(|| Status::data_loss(format!("the definition of process {id:?} cannot be read")))
}

/// Starts a process. A repeated request with the same id gets the process that the first one started.
pub(super) async fn submit(
    coordinator: &Arc<Coordinator>,
    mut request: v1::SubmitRequest,
) -> Result<v1::SubmitResponse, Status> {
    check_optional_name("the id of the request", &request.request_id)?;
    check_optional_name("the name of the process", &request.name)?;
    check_labels(&request.labels)?;
    let submission = CheckedSubmission::check(coordinator, &mut request).await?;
    let CheckedSubmission { loaded, process, parameters, mut former } = submission;
    let tags = ProcessTags {
        name: request.name,
        labels: request.labels.into_iter().map(|label| (label.key, label.value)).collect(),
    };
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
            former: former.take(),
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
                if !request.rerun_of.is_empty() {
                    former = Some(former_activities(coordinator, &request.rerun_of).await?);
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
