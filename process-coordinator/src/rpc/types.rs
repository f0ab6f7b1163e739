//! `ListTypes` and `FindDocument`: the process and activity types of submitted documents.

use tonic::Status;
use xavantes_model::load::MIN_HASH_DIGITS;
use xavantes_proto::message_limits::check_name;
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

/// The document that a type is imported from.
pub(super) async fn find_document(
    coordinator: &Coordinator,
    request: v1::FindDocumentRequest,
) -> Result<v1::Document, Status> {
    let v1::FindDocumentRequest { r#type, hash } = request;
    check_name("the name of the type", &r#type)?;
    check_name("the hash of the document", &hash)?;
    if hash.len() < MIN_HASH_DIGITS {
        return Err(Status::invalid_argument(format!("a hash has at least {MIN_HASH_DIGITS} digits")));
    }
    refresh(coordinator).await?;
    let found = coordinator.programs.find_document(&r#type, &hash).await.map_err(|error| repository_status(&error))?;
    found.ok_or_else(|| {
        let other = coordinator.programs.types().into_iter().rfind(|it| it.name == r#type);
        Status::not_found(match other {
            Some(other) => format!(
                "no document here with the hash {hash} has the type {type:?}; the latest that has it is {}, with the hash {}",
                other.document, other.hash
            ),
            None => format!("no document here has the type {type:?}; xavantes types lists all"),
        })
    })
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
