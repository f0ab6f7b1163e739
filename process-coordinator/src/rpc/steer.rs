//! `Steer`: cancel, pause, resume, retry or set an element, here or at the coordinator that runs it.

use tonic::Status;
use xavantes_engine::Action;
use xavantes_proto::v1::steer_request;
use xavantes_proto::{call_with_timeout, v1};

use crate::coordinator::Coordinator;
use crate::process::input::Steering;
use crate::rpc::errors::{ended_status, rejection_status};
use crate::rpc::find::{client, delegate_of, find_running};

pub(super) async fn steer(coordinator: &Coordinator, request: v1::SteerRequest) -> Result<v1::SteerResponse, Status> {
    let (id, process) = find_running(coordinator, &request.path).await?;
    let action = request.action.clone().ok_or_else(|| Status::invalid_argument("no action"))?;
    match process.steer(request.path.clone(), steering(action)).await.map_err(ended_status)? {
        Ok(()) => Ok(v1::SteerResponse {}),
        Err(rejection) => match delegate_of(coordinator, id, &rejection).await {
            Some(address) => call_with_timeout(client(&address).await?.steer(request)).await,
            None => Err(rejection_status(&rejection)),
        },
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
