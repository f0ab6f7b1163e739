//! Borrowed workers in the repository. A coordinator that restarts, or takes over processes, asks these workers for
//! attempts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tracing::{debug, warn};
use xavantes_repository::{Error, Store};

use crate::workers::worker_link::Context;

/// Kind of the documents. Each coordinator of a shared repository has its own, because several may borrow one worker.
const BORROWED: &str = "borrowed";

/// A lease that could not be stored is stored again at this interval. Until then the worker gets neither attempts nor claims.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

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

/// Makes changes one after the other: the deletion of an earlier lease must not remove a later one. Sends the workers whose
/// names are stored to `stored`.
pub(crate) async fn write_leases(
    context: Context,
    mut writes: mpsc::UnboundedReceiver<LeaseWrite>,
    stored: mpsc::UnboundedSender<Arc<str>>,
) {
    let node = context.hello.node.clone();
    while let Some(write) = writes.recv().await {
        match write {
            LeaseWrite::Store(worker, address) => {
                let document = Bytes::from(format!("{address}\n{worker}"));
                let name = document_name(&node, &worker);
                while let Err(error) = context.repository.put(BORROWED, &name, document.clone()).await {
                    warn!(%worker, %error, "cannot store the lease of a worker; trying again");
                    if stored.is_closed() {
                        return;
                    }
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                let _ = stored.send(worker);
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
