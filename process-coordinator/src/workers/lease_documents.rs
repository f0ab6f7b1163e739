//! Borrowed workers in the repository. A coordinator that restarts, or takes over processes, asks these workers for
//! attempts.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tracing::{debug, warn};
use xavantes_repository::{Error, Store};

use crate::workers::connection::Context;

/// Kind of the documents. Each coordinator of a shared repository has its own, because several may borrow one worker.
const BORROWED: &str = "borrowed";

/// A change of the documents.
#[derive(Debug)]
pub(crate) enum LeaseWrite {
    /// Store the name and address of a worker.
    Store(Arc<str>, String),
    /// Delete the name of a worker.
    Delete(Arc<str>),
}

fn document_name(coordinator: &str, worker: &str) -> String {
    format!("{coordinator}/{worker}")
}

/// Makes changes one after the other: the deletion of an earlier lease must not remove a later one.
pub(crate) async fn write_leases(context: Context, mut writes: mpsc::UnboundedReceiver<LeaseWrite>) {
    let node = context.hello.node.clone();
    while let Some(write) = writes.recv().await {
        match write {
            LeaseWrite::Store(worker, address) => {
                let document = Bytes::from(format!("{address}\n{worker}"));
                match context.repository.put(BORROWED, &document_name(&node, &worker), document).await {
                    Ok(()) => context.pool.lease_stored(worker),
                    Err(error) => warn!(%worker, %error, "cannot store the lease of a worker; it gets no attempts"),
                }
            }
            LeaseWrite::Delete(worker) => {
                if let Err(error) = context.repository.remove(BORROWED, &document_name(&node, &worker)).await {
                    debug!(%worker, %error, "cannot delete the lease of a worker");
                }
            }
        }
    }
}

/// The borrowed workers of all coordinators of a repository: name and address of each.
pub(crate) async fn borrowed_workers(repository: &Store) -> Result<Vec<(Arc<str>, String)>, Error> {
    let documents = repository.documents(BORROWED).await?;
    Ok(documents.into_iter().map(|(name, document)| parse(name, &document)).collect())
}

/// Documents of earlier versions have the name of the worker as their name, and its address as content.
fn parse(name: String, document: &[u8]) -> (Arc<str>, String) {
    let text = String::from_utf8_lossy(document);
    match text.split_once('\n') {
        Some((address, worker)) => (worker.into(), address.to_owned()),
        None => (name.into(), text.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_all_versions_name_the_worker() {
        let worker: (Arc<str>, String) = ("g/w".into(), "host:1".into());
        assert_eq!(parse("c/g/w".into(), b"host:1\ng/w"), worker);
        assert_eq!(parse("g/w".into(), b"host:1"), worker);
    }
}
