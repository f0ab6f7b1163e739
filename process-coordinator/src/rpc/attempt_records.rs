//! What workers know of the attempts of an element.

use tokio::task::JoinSet;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::{call_with_timeout, connect, v1};

use crate::coordinator::Coordinator;

/// Records of an element's attempts, as far as connected workers have them, in the order of the attempts.
pub(super) async fn attempt_records(coordinator: &Coordinator, path: &str) -> Vec<v1::AttemptRecord> {
    let workers = coordinator.pool.vicinity(path).await.workers;
    let found = ask_workers(coordinator, path, workers).await;
    found.into_iter().map(|(_, record)| record).collect()
}

/// The attempts of an element that these workers have records of, with the addresses of the workers.
pub(super) async fn ask_workers(
    coordinator: &Coordinator,
    path: &str,
    workers: Vec<String>,
) -> Vec<(String, v1::AttemptRecord)> {
    let request = v1::AttemptsRequest { realm: coordinator.repository.realm().to_owned(), path: path.to_owned() };
    let mut asked = JoinSet::new();
    for address in workers {
        let request = request.clone();
        asked.spawn(async move {
            let channel = connect(&address).await.ok()?;
            let known = call_with_timeout(ActivityManagerClient::new(channel).attempts(request)).await.ok()?;
            Some((address, known.attempts))
        });
    }
    let mut found: Vec<(String, v1::AttemptRecord)> = Vec::new();
    while let Some(answer) = asked.join_next().await {
        if let Ok(Some((address, attempts))) = answer {
            found.extend(attempts.into_iter().map(|record| (address.clone(), record)));
        }
    }
    found.sort_by_key(|(_, record)| (record.attempt, record.began_ms));
    found
}
