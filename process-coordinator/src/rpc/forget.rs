//! `Forget`: removes ended processes, and on request the result cache.

use tonic::Status;
use xavantes_proto::v1;

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;

pub(super) async fn forget(
    coordinator: &Coordinator,
    request: v1::ForgetRequest,
) -> Result<v1::ForgetResponse, Status> {
    let v1::ForgetRequest { processes, reusable } = request;
    for process in &processes {
        if coordinator.processes.find(process).is_some() {
            return Err(Status::failed_precondition(format!(
                "process {process:?} runs: cancel it first, or wait for its end"
            )));
        }
        let known = coordinator.repository.find(process).await.map_err(|error| repository_status(&error))?;
        if known.is_none() {
            return Err(Status::not_found(format!("there is no process {process:?} here")));
        }
    }
    coordinator.forget(&processes).await.map_err(|error| repository_status(&error))?;
    if reusable {
        coordinator.cache.clear().await.map_err(|error| repository_status(&error))?;
    }
    Ok(v1::ForgetResponse {})
}
