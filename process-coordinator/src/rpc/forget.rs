//! `Forget`: removes ended processes, and on request held ones and the result cache. The owner of a process that has not ended
//! decides.

use tonic::Status;
use xavantes_proto::message_limits::{check_count, check_path};
use xavantes_proto::v1;
use xavantes_repository::Error;

use crate::coordinator::Coordinator;
use crate::rpc::errors::{held_status, recovering_status, repository_status};
use crate::rpc::forward::Owner;

/// Upper bound on the processes of one request.
const MAX_PROCESSES: usize = 100_000;

pub(super) async fn forget(
    coordinator: &Coordinator,
    request: v1::ForgetRequest,
) -> Result<v1::ForgetResponse, Status> {
    let v1::ForgetRequest { processes, reusable, force, forwards } = request;
    check_count("the list of processes", processes.len(), MAX_PROCESSES)?;
    let (mut held, mut ended, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for process in processes {
        check_path("the id of a process", &process)?;
        if coordinator.processes.find(&process).is_some() {
            return Err(running_status(&process));
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
            Ok(Some(entry)) if entry.summary.is_some() => ended.push(process),
            Ok(Some(entry)) if entry.owner != coordinator.options.node => elsewhere.push(entry),
            Ok(Some(_)) => return Err(recovering_status(&process)),
            Ok(None) => return Err(Status::not_found(format!("there is no process {process:?} here"))),
            // The repository removes damaged processes.
            Err(Error::Damaged { .. }) if force => ended.push(process),
            Err(error) => return Err(repository_status(&error)),
        }
    }
    for entry in elsewhere {
        let processes = vec![entry.process.clone()];
        let request = v1::ForgetRequest {
            processes,
            force,
            forwards: forwards.saturating_add(1),
            ..v1::ForgetRequest::default()
        };
        let owner = Owner::of(coordinator, &entry, forwards).await?;
        owner.ask(|mut client| async move { client.forget(request).await }).await?;
    }
    for process in &held {
        coordinator.forget_held(process).await.map_err(|error| repository_status(&error))?;
    }
    // A user may have reopened some of them meanwhile.
    let running = coordinator.forget(&ended).await.map_err(|error| repository_status(&error))?;
    if let Some(process) = running.first() {
        return Err(running_status(process));
    }
    if reusable {
        coordinator.cache.clear().await.map_err(|error| repository_status(&error))?;
    }
    Ok(v1::ForgetResponse {})
}

fn running_status(process: &str) -> Status {
    Status::failed_precondition(format!("process {process:?} runs: cancel it first, or wait for its end"))
}
