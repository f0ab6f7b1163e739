//! Calls that change something run to their end, also if their client goes away.

use tonic::Status;

use crate::process::held_processes::panic_message;

/// Carries a call out in a task of its own. tonic drops the future of a call when its client disconnects or its deadline
/// passes. A change that the repository has made by then would stay without its consequences.
pub(super) async fn run_to_end<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> Result<T, Status> {
    let ended = tokio::spawn(call).await;
    ended.map_err(|error| Status::internal(format!("an error in the coordinator: {}", panic_message(error))))
}
