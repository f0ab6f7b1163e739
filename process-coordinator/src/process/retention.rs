//! Removal of ended processes.

use tracing::info;
use xavantes_proto::v1;
use xavantes_repository::{Entries, Error};

use crate::clock::unix_ms;
use crate::codec;
use crate::coordinator::Coordinator;
use crate::process::summary::Summary;

/// An ended process of the repository.
struct EndedProcess {
    ended_ms: u64,
    size: u64,
    process: String,
}

impl Coordinator {
    /// Removes ended processes permanently, and releases the files that nodes pinned for them.
    pub async fn forget(&self, processes: &[String]) -> Result<(), Error> {
        self.repository.forget(processes).await?;
        for process in processes {
            self.pool.release(v1::Release { process: process.clone(), ..v1::Release::default() }, true);
        }
        Ok(())
    }

    /// Removes the ended processes that are too old, and the oldest ones while all together are too large.
    pub(crate) async fn sweep(&self) -> Result<(), Error> {
        let mut ended = self.ended_processes().await?;
        ended.sort_by(|a, b| (b.ended_ms, b.size, &b.process).cmp(&(a.ended_ms, a.size, &a.process)));
        let max_bytes = self.options.retention_size.unwrap_or(u64::MAX);
        let oldest_ms = self.options.retention_age.map_or(0, |age| unix_ms().saturating_sub(age.as_millis() as u64));
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

    async fn ended_processes(&self) -> Result<Vec<EndedProcess>, Error> {
        let mut ended = Vec::new();
        let mut entries = Entries::of(&self.repository);
        while let Some(entry) = entries.next().await? {
            let Some(summary) = &entry.summary else { continue };
            let status = codec::decode("summary", summary).and_then(|summary: Summary| summary.status());
            if let Ok(status) = status {
                ended.push(EndedProcess { ended_ms: status.ended_ms, size: entry.size, process: entry.process });
            }
        }
        Ok(ended)
    }
}
