//! `ListTypes` and `FindTypes`: the process and activity types of submitted documents.

use tonic::Status;
use xavantes_proto::message_limits::{check_count, check_optional_name};
use xavantes_proto::{page_of, v1};

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;
use crate::rpc::outputs::PartStream;

/// Upper bound on the types of one request.
const MAX_NAMES: usize = 1024;

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

/// The latest documents that define these types, each document once.
pub(super) async fn find_types(coordinator: &Coordinator, request: v1::FindTypesRequest) -> Result<PartStream, Status> {
    refresh(coordinator).await?;
    check_count("the list of names", request.names.len(), MAX_NAMES)?;
    let mut documents: Vec<v1::Document> = Vec::new();
    for name in request.names {
        check_optional_name("the name of a type", &name)?;
        let program = coordinator.programs.defining(&name).await.map_err(|error| repository_status(&error))?;
        for document in program.iter().flat_map(|program| &program.documents) {
            if !documents.contains(document) {
                documents.push(document.clone());
            }
        }
    }
    let parts = xavantes_proto::split(&v1::FindTypesResponse { documents });
    Ok(Box::pin(tokio_stream::iter(parts.map(Ok))))
}
