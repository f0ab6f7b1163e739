//! Marks in the repository of processes that a coordinator continues after the end of their last owner. A process that
//! brings down its owners leaves its mark behind, and the next owner holds it.
//!
//! A coordinator may end for many reasons, and most processes have nothing to do with it. So a mark speaks against a
//! process only if the owner ended while it loaded this very process, or if the process is large.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::warn;
use xavantes_repository::{Error, Store};

use crate::record_codec;
use crate::repository_calls::{RepositoryCall, join_in_order};

/// Kind of the documents that are marks, by process.
const MARKS: &str = "recoveries";
/// A process that ran for this long after its recovery has made progress.
pub(crate) const PROBATION: Duration = Duration::from_secs(10);
/// A process that brought down this many owners is held.
const MAX_ENDED_OWNERS: u32 = 2;
/// A process that takes less than this in the repository does not exhaust the memory of its owner.
const MIN_SUSPECT_BYTES: u64 = 16 << 20;
/// The load of a process that takes more than this in the repository gets a mark of its own.
const MIN_MARKED_LOAD_BYTES: u64 = 1 << 20;

/// What the next owner learns if the present one ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RecoveryMark {
    /// Number of owners in a row that ended before the process made progress, the present one included.
    Continued(u32),
    /// As `Continued`; the last of them ended while it loaded the process.
    Loading(u32),
    /// The process is held. The number counts the owners that ended.
    Held(u32),
}

impl RecoveryMark {
    fn ended_owners(self) -> u32 {
        match self {
            Self::Continued(count) | Self::Loading(count) | Self::Held(count) => count,
        }
    }
}

/// What a coordinator does with the processes that it gained.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveryPlan {
    /// Processes to hold, with the number of owners that they brought down.
    pub held: BTreeMap<String, u32>,
    /// Marks of the other processes before they are loaded.
    pub marks: BTreeMap<String, RecoveryMark>,
}

impl RecoveryPlan {
    /// Plans the recovery of processes. `marks` are those of their last owners; `size` gives the bytes of a process in the
    /// repository. Of several large processes that were together when their owners ended, the plan holds the largest: if
    /// that is not the right one, the next plan holds the next.
    pub fn new(gained: &[String], marks: &BTreeMap<String, RecoveryMark>, size: impl Fn(&str) -> u64) -> Self {
        let mut plan = Self::default();
        for process in gained {
            match marks.get(process) {
                Some(RecoveryMark::Held(count)) => drop(plan.held.insert(process.clone(), *count)),
                Some(RecoveryMark::Loading(count)) if *count >= MAX_ENDED_OWNERS => {
                    plan.held.insert(process.clone(), *count);
                }
                mark => {
                    let before = mark.map_or(0, |mark| mark.ended_owners());
                    let count = (before + 1).min(MAX_ENDED_OWNERS);
                    let alone = before > 0 || size(process) >= MIN_MARKED_LOAD_BYTES;
                    let mark = if alone { RecoveryMark::Loading(count) } else { RecoveryMark::Continued(count) };
                    plan.marks.insert(process.clone(), mark);
                }
            }
        }
        let is_suspect = |process: &&String| {
            let mark = marks.get(*process).copied();
            matches!(mark, Some(RecoveryMark::Continued(count)) if count >= MAX_ENDED_OWNERS)
                && size(process) >= MIN_SUSPECT_BYTES
        };
        let known = gained.iter().filter(|process| !plan.held.contains_key(*process));
        if let Some(largest) = known.filter(is_suspect).max_by_key(|process| size(process)).cloned() {
            plan.marks.remove(&largest);
            plan.held.insert(largest, MAX_ENDED_OWNERS);
        }
        plan
    }

    /// The marks that are stored before the first process is loaded. A process that is loaded alone gets its own mark then.
    pub fn together(&self) -> BTreeMap<String, RecoveryMark> {
        let marks = self.marks.iter();
        marks.map(|(process, mark)| (process.clone(), RecoveryMark::Continued(mark.ended_owners()))).collect()
    }
}

/// The marks of a coordinator's processes.
pub(crate) struct RecoveryMarks {
    repository: Store,
    /// Processes with a mark that have not made progress yet.
    pending: Mutex<BTreeSet<Arc<str>>>,
}

impl RecoveryMarks {
    pub fn new(repository: Store) -> Self {
        Self { repository, pending: Mutex::default() }
    }

    /// Reads the marks that the last owners left.
    pub async fn read(&self) -> Result<BTreeMap<String, RecoveryMark>, Error> {
        let documents = self.repository.documents(MARKS).await?;
        Ok(documents
            .into_iter()
            .filter_map(|(process, mark)| Some((process, record_codec::decode("mark", &mark).ok()?)))
            .collect())
    }

    /// Stores marks, all with one write. A mark that cannot be stored only makes a later decision worse.
    pub async fn store(&self, marks: impl IntoIterator<Item = (&String, &RecoveryMark)>) {
        let calls = marks.into_iter().map(|(process, mark)| -> RepositoryCall {
            let (repository, process, mark) = (self.repository.clone(), process.clone(), record_codec::encode(mark));
            self.pending.lock().insert(process.as_str().into());
            Box::pin(async move { repository.put(MARKS, &process, mark).await })
        });
        for error in join_in_order(calls.collect()).await.into_iter().filter_map(Result::err) {
            warn!(%error, "could not mark a process that is recovered");
        }
    }

    /// A process has been loaded. `quick_end` says that its first owner ended soon after the start of the process.
    pub async fn on_loaded(&self, process: &str, mark: RecoveryMark, quick_end: bool) {
        let count = if quick_end { MAX_ENDED_OWNERS } else { mark.ended_owners() };
        let loaded = RecoveryMark::Continued(count);
        if loaded != mark {
            self.store([(&process.to_owned(), &loaded)]).await;
        }
    }

    /// A process is held because it brought down its owners.
    pub async fn on_held(&self, process: &str, count: u32) {
        self.store([(&process.to_owned(), &RecoveryMark::Held(count))]).await;
        self.pending.lock().remove(process);
    }

    /// Does a process have a mark that progress removes?
    pub fn is_pending(&self, process: &str) -> bool {
        self.pending.lock().contains(process)
    }

    /// A process has made progress: its mark goes.
    pub fn on_progress(self: &Arc<Self>, process: &Arc<str>) {
        if self.pending.lock().remove(process) {
            let (marks, process) = (self.clone(), process.clone());
            tokio::spawn(async move { marks.remove(&process).await });
        }
    }

    /// Removes the mark of a process.
    pub async fn remove(&self, process: &str) {
        self.pending.lock().remove(process);
        if let Err(error) = self.repository.remove(MARKS, process).await {
            warn!(process, %error, "could not remove the mark of a recovered process");
        }
    }

    /// Removes the marks of all processes that run: their owner ends in order.
    pub async fn remove_pending(&self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        let calls = pending.into_iter().map(|process| -> RepositoryCall {
            let repository = self.repository.clone();
            Box::pin(async move { repository.remove(MARKS, &process).await })
        });
        drop(join_in_order(calls.collect()).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u64 = 2 * MIN_SUSPECT_BYTES;

    /// The plan of one owner after the other, each of which ends after it has loaded everything.
    fn owners(sizes: &[(&str, u64)], count: usize) -> RecoveryPlan {
        let gained: Vec<String> = sizes.iter().map(|(process, _)| (*process).to_owned()).collect();
        let size = |process: &str| sizes.iter().find(|(other, _)| *other == process).map_or(0, |(_, size)| *size);
        let mut marks = BTreeMap::new();
        let mut plan = RecoveryPlan::default();
        for _ in 0..count {
            plan = RecoveryPlan::new(&gained, &marks, size);
            let loaded = |mark: &RecoveryMark| RecoveryMark::Continued(mark.ended_owners());
            marks.extend(plan.marks.iter().map(|(process, mark)| (process.clone(), loaded(mark))));
            marks.extend(plan.held.iter().map(|(process, count)| (process.clone(), RecoveryMark::Held(*count))));
        }
        plan
    }

    #[test]
    fn the_largest_process_is_held_after_two_owners_and_stays_held() {
        let processes = [("large", LARGE), ("larger", LARGE + 1), ("small", 100)];
        assert!(owners(&processes, 2).held.is_empty());
        assert_eq!(owners(&processes, 3).held.keys().collect::<Vec<_>>(), ["larger"]);
        // The next owner ends as well: it was the other one, or both.
        assert_eq!(owners(&processes, 4).held.keys().collect::<Vec<_>>(), ["large", "larger"]);
        // Small processes are innocent, however often their owners end.
        assert_eq!(owners(&processes, 9).held.len(), 2);
        assert!(owners(&[("small", 100)], 9).held.is_empty());
    }

    #[test]
    fn a_process_whose_load_ended_two_owners_is_held_however_small_it_is() {
        let gained = ["bad".to_owned(), "good".to_owned()];
        let first = RecoveryPlan::new(&gained, &BTreeMap::new(), |_| MIN_MARKED_LOAD_BYTES);
        assert_eq!(first.marks["bad"], RecoveryMark::Loading(1));
        let second = RecoveryPlan::new(&gained, &first.marks, |_| 0);
        assert_eq!(second.marks["bad"], RecoveryMark::Loading(2));
        let marks = [("bad", RecoveryMark::Loading(2)), ("good", RecoveryMark::Continued(2))];
        let marks = marks.map(|(process, mark)| (process.to_owned(), mark)).into();
        let third = RecoveryPlan::new(&gained, &marks, |_| 0);
        assert_eq!(third.held.keys().collect::<Vec<_>>(), ["bad"]);
        assert_eq!(third.marks["good"], RecoveryMark::Loading(2));
    }
}
