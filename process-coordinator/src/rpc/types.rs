//! `ListTypes`: the process and activity types of submitted documents.

use tonic::Status;
use xavantes_proto::{page_of, v1};

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;

/// A page of all types.
pub(super) async fn list_types(
    coordinator: &Coordinator,
    request: v1::ListTypesRequest,
) -> Result<v1::ListTypesResponse, Status> {
    refresh(coordinator).await?;
    let types = coordinator.programs.types().into_iter();
    let mut types: Vec<_> = types.map(|described| (place_of(&described), described)).collect();
    types.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (types, next_page) = page_of(types, &request.page);
    Ok(v1::ListTypesResponse { types, next_page })
}

/// The place of a type in the list: activity types first, then by name.
fn place_of(described: &v1::TypeDescription) -> String {
    let v1::TypeDescription { name, digest, .. } = described;
    let kind = if described.kind() == v1::TypeKind::Activity { 1 } else { 2 };
    format!("{kind}\0{name}\0{digest}")
}

/// Loads what other coordinators have stored in the same repository.
async fn refresh(coordinator: &Coordinator) -> Result<(), Status> {
    match coordinator.options.shared {
        true => coordinator.programs.refresh().await.map_err(|error| repository_status(&error)),
        false => Ok(()),
    }
}
