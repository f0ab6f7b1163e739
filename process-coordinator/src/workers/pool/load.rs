//! Where the activities of each process are, told to the processes a few times a second: for people, not for decisions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use xavantes_proto::v1;

use super::{LOST_AFTER, Pool};
use crate::workers::worker_messages::{PeerKind, PoolCommand, PoolLoad};

/// Interval at which the pool tells processes where their activities are.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

impl Pool {
    /// Tells the processes for which it has changed where their activities are.
    pub(super) fn report_loads(&mut self, now: Duration) {
        if now.saturating_sub(self.last_load_report) < REPORT_INTERVAL {
            return;
        }
        self.last_load_report = now;
        let mut loads = self.loads();
        let told = std::mem::take(&mut self.told_loads);
        for process in told.keys().filter(|process| self.epochs.contains_key(*process)) {
            loads.entry(process.clone()).or_default();
        }
        for (process, load) in &loads {
            if told.get(process) != Some(load) {
                self.commands.push(PoolCommand::ReportLoad(process.clone(), load.clone()));
            }
        }
        // The other processes have heard that they have nothing here.
        loads.retain(|_, load| *load != PoolLoad::default());
        self.told_loads = loads;
    }

    /// Where the activities of each process are that has any here.
    fn loads(&mut self) -> HashMap<Arc<str>, PoolLoad> {
        let mut loads: HashMap<Arc<str>, PoolLoad> = HashMap::new();
        for (name, peer) in self.peers.iter().filter(|(_, peer)| peer.kind == PeerKind::Worker) {
            let silent_ms = peer.silent_since.map(|since| self.last_tick.saturating_sub(since).as_millis() as u64);
            self.attempts.for_each_assigned(peer.index, |attempt| {
                let process = &attempt.task.key.process;
                let load = match loads.get_mut(process) {
                    Some(load) => load,
                    None => loads.entry(process.clone()).or_default(),
                };
                match (silent_ms, attempt.movement.runs_for(self.last_tick)) {
                    (None, Some(_)) => load.running += 1,
                    (None, None) => load.queued += 1,
                    (Some(silent_ms), _) => {
                        load.wait_reason.get_or_insert_with(|| silent_worker(name, silent_ms));
                    }
                }
            });
        }
        for (process, task) in self.attempts.first_queued() {
            let load = loads.entry(process.clone()).or_default();
            if load.running == 0 && load.queued == 0 {
                load.wait_reason = Some(self.wait_reason(&task.needs));
            }
        }
        for load in loads.values_mut().filter(|load| load.running > 0 || load.queued > 0) {
            load.wait_reason = None;
        }
        loads
    }
}

/// An attempt waits because the connection to its worker broke.
pub(crate) fn silent_worker(name: &str, silent_ms: u64) -> v1::WaitReason {
    let lost_after_ms = LOST_AFTER.as_millis() as u64;
    v1::wait_reason::Kind::WorkerSilent(v1::SilentWorker { node: name.to_owned(), silent_ms, lost_after_ms }).into()
}
