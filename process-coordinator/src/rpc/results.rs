//! `Results`: how a process ended, in parts, because results may be large.

use tonic::Status;
use xavantes_proto::v1;

use crate::coordinator::Coordinator;
use crate::process::ended_summary::Summary;
use crate::process::process_status::running_status;
use crate::record_codec;
use crate::rpc::errors::unreadable_status;
use crate::rpc::find::{FoundProcess, find};
use crate::rpc::forward::Owner;
use crate::rpc::outputs::PartStream;

pub(super) async fn results(coordinator: &Coordinator, request: v1::ResultsRequest) -> Result<PartStream, Status> {
    let (status, results) = match find(coordinator, &request.process).await? {
        FoundProcess::Running(_, handle) => (running_status(&handle), Vec::new()),
        FoundProcess::Held(_, held) => (held.status, Vec::new()),
        FoundProcess::Elsewhere(entry) => {
            let owner = Owner::of(coordinator, &entry, request.forwards).await?;
            let request = v1::ResultsRequest { forwards: request.forwards.saturating_add(1), ..request };
            let answer = owner.ask(|mut client| async move { client.results(request).await }).await?;
            return Ok(Box::pin(owner.pass_on(answer)));
        }
        FoundProcess::Ended(entry) => {
            let unreadable = |error| unreadable_status(&error);
            let summary: Summary =
                record_codec::decode("summary", entry.summary.as_deref().unwrap_or_default()).map_err(unreadable)?;
            let mut results = summary.results().map_err(unreadable)?;
            coordinator.pinning.name_holders(&mut results).await;
            (summary.status().map_err(unreadable)?, results)
        }
    };
    let parts = xavantes_proto::split(&v1::ResultsResponse { status: Some(status), results });
    Ok(Box::pin(tokio_stream::iter(parts.map(Ok))))
}
