//! The process that a path is in, here or at another coordinator.

use std::sync::Arc;

use tonic::Status;
use tonic::transport::Channel;
use xavantes_engine::Rejection;
use xavantes_proto::connect;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::process::handle::{ProcessEnded, ProcessHandle};
use crate::process::registry::HeldProcess;
use crate::rpc::errors::{ended_status, held_status, not_here_status, repository_status};
use crate::workers::messages::Whereabouts;
use xavantes_proto::AttemptKey;

/// The process that a path is in.
pub(super) enum FoundProcess {
    /// It runs here, under this id.
    Running(Arc<str>, ProcessHandle),
    /// It is held here, under this id.
    Held(Arc<str>, Box<HeldProcess>),
    /// It has ended, or another coordinator runs it.
    Stored(Box<Entry>),
}

/// The process that a path is in: the innermost of those whose path begins it.
pub(super) async fn find(coordinator: &Coordinator, path: &str) -> Result<FoundProcess, Status> {
    let mut id = path;
    loop {
        if let Some(process) = coordinator.processes.find(id) {
            return Ok(FoundProcess::Running(id.into(), process));
        }
        if let Some((process, handle)) = coordinator.processes.find_by_path(id) {
            return Ok(FoundProcess::Running(process, handle));
        }
        if let Some((process, held)) = coordinator.processes.find_held(id) {
            return Ok(FoundProcess::Held(process, Box::new(held)));
        }
        let stored = coordinator.repository.find(id).await.map_err(|error| repository_status(&error))?;
        if let Some(entry) = stored {
            return Ok(FoundProcess::Stored(Box::new(entry)));
        }
        match id.rsplit_once('/') {
            Some((shorter, _)) => id = shorter,
            None => return Err(Status::not_found(format!("there is no process {id:?} here"))),
        }
    }
}

/// The process that was found, if it runs here.
pub(super) fn running(found: FoundProcess) -> Result<(Arc<str>, ProcessHandle), Status> {
    match found {
        FoundProcess::Running(id, handle) => Ok((id, handle)),
        FoundProcess::Held(id, held) => Err(held_status(&id, &held)),
        FoundProcess::Stored(entry) if entry.summary.is_some() => Err(ended_status(ProcessEnded)),
        FoundProcess::Stored(entry) => Err(not_here_status(&entry)),
    }
}

/// Address of the coordinator that runs the element, if the engine rejected a request because the element is delegated.
pub(super) async fn delegate_of(coordinator: &Coordinator, process: Arc<str>, rejection: &Rejection) -> Option<String> {
    let Rejection::Delegated { element, attempt } = rejection else { return None };
    let key = AttemptKey::new(process, element.bits(), *attempt);
    match coordinator.pool.whereabouts(vec![key]).await.pop()?? {
        Whereabouts::At { address, .. } => Some(address),
        Whereabouts::Waits(_) => None,
    }
}

/// A client of another coordinator.
pub(super) async fn client(address: &str) -> Result<ProcessCoordinatorClient<Channel>, Status> {
    let channel = connect(address).await;
    let channel = channel.map_err(|_| {
        Status::unavailable(format!(
            "the coordinator at {address} does not answer; if it is gone for good, give its part of the process up with \
             `xavantes retry PATH --elsewhere`"
        ))
    })?;
    Ok(ProcessCoordinatorClient::new(channel).max_decoding_message_size(xavantes_proto::MAX_MESSAGE_BYTES))
}
