//! `Results`: how a process ended, in parts, because results may be large.
use tonic::Status;
use xavantes_proto::v1;

use crate::codec;
use crate::coordinator::Coordinator;
use crate::process::summary::Summary;
use crate::rpc::errors::unreadable_status;
use crate::rpc::find::{FoundProcess, find};
use crate::rpc::outputs::PartStream;

pub(super) async fn results(coordinator: &Coordinator, request: v1::ResultsRequest) -> Result<PartStream, Status> {
    let (status, results) = match find(coordinator, &request.process).await? {
        FoundProcess::Running(_, handle) => (handle.status.borrow().clone(), Vec::new()),
        FoundProcess::Held(_, held) => (held.status, Vec::new()),
        FoundProcess::Stored(entry) => {
            let results = entry
                .summary
                .as_deref()
                .map(|summary| codec::decode("summary", summary).and_then(|summary: Summary| summary.results()));
            let mut results = results.transpose().map_err(|error| unreadable_status(&error))?.unwrap_or_default();
            coordinator.pinning.name_holders(&mut results).await;
            (coordinator.status_of(&entry), results)
        }
    };
    let parts = xavantes_proto::split(&v1::ResultsResponse { status: Some(status), results });
    Ok(Box::pin(tokio_stream::iter(parts.map(Ok))))
}
