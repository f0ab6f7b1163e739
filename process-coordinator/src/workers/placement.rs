//! Which worker gets which task, and what it is told about the files. Without I/O, clock or threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::value::MAX_HOLDERS;
use xavantes_proto::v1;

use super::pool::Peer;
use super::worker::Worker;
use crate::attempt::Task;
use crate::data::locations::Need;

/// So many other coordinators are asked at most to fetch files for a worker.
const MOST_RELAYS: usize = 4;

/// Who has the files of a task that goes to that worker, and is not named by the references themselves.
pub fn holdings(workers: &BTreeMap<Arc<str>, Worker>, name: &str, files: &[Need]) -> Vec<v1::Holding> {
    let mut found = Vec::new();
    for need in files {
        // Also if it should have them itself: it may have let go of them.
        let others = workers.iter().filter(|(other, _)| &***other != name).map(|(_, worker)| worker);
        let others = others.filter(|other| other.connected && other.holdings.has(&need.digest));
        let others = others.filter(|other| need.holders.iter().all(|holder| **holder != *other.address));
        let addresses: Vec<String> = others.map(|other| other.address.clone()).take(MAX_HOLDERS).collect();
        if !addresses.is_empty() {
            found.push(v1::Holding { digest: need.digest.0.to_vec(), addresses });
        }
    }
    found
}

/// Coordinators that have, or had, subtrees: they reach workers that others may not.
pub fn relays(workers: &BTreeMap<Arc<str>, Worker>) -> impl Iterator<Item = &String> {
    let there = workers.values().filter(|worker| worker.peer == Peer::Coordinator && worker.connected);
    there.map(|worker| &worker.address).take(MOST_RELAYS)
}

/// Is this the worker that calls itself so? Those of other groups are called by these, too.
pub fn is_called(name: &str, own: &str) -> bool {
    name.rsplit('/').next() == Some(own)
}

/// Takes the first task out of a queue that some worker has room for: what waits for a worker that is not there does not
/// hold up the rest.
pub fn next(
    queue: &mut VecDeque<Task>,
    workers: &BTreeMap<Arc<str>, Worker>,
    now: Duration,
) -> Option<(Arc<str>, Task)> {
    if !workers.values().any(|worker| worker.has_room(now)) {
        return None;
    }
    // Activities of one type need the same.
    let mut hopeless: Vec<(*const v1::Program, u32)> = Vec::new();
    for at in 0..queue.len() {
        let task = &queue[at];
        let kind = (Arc::as_ptr(&task.program), task.job.activity);
        if hopeless.contains(&kind) {
            continue;
        }
        let fitting = workers.iter().filter(|(_, worker)| worker.fits(task, now));
        let avoided = |name: &str| task.avoid.as_deref().is_some_and(|avoid| is_called(name, avoid));
        if let Some((name, _)) = fitting.max_by_key(|(name, worker)| (!avoided(name), worker.worth(task))) {
            let name = name.clone();
            return Some((name, queue.remove(at)?));
        }
        hopeless.push(kind);
    }
    None
}
