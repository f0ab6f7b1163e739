//! `Resolve`: the whole path for one that begins with a part of the id of its process.

use tonic::{Code, Status};
use xavantes_proto::v1;

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;
use crate::rpc::find::find;

/// Upper bound on the ids in an error message.
const MAX_CANDIDATES: usize = 10;

pub(super) async fn resolve(
    coordinator: &Coordinator,
    request: v1::ResolveRequest,
) -> Result<v1::ResolveResponse, Status> {
    let path = request.path;
    let unknown = match find(coordinator, &path).await {
        Err(status) if status.code() == Code::NotFound => status,
        Err(status) if status.code() == Code::InvalidArgument => return Err(status),
        // Of a process that cannot be read, the command itself says more.
        _ => return Ok(v1::ResolveResponse { path }),
    };
    let (typed, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let ids = coordinator.repository.ids(typed, MAX_CANDIDATES + 1);
    let mut ids = ids.await.map_err(|error| repository_status(&error))?;
    match ids.len() {
        0 => Err(unknown),
        1 => Ok(v1::ResolveResponse { path: ids.remove(0) + rest }),
        several => {
            let more = if several > MAX_CANDIDATES { ", …" } else { "" };
            ids.truncate(MAX_CANDIDATES);
            Err(Status::invalid_argument(format!(
                "{typed:?} is the beginning of several ids: {}{more}; type more of the one that you mean",
                ids.join(", ")
            )))
        }
    }
}
