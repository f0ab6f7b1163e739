//! `Forget`: removes ended processes, and on request held ones and the result cache.

use tonic::Status;
use xavantes_proto::v1;
use xavantes_repository::Error;

use crate::coordinator::Coordinator;
use crate::rpc::errors::{held_status, repository_status};

pub(super) async fn forget(
    coordinator: &Coordinator,
    request: v1::ForgetRequest,
) -> Result<v1::ForgetResponse, Status> {
    let v1::ForgetRequest { processes, reusable, force } = request;
    let (mut held, mut ended) = (Vec::new(), Vec::new());
    for process in processes {
        if coordinator.processes.find(&process).is_some() {
            return Err(Status::failed_precondition(format!(
                "process {process:?} runs: cancel it first, or wait for its end"
            )));
        }
        match coordinator.processes.find_held(&process) {
            Some((id, _)) if force => {
                held.push(id);
                continue;
            }
            Some((id, process)) => return Err(held_status(&id, &process)),
            None => {}
        }
        match coordinator.repository.find(&process).await {
            Ok(Some(_)) => ended.push(process),
            Ok(None) => return Err(Status::not_found(format!("there is no process {process:?} here"))),
            // The repository removes damaged processes.
            Err(Error::Damaged { .. }) if force => ended.push(process),
            Err(error) => return Err(repository_status(&error)),
        }
    }
    for process in &held {
        coordinator.forget_held(process).await.map_err(|error| repository_status(&error))?;
    }
    coordinator.forget(&ended).await.map_err(|error| repository_status(&error))?;
    if reusable {
        coordinator.cache.clear().await.map_err(|error| repository_status(&error))?;
    }
    Ok(v1::ForgetResponse {})
}
