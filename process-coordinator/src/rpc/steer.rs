//! `Steer`: cancel, pause, resume, retry or set an element, here or at the coordinator that runs it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::Status;
use xavantes_engine::Action;
use xavantes_proto::message_limits::{check_length, check_name, check_optional_name};
use xavantes_proto::v1::steer_request;
use xavantes_proto::{call_with_timeout, v1};
use xavantes_repository::{Entry, Error};

use crate::coordinator::Coordinator;
use crate::process::driver_input::Steering;
use crate::process::handle::{ProcessEnded, ProcessHandle};
use crate::process::process_registry::HeldProcess;
use crate::process::reopen_process::ReopenError;
use crate::rpc::errors::{ended_status, held_status, rejection_status, repository_status, unreadable_status};
use crate::rpc::find::{FoundProcess, client, delegate_of, find};
use crate::rpc::forward::{Owner, too_many_forwards};

/// Upper bound on the value of a setting, which may be code.
const MAX_SETTING_BYTES: usize = 64 << 10;
/// A command that the process has not recorded after this time is looked after.
const DECISION_POLL_INTERVAL: Duration = Duration::from_millis(800);
/// A command gets an answer after this time.
const MAX_DECISION_TIME: Duration = Duration::from_secs(4);

pub(super) async fn steer(
    coordinator: &Arc<Coordinator>,
    request: v1::SteerRequest,
) -> Result<v1::SteerResponse, Status> {
    if let Some(steer_request::Action::Set(setting)) = &request.action {
        check_name("the key of the setting", &setting.key)?;
        check_length("the value of the setting", &setting.value, MAX_SETTING_BYTES)?;
    }
    check_optional_name("the name of the user", &request.user)?;
    let action = request.action.clone().ok_or_else(|| Status::invalid_argument("no action"))?;
    let forwarded = v1::SteerRequest { forwards: request.forwards.saturating_add(1), ..request.clone() };
    let (id, process) = match find(coordinator, &request.path).await? {
        FoundProcess::Held(id, held) => {
            let is_whole = request.path == *id || request.path == held.status.path;
            return steer_held(coordinator, &id, &held, action, is_whole).await;
        }
        FoundProcess::Running(id, process) => (id, process),
        FoundProcess::Ended(entry) => match action {
            steer_request::Action::Retry(v1::Retry { elsewhere: false }) => {
                return reopen(coordinator, &entry, request.path, request.user).await;
            }
            _ => return Err(ended_status(ProcessEnded)),
        },
        FoundProcess::Elsewhere(entry) => {
            let owner = Owner::of(coordinator, &entry, request.forwards).await?;
            return owner.ask(|mut client| async move { client.steer(forwarded).await }).await;
        }
    };
    let decided =
        decision(&id, &process, process.steer(request.path.clone(), steering(action), request.user.clone())).await?;
    match decided.map_err(ended_status)? {
        Ok(effect) => Ok(v1::SteerResponse { effect: effect.into() }),
        Err(rejection) => match delegate_of(coordinator, id, &rejection).await {
            Some(address) => match too_many_forwards(&request.path, request.forwards) {
                None => call_with_timeout(client(&address).await?.steer(forwarded)).await,
                Some(refusal) => Err(refusal),
            },
            None => Err(rejection_status(&rejection)),
        },
    }
}

/// Lets an ended process go on.
async fn reopen(
    coordinator: &Arc<Coordinator>,
    entry: &Entry,
    path: String,
    by: String,
) -> Result<v1::SteerResponse, Status> {
    let id = &entry.process;
    let error = match coordinator.reopen(entry, path, by).await {
        Ok(()) => return Ok(v1::SteerResponse { effect: v1::SteerEffect::GoesOn.into() }),
        Err(error) => error,
    };
    Err(match &error {
        ReopenError::NotKept if coordinator.status_of(entry).state() == v1::State::Completed => {
            Status::failed_precondition(format!("{id} completed: there is nothing to retry"))
        }
        ReopenError::NotKept => Status::failed_precondition(format!(
            "{id} cannot go on: {error}, because the process was held when it ended; submit it again"
        )),
        ReopenError::Rejected(rejection) => rejection_status(rejection),
        ReopenError::Repository(Error::Unknown(_)) => {
            Status::aborted(format!("somebody else has reopened or removed {id} at this moment"))
        }
        ReopenError::Repository(error) => repository_status(error),
        ReopenError::Unreadable(error) => unreadable_status(error),
        ReopenError::Internal(_) => Status::internal(format!("{id} cannot go on: {error}")),
    })
}

/// Waits for the decision of a process, but not if the process stands still, and not for long.
async fn decision<T>(id: &str, process: &ProcessHandle, decided: impl Future<Output = T>) -> Result<T, Status> {
    let began = Instant::now();
    tokio::pin!(decided);
    loop {
        if let Ok(decision) = tokio::time::timeout(DECISION_POLL_INTERVAL, &mut decided).await {
            return Ok(decision);
        }
        let reason = process.status.borrow().stalled.as_ref().map(ToString::to_string);
        let reason = match reason {
            Some(reason) => reason,
            None if began.elapsed() > MAX_DECISION_TIME => "it is busy".to_owned(),
            None => continue,
        };
        return Err(Status::unavailable(format!(
            "process {id:?} has the command, and carries it out as soon as it can: {reason}"
        )));
    }
}

/// Steers a held process: as a whole it can be resumed and cancelled.
async fn steer_held(
    coordinator: &Arc<Coordinator>,
    id: &Arc<str>,
    held: &HeldProcess,
    action: steer_request::Action,
    is_whole: bool,
) -> Result<v1::SteerResponse, Status> {
    use steer_request::Action as Wire;
    let not_held = || Status::aborted(format!("process {id:?} is held no longer: repeat the command"));
    match action {
        Wire::Cancel(_) if is_whole => {
            let cancelled = coordinator.cancel_held(id).await.map_err(|error| repository_status(&error))?;
            if cancelled { Ok(v1::SteerResponse::default()) } else { Err(not_held()) }
        }
        Wire::Resume(_) | Wire::Retry(v1::Retry { elsewhere: false }) if is_whole => {
            match coordinator.resume_held(id).await.ok_or_else(not_held)? {
                Ok(()) => Ok(v1::SteerResponse::default()),
                Err(reason) => Err(Status::failed_precondition(format!("process {id:?} cannot continue: {reason}"))),
            }
        }
        _ => Err(held_status(id, held)),
    }
}

fn steering(action: steer_request::Action) -> Steering {
    use steer_request::Action as Wire;
    Steering::Engine(match action {
        Wire::Cancel(_) => Action::Cancel,
        Wire::Pause(_) => Action::Pause,
        Wire::Resume(_) => Action::Resume,
        Wire::Retry(v1::Retry { elsewhere: false }) => Action::Retry,
        Wire::Retry(v1::Retry { elsewhere: true }) => return Steering::RetryElsewhere,
        Wire::Set(setting) => Action::Set { key: setting.key, value: setting.value },
    })
}
