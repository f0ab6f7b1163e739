//! The process that a path is in, here or at another coordinator.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use xavantes_engine::Rejection;
use xavantes_proto::connect;
use xavantes_proto::message_limits::check_path;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_repository::{Entry, MAX_NAME};

use crate::coordinator::Coordinator;
use crate::process::handle::ProcessHandle;
use crate::process::process_registry::HeldProcess;
use crate::rpc::errors::{recovering_status, repository_status};
use crate::rpc::forward::Client;
use crate::workers::worker_messages::Whereabouts;
use xavantes_proto::AttemptKey;

/// A process that this coordinator is recovering is looked for this often, and this many times.
const RECOVERY_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_RECOVERY_POLLS: u32 = 100;

/// The process that a path is in.
pub(super) enum FoundProcess {
    /// It runs here, under this id.
    Running(Arc<str>, ProcessHandle),
    /// It is held here, under this id.
    Held(Arc<str>, Box<HeldProcess>),
    /// It has ended.
    Ended(Box<Entry>),
    /// Another coordinator runs or holds it.
    Elsewhere(Box<Entry>),
}

/// The process that a path is in: the innermost of those whose path begins it. Waits a moment for a process that this
/// coordinator is recovering.
pub(super) async fn find(coordinator: &Coordinator, path: &str) -> Result<FoundProcess, Status> {
    check_path("the path", path)?;
    for _ in 0..MAX_RECOVERY_POLLS {
        if let Some(found) = find_now(coordinator, path).await? {
            return Ok(found);
        }
        tokio::time::sleep(RECOVERY_POLL_INTERVAL).await;
    }
    Err(recovering_status(path))
}

/// Nothing if this coordinator is recovering the process.
async fn find_now(coordinator: &Coordinator, path: &str) -> Result<Option<FoundProcess>, Status> {
    for id in beginnings(path) {
        if let Some(found) = find_here(coordinator, id) {
            return Ok(Some(found));
        }
        if !is_stored_id(id) {
            continue;
        }
        let stored = coordinator.repository.find(id).await.map_err(|error| repository_status(&error))?;
        if let Some(entry) = stored.map(Box::new) {
            return Ok(match entry.summary {
                Some(_) => Some(FoundProcess::Ended(entry)),
                None if entry.owner != coordinator.options.node => Some(FoundProcess::Elsewhere(entry)),
                // It may have started since the first look.
                None => find_here(coordinator, id),
            });
        }
    }
    Err(unknown_status(path))
}

/// The stored process that a path is in.
pub(super) async fn find_entry(coordinator: &Coordinator, path: &str) -> Result<Entry, Status> {
    for id in beginnings(path).filter(|id| is_stored_id(id)) {
        if let Some(entry) = coordinator.repository.find(id).await.map_err(|error| repository_status(&error))? {
            return Ok(entry);
        }
    }
    Err(unknown_status(path))
}

/// The beginnings of a path that may be the id or the path of a process, the longest first. They are few also if the path is
/// long.
fn beginnings(path: &str) -> impl Iterator<Item = &str> {
    let ends = iter::once(path.len()).chain(path.rmatch_indices('/').map(|(end, _)| end));
    ends.filter(|end| *end <= MAX_NAME).map(|end| &path[..end])
}

/// Can this be the id of a stored process? Ids of submitted processes have no slash. Those of subtrees have a digest at
/// their end, behind an `@`.
fn is_stored_id(id: &str) -> bool {
    id.rsplit_once('/').is_none_or(|(_, name)| name.contains('@'))
}

fn unknown_status(path: &str) -> Status {
    let (id, _) = path.split_once('/').unwrap_or((path, ""));
    Status::not_found(format!("there is no process {id:?} here"))
}

fn find_here(coordinator: &Coordinator, id: &str) -> Option<FoundProcess> {
    let processes = &coordinator.processes;
    if let Some(process) = processes.find(id) {
        return Some(FoundProcess::Running(id.into(), process));
    }
    if let Some((process, handle)) = processes.find_by_path(id) {
        return Some(FoundProcess::Running(process, handle));
    }
    processes.find_held(id).map(|(process, held)| FoundProcess::Held(process, Box::new(held)))
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

/// A client of the coordinator that runs a subtree.
pub(super) async fn client(address: &str) -> Result<Client, Status> {
    let channel = connect(address).await;
    let channel = channel.map_err(|_| {
        Status::unavailable(format!(
            "the coordinator at {address} does not answer; if it is gone for good, give its part of the process up with \
             `xavantes retry PATH --elsewhere`"
        ))
    })?;
    Ok(ProcessCoordinatorClient::new(channel).max_decoding_message_size(xavantes_proto::MAX_MESSAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_looked_for_under_few_beginnings_of_its_path() {
        let all: Vec<&str> = beginnings("P-1/a/[2]@x/b").collect();
        assert_eq!(all, ["P-1/a/[2]@x/b", "P-1/a/[2]@x", "P-1/a", "P-1"]);
        let stored: Vec<&str> = all.into_iter().filter(|id| is_stored_id(id)).collect();
        assert_eq!(stored, ["P-1/a/[2]@x", "P-1"]);
        let long = vec!["a"; 64_000].join("/");
        assert_eq!(beginnings(&long).count(), MAX_NAME.div_ceil(2));
        assert_eq!(beginnings(&long).filter(|id| is_stored_id(id)).collect::<Vec<_>>(), ["a"]);
        assert_eq!(beginnings(&"a".repeat(MAX_NAME + 1)).count(), 0);
    }
}
