//! Calls of the repository that run together and take effect in a given order.

use std::pin::Pin;
use std::task::Poll;

use xavantes_repository::Error;

/// One call of the repository that has not been polled yet.
pub(crate) type RepositoryCall<T = ()> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Polls calls in their order, so that the repository carries them out in that order, and waits for all of them.
pub(crate) async fn join_in_order<T>(mut calls: Vec<RepositoryCall<T>>) -> Vec<Result<T, Error>> {
    let mut results: Vec<Option<Result<T, Error>>> = calls.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (call, result) in calls.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            match call.as_mut().poll(context) {
                Poll::Ready(done) => *result = Some(done),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}
