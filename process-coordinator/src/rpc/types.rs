//! `ListTypes` and `FindTypes`: the process and activity types of submitted documents.

use std::sync::Arc;

use xavantes_proto::v1;

use crate::coordinator::Coordinator;

/// All types.
pub(super) fn list_types(coordinator: &Coordinator) -> v1::ListTypesResponse {
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
    types.sort_by(|a, b| (b.kind, &a.name, &a.digest).cmp(&(a.kind, &b.name, &b.digest)));
    v1::ListTypesResponse { types }
}

/// The latest documents that define these types, each document once.
pub(super) fn find_types(coordinator: &Coordinator, request: v1::FindTypesRequest) -> v1::FindTypesResponse {
    let mut documents: Vec<v1::Document> = Vec::new();
    for name in request.names {
        let program = coordinator.programs.defining(&name);
        for document in program.iter().flat_map(|program| &program.documents) {
            if !documents.contains(document) {
                documents.push(document.clone());
            }
        }
    }
    v1::FindTypesResponse { documents }
}
