//! The logs of all attempts of a worker: of those that run, and of ended ones up to a total size and age.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::warn;
use xavantes_proto::v1;

use super::live_log::{AttemptLog, OutputStream, create_private, log_path};
use super::log_entry::{LogEntry, LogTitle, failure_reason};
use super::reader::LogReader;

/// Upper bound on ended attempts in memory. Each takes some hundred bytes.
const MAX_ENTRIES: usize = 20_000;
/// Size of the index above which it is rewritten without the lines of deleted logs.
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// Limits of the log store.
#[derive(Debug, Clone)]
pub struct LogLimits {
    /// Bytes of each stream of an attempt.
    pub limit: u64,
    /// Bytes of all logs together.
    pub total: u64,
    /// Age at which a log is deleted.
    pub age: Duration,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { limit: 16 << 20, total: 1 << 30, age: Duration::from_secs(30 * 24 * 3600) }
    }
}

/// The log store of a worker.
#[derive(Debug)]
pub(crate) struct LogStore {
    folder: Arc<Path>,
    limits: LogLimits,
    state: Mutex<LogStoreState>,
}

#[derive(Debug, Default)]
struct LogStoreState {
    next_number: u64,
    live: BTreeMap<u64, Arc<AttemptLog>>,
    /// Ended attempts, in the order in which they ended.
    ended: VecDeque<Arc<LogEntry>>,
    /// Bytes of the ended attempts.
    stored_bytes: u64,
    index: Option<File>,
    index_bytes: u64,
}

impl LogStore {
    /// Opens the store in a folder, with the logs that are there.
    pub fn open(folder: &Path, limits: LogLimits) -> io::Result<Arc<Self>> {
        let mut state = LogStoreState::default();
        let (index, is_readable) = match std::fs::read(folder.join("index")) {
            Ok(index) => (index, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), true),
            Err(error) => {
                warn!(path = %folder.display(), %error, "cannot read the index of logs; their files stay");
                (Vec::new(), false)
            }
        };
        for entry in read_index(&index) {
            state.stored_bytes = state.stored_bytes.saturating_add(entry.stored_bytes());
            state.next_number = state.next_number.max(entry.number.saturating_add(1));
            state.ended.push_back(Arc::new(entry));
        }
        let store = Self { folder: folder.into(), limits, state: Mutex::new(state) };
        let mut state = store.state.lock();
        store.evict(&mut state);
        store.remove_unindexed(&mut state, is_readable);
        if !state.ended.is_empty() {
            store.rewrite_index(&mut state)?;
        }
        drop(state);
        Ok(Arc::new(store))
    }

    /// Removes files of attempts that ran when a former process of this worker died. Without a readable index, nothing tells
    /// them from others, and they stay.
    fn remove_unindexed(&self, state: &mut LogStoreState, is_readable: bool) {
        let known: HashSet<u64> = state.ended.iter().map(|entry| entry.number).collect();
        for file in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = file.file_name();
            let number = name.to_str().and_then(|name| name.split_once('.')?.0.parse::<u64>().ok());
            if let Some(number) = number.filter(|number| !known.contains(number)) {
                state.next_number = state.next_number.max(number.saturating_add(1));
                if is_readable {
                    let _ = std::fs::remove_file(file.path());
                }
            }
        }
    }

    /// Begins the log of an attempt.
    pub fn begin(&self, title: LogTitle) -> Arc<AttemptLog> {
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let log = Arc::new(AttemptLog {
            title,
            number,
            began_ms: unix_ms(),
            limit: self.limits.limit,
            folder: self.folder.clone(),
            streams: Default::default(),
            ended: AtomicBool::new(false),
            changed: Notify::new(),
        });
        state.live.insert(number, log.clone());
        log
    }

    /// Ends the log of an attempt.
    pub fn finish(&self, log: &AttemptLog, outcome: &v1::answer::Outcome, usage: &v1::Usage) {
        let (ended, reason) = match outcome {
            v1::answer::Outcome::Completed(_) => (v1::State::Completed, String::new()),
            v1::answer::Outcome::Failed(failure) => (v1::State::Failed, failure_reason(failure)),
            _ => (v1::State::Cancelled, String::new()),
        };
        let entry = LogEntry {
            title: log.title.clone(),
            number: log.number,
            began_ms: log.began_ms,
            ended_ms: unix_ms(),
            state: ended.word().into(),
            written: OutputStream::ALL.map(|stream| {
                let mut output = log.stream(stream);
                output.file = None;
                output.written
            }),
            limit: log.limit,
            usage: usage.into(),
            node: usage.node.clone(),
            reason,
        };
        let mut state = self.state.lock();
        state.live.remove(&log.number);
        state.stored_bytes += entry.stored_bytes();
        if let Err(error) = self.append(&mut state, &entry) {
            warn!(%error, "could not write the log index; a log is lost at the next restart");
        }
        state.ended.push_back(Arc::new(entry));
        self.evict(&mut state);
        drop(state);
        log.ended.store(true, Ordering::Release);
        log.changed.notify_waiters();
    }

    fn append(&self, state: &mut LogStoreState, entry: &LogEntry) -> io::Result<()> {
        if state.index.is_none() || state.index_bytes > MAX_INDEX_BYTES {
            self.rewrite_index(state)?;
        }
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        state.index_bytes += line.len() as u64;
        match &mut state.index {
            Some(index) => index.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }

    fn rewrite_index(&self, state: &mut LogStoreState) -> io::Result<()> {
        let mut text = Vec::new();
        for entry in &state.ended {
            serde_json::to_writer(&mut text, &**entry)?;
            text.push(b'\n');
        }
        let path = self.folder.join("index");
        let new = self.folder.join("index-new");
        let mut file = create_private(&new)?;
        file.write_all(&text)?;
        std::fs::rename(&new, &path)?;
        state.index = Some(file);
        state.index_bytes = text.len() as u64;
        Ok(())
    }

    /// Deletes logs that are too old, and the oldest ones until the rest fits.
    fn evict(&self, state: &mut LogStoreState) {
        let oldest = unix_ms().saturating_sub(self.limits.age.as_millis() as u64);
        while let Some(first) = state.ended.front()
            && (first.ended_ms < oldest || state.stored_bytes > self.limits.total || state.ended.len() > MAX_ENTRIES)
        {
            let first = first.clone();
            state.ended.pop_front();
            state.stored_bytes = state.stored_bytes.saturating_sub(first.stored_bytes());
            for stream in OutputStream::ALL.into_iter().filter(|stream| first.written[*stream as usize] > 0) {
                let _ = std::fs::remove_file(log_path(&self.folder, first.number, stream));
            }
        }
    }

    /// The attempts of an element, in the order in which they began.
    pub fn attempts(&self, realm: &str, path: &str) -> Vec<v1::AttemptRecord> {
        let state = self.state.lock();
        let wanted = |title: &LogTitle| title.realm == realm && title.path == path;
        let ended = state.ended.iter().filter(|entry| wanted(&entry.title)).map(|entry| entry.to_record());
        let live = state.live.values().filter(|log| wanted(&log.title)).map(|log| log.to_record());
        let mut all: Vec<_> = ended.chain(live).collect();
        all.sort_by_key(|record| record.began_ms);
        all
    }

    /// The log of an attempt of an element; of the last attempt if `attempt` is 0.
    pub fn find(&self, realm: &str, path: &str, attempt: u32) -> Option<LogReader> {
        let state = self.state.lock();
        let wanted =
            |title: &LogTitle| title.realm == realm && title.path == path && (attempt == 0 || title.attempt == attempt);
        let live = state.live.values().rev().find(|log| wanted(&log.title));
        if let Some(log) = live {
            return Some(LogReader::Live(log.clone()));
        }
        let ended = state.ended.iter().rev().find(|entry| wanted(&entry.title));
        ended.map(|entry| LogReader::Ended { folder: self.folder.clone(), entry: entry.clone() })
    }

    /// Removes all logs.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The entries of an index. A crash may leave an incomplete last line, and damage concerns only its own line.
pub(crate) fn read_index(index: &[u8]) -> impl Iterator<Item = LogEntry> {
    index.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
