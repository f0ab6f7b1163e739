//! Removal of ended processes.

use std::collections::HashSet;
use std::time::Instant;

use tracing::{info, warn};
use xavantes_proto::v1;
use xavantes_repository::{Entries, Error};

use crate::clock::{CautiousClock, unix_ms};
use crate::coordinator::Coordinator;
use crate::memo::memo_store;
use crate::process::ended_summary::Summary;
use crate::record_codec;

/// Kind of the documents with the time that a coordinator trusted last. The key is the name of its node.
const CLOCKS: &str = "retention-clock";
/// A coordinator stores the time that it trusts at this interval.
const CLOCK_STORE_INTERVAL_MS: u64 = 3600 * 1000;

/// The clock by which a coordinator removes processes. A wall clock that jumps ahead must not remove them.
pub(crate) struct RetentionClock {
    clock: CautiousClock,
    observed: Instant,
    stored_ms: u64,
    warned: bool,
}

/// An ended process of the repository.
struct EndedProcess {
    ended_ms: u64,
    size: u64,
    process: String,
}

impl Coordinator {
    /// Removes ended processes permanently, and releases the files that nodes pinned for them. Gives those that run, because
    /// a user reopened them meanwhile: they stay, with their files.
    pub async fn forget(&self, processes: &[String]) -> Result<Vec<String>, Error> {
        // In this order, because nobody would find the state of a process that is forgotten.
        self.forget_ended_states(processes).await?;
        memo_store::forget(&self.repository, processes).await?;
        let running = self.repository.forget(processes).await?;
        let are_running: HashSet<&str> = running.iter().map(String::as_str).collect();
        for process in processes.iter().filter(|process| !are_running.contains(process.as_str())) {
            self.pool.release(v1::Release { process: process.clone(), ..v1::Release::default() }, true);
        }
        Ok(running)
    }

    /// Removes the ended processes that are too old, and the oldest ones while all together are too large. `clock` is
    /// `None` at the first time.
    pub(crate) async fn sweep(&self, clock: &mut Option<RetentionClock>) -> Result<(), Error> {
        let mut ended = self.ended_processes().await?;
        let now_ms = self.retention_time(clock, &ended).await?;
        ended.sort_by(|a, b| (b.ended_ms, b.size, &b.process).cmp(&(a.ended_ms, a.size, &a.process)));
        let max_bytes = self.options.retention_size.unwrap_or(u64::MAX);
        let oldest_ms = self.options.retention_age.map_or(0, |age| now_ms.saturating_sub(age.as_millis() as u64));
        let mut total = 0u64;
        let expired: Vec<String> = ended
            .into_iter()
            .filter_map(|it| {
                total = total.saturating_add(it.size);
                (it.ended_ms < oldest_ms || total > max_bytes).then_some(it.process)
            })
            .collect();
        if !expired.is_empty() {
            info!(processes = expired.len(), "removing expired processes");
            self.forget(&expired).await?;
        }
        Ok(())
    }

    /// Advances the clock. A new clock starts with the time that the repository knows.
    async fn retention_time(&self, clock: &mut Option<RetentionClock>, ended: &[EndedProcess]) -> Result<u64, Error> {
        let wall_ms = unix_ms();
        let state = match clock {
            Some(state) => state,
            None => {
                let stored = self.repository.get(CLOCKS, &self.options.node).await?;
                let stored_ms = stored.and_then(|bytes| Some(u64::from_le_bytes((*bytes).try_into().ok()?)));
                // Times of processes are those of the wall clock; a stored time is more reliable. A coordinator without
                // ended processes has nothing to lose.
                let known_ms = stored_ms.or_else(|| ended.iter().map(|it| it.ended_ms).max()).unwrap_or(wall_ms);
                clock.insert(RetentionClock {
                    clock: CautiousClock::new(known_ms, wall_ms),
                    observed: Instant::now(),
                    stored_ms: stored_ms.unwrap_or_default(),
                    warned: false,
                })
            }
        };
        let now_ms = state.clock.advance(wall_ms, state.observed.elapsed());
        state.observed = Instant::now();
        if state.clock.ignores_jump() && !state.warned && !ended.is_empty() {
            warn!(
                wall_ms,
                trusted_ms = now_ms,
                "the clock is far ahead; ended processes expire by it when it has been steady for a day"
            );
        }
        state.warned = state.clock.ignores_jump();
        if now_ms.abs_diff(state.stored_ms) >= CLOCK_STORE_INTERVAL_MS && !ended.is_empty() {
            self.repository.put(CLOCKS, &self.options.node, now_ms.to_le_bytes().to_vec().into()).await?;
            state.stored_ms = now_ms;
        }
        Ok(now_ms)
    }

    async fn ended_processes(&self) -> Result<Vec<EndedProcess>, Error> {
        let mut ended = Vec::new();
        let mut entries = Entries::of(&self.repository);
        while let Some(entry) = entries.next().await? {
            let Some(summary) = &entry.summary else { continue };
            let Ok(summary) = record_codec::decode::<Summary>("summary", summary) else { continue };
            if let Ok(status) = summary.status() {
                let size = entry.size.saturating_add(summary.kept_bytes());
                ended.push(EndedProcess { ended_ms: status.ended_ms, size, process: entry.process });
            }
        }
        Ok(ended)
    }
}
