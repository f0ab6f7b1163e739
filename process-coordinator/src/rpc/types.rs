//! `ListTypes` and `FindTypes`: the process and activity types of submitted documents.

use std::sync::Arc;

use tonic::Status;
use xavantes_proto::{page_of, v1};

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;
use crate::rpc::outputs::PartStream;

/// A page of all types.
pub(super) async fn list_types(
    coordinator: &Coordinator,
    request: v1::ListTypesRequest,
) -> Result<v1::ListTypesResponse, Status> {
    refresh(coordinator).await?;
    let mut types = Vec::new();
    for (digest, program) in coordinator.programs.all() {
        let describe = |name: &Arc<str>, kind: v1::TypeKind, source: usize| v1::TypeDescription {
            name: name.to_string(),
            kind: kind.into(),
            digest: digest.clone(),
            document: program.sources.get(source).map_or_else(String::new, |name| name.to_string()),
        };
        types.extend(program.processes.iter().map(|it| describe(&it.name, v1::TypeKind::Process, it.source)));
        types.extend(program.activities.iter().map(|it| describe(&it.name, v1::TypeKind::Activity, it.source)));
    }
    let mut types: Vec<_> = types.into_iter().map(|described| (place_of(&described), described)).collect();
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
    let mut documents: Vec<v1::Document> = Vec::new();
    for name in request.names {
        let program = coordinator.programs.defining(&name);
        for document in program.iter().flat_map(|program| &program.documents) {
            if !documents.contains(document) {
                documents.push(document.clone());
            }
        }
    }
    let parts = xavantes_proto::split(&v1::FindTypesResponse { documents });
    Ok(Box::pin(tokio_stream::iter(parts.map(Ok))))
}
