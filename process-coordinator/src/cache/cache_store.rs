//! The result cache in the repository: lookups, writes and evictions.
//!
//! | documents of the kind | under | are |
//! |---|---|---|
//! | `reuse-card` | the key of a lookup | [`CacheEntry`]s |
//! | `reuse-result` | the same key | the results |
//! | `reuse-verdict` | the digest of a path | times and [`ReuseDecision`]s |
//!
//! An entry is written before its results and removed after them, so that no results are left without an entry.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tracing::{info, warn};
use xavantes_model::digest::Digest;
use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

use crate::cache::cache_entry::{
    CacheEntry, CacheHit, CacheLookup, CacheWrite, MissReason, ReuseDecision, StoredResults,
};
use crate::cache::cache_index::{CacheIndex, MAX_ENTRIES, Removal};
use crate::clock::unix_ms;
use crate::data::pinning::Pinning;
use crate::engine_messages::add_holders;
use crate::options::Options;
use crate::record_codec;
use crate::repository_calls::{RepositoryCall, join_in_order};

const ENTRIES: &str = "reuse-card";
const RESULTS: &str = "reuse-result";
const DECISIONS: &str = "reuse-verdict";

/// Number of documents that are removed at once.
const REMOVALS_AT_ONCE: usize = 256;
/// When this coordinator has added this fraction of the limit to a shared repository, it reads the index anew, because
/// other coordinators add to the cache, too.
const REREAD_FRACTION: u64 = 10;

/// The result cache of a coordinator.
pub(crate) struct ResultCache {
    repository: Store,
    pinning: Arc<Pinning>,
    /// Other coordinators add to the same repository.
    shared: bool,
    state: Mutex<IndexState>,
}

struct IndexState {
    index: CacheIndex,
    /// Bytes that this coordinator added since it last read the index.
    added_bytes: u64,
    /// Entries that this coordinator added since it last read the index.
    added_entries: u64,
}

impl IndexState {
    fn new(index: CacheIndex) -> Self {
        Self { index, added_bytes: 0, added_entries: 0 }
    }
}

impl ResultCache {
    /// Reads the index of the cache, and evicts what exceeds the limit.
    pub async fn open(repository: Store, pinning: Arc<Pinning>, options: &Options) -> Result<Self, Error> {
        let state = IndexState::new(CacheIndex::new(options.reuse_size, MAX_ENTRIES));
        let cache = Self { repository, pinning, shared: options.shared, state: Mutex::new(state) };
        let removals = cache.read_index(options.reuse_size).await?;
        cache.remove_all(removals).await;
        Ok(cache)
    }

    /// Reads the index from the repository; gives what exceeds the limit or cannot be read.
    async fn read_index(&self, max_bytes: u64) -> Result<Vec<Removal>, Error> {
        let mut index = CacheIndex::new(max_bytes, MAX_ENTRIES);
        let mut unreadable = Vec::new();
        let mut entries = Vec::new();
        for (key, bytes) in self.repository.documents(ENTRIES).await? {
            match (key.parse::<Digest>(), decode_entry(&bytes)) {
                (Ok(key), Some(entry)) => entries.push((key, entry, bytes.len() as u64)),
                (Ok(key), None) => unreadable.push(Removal::Entry(key)),
                (Err(_), _) => {}
            }
        }
        // Comparisons use the latest entry of an element.
        entries.sort_by_key(|(_, entry, _)| entry.made.at_ms);
        for (key, entry, size) in &entries {
            index.add(*key, entry, *size);
        }
        for (path, bytes) in self.repository.documents(DECISIONS).await? {
            match (path.parse::<Digest>(), decode_decision(&bytes)) {
                (Ok(path), Some((at_ms, _))) => index.add_decision(path, at_ms),
                (Ok(path), None) => unreadable.push(Removal::Decision(path)),
                (Err(_), _) => {}
            }
        }
        let mut removals = index.evict();
        removals.append(&mut unreadable);
        *self.state.lock() = IndexState::new(index);
        Ok(removals)
    }

    /// Searches for results that an activity can reuse, and pins their files for the process.
    pub async fn search(&self, process: &str, lookup: &CacheLookup) -> Result<Box<CacheHit>, MissReason> {
        let unavailable = |error: Error| MissReason::Unavailable(error.to_string());
        let key = lookup.key.to_string();
        let Some((entry, size)) = self.entry(&key).await.map_err(unavailable)? else {
            let nearest = self.state.lock().index.nearest(&lookup.type_name, &lookup.path);
            let Some(nearest) = nearest else { return Err(MissReason::First) };
            let entry = self.entry(&nearest.to_string()).await.map_err(unavailable)?;
            return Err(entry.map_or(MissReason::First, |(entry, _)| lookup.compare(&entry)));
        };
        match entry.stored {
            StoredResults::Present(_) => {}
            StoredResults::Failed => return Err(MissReason::Failed(entry.made)),
            StoredResults::TooLarge(size) => return Err(MissReason::TooLarge(entry.made, size)),
            StoredResults::Evicted => return Err(MissReason::Evicted(entry.made)),
        }
        let results = self.repository.get(RESULTS, &key).await.map_err(unavailable)?;
        let completed = results.and_then(|bytes| v1::Completed::decode(&*bytes).ok());
        let Some(completed) = completed else { return Err(MissReason::Evicted(entry.made)) };
        let hit = self.pin_hit(process, CacheHit { earlier: entry.made.clone(), completed }).await?;
        let mut state = self.state.lock();
        if !state.index.has_results(&lookup.key) {
            // Another coordinator has cached them.
            state.index.add(lookup.key, &entry, size);
        }
        Ok(hit)
    }

    /// Pins the files of results for the process that reuses them.
    pub async fn pin_hit(&self, process: &str, mut hit: CacheHit) -> Result<Box<CacheHit>, MissReason> {
        match self.pin_files(process, &mut hit.completed).await {
            Ok(()) => Ok(Box::new(hit)),
            Err(file) => Err(MissReason::FileGone(hit.earlier, file)),
        }
    }

    /// An entry and its size in bytes.
    async fn entry(&self, key: &str) -> Result<Option<(CacheEntry, u64)>, Error> {
        let bytes = self.repository.get(ENTRIES, key).await?;
        Ok(bytes.and_then(|bytes| Some((decode_entry(&bytes)?, bytes.len() as u64))))
    }

    /// Pins the files of results for a process; the error names a file that no node has.
    async fn pin_files(&self, process: &str, completed: &mut v1::Completed) -> Result<(), String> {
        let pinned = self.pinning.pin(process, &completed.results, true).await;
        if let Some(gone) = pinned.missing.first() {
            let digest = gone.content.as_ref().and_then(|content| Digest::from_bytes(&content.digest));
            return Err(format!("{} ({})", gone.uri, digest.map_or_else(String::new, |digest| digest.short())));
        }
        completed.results.iter_mut().for_each(|value| add_holders(value, &pinned.holders));
        Ok(())
    }

    /// The repository calls of these writes, in order.
    pub fn calls(&self, writes: &[CacheWrite]) -> Vec<RepositoryCall> {
        let now = unix_ms();
        let put = |kind: &'static str, key: String, bytes: Bytes| -> RepositoryCall {
            let repository = self.repository.clone();
            Box::pin(async move { repository.put(kind, &key, bytes).await })
        };
        let mut calls = Vec::new();
        for write in writes {
            match write {
                CacheWrite::Result { key, entry, results } => {
                    let mut entry = entry.clone();
                    (entry.made.at_ms, entry.used_ms) = (now, now);
                    let (key, bytes) = (*key, record_codec::encode(&entry));
                    let mut state = self.state.lock();
                    if entry.stored == StoredResults::Failed && state.index.has_results(&key) {
                        // The same activity succeeded at another time.
                        continue;
                    }
                    let size = bytes.len() as u64;
                    state.index.add(key, &entry, size);
                    state.added_bytes += size + results.as_ref().map_or(0, |results| results.len() as u64);
                    state.added_entries += 1;
                    calls.push(put(ENTRIES, key.to_string(), bytes));
                    calls.extend(results.clone().map(|results| put(RESULTS, key.to_string(), results)));
                }
                CacheWrite::Decision(decision) => {
                    let path = path_digest(&decision.path);
                    self.state.lock().index.add_decision(path, now);
                    calls.push(put(DECISIONS, path.to_string(), record_codec::encode(&(now, decision))));
                }
                CacheWrite::Used(key) => {
                    if self.state.lock().index.on_used(*key, now) {
                        let (repository, key) = (self.repository.clone(), key.to_string());
                        calls.push(Box::pin(async move {
                            let Some(bytes) = repository.get(ENTRIES, &key).await? else { return Ok(()) };
                            let Some(entry) = decode_entry(&bytes) else { return Ok(()) };
                            repository
                                .put(ENTRIES, &key, record_codec::encode(&CacheEntry { used_ms: now, ..entry }))
                                .await
                        }));
                    }
                }
            }
        }
        calls
    }

    /// Evicts in the background what exceeds the limit.
    pub fn evict_in_background(self: &Arc<Self>) {
        let (removals, reread) = {
            let mut state = self.state.lock();
            let added_much = state.added_bytes > state.index.max_bytes() / REREAD_FRACTION
                || state.added_entries > MAX_ENTRIES as u64 / REREAD_FRACTION;
            match self.shared && added_much {
                true => {
                    (state.added_bytes, state.added_entries) = (0, 0);
                    (Vec::new(), Some(state.index.max_bytes()))
                }
                false => (state.index.evict(), None),
            }
        };
        if removals.is_empty() && reread.is_none() {
            return;
        }
        let cache = self.clone();
        tokio::spawn(async move {
            let removals = match reread {
                None => removals,
                Some(max_bytes) => cache.read_index(max_bytes).await.unwrap_or_default(),
            };
            cache.remove_all(removals).await;
        });
    }

    async fn remove_all(&self, removals: Vec<Removal>) {
        if !removals.is_empty() {
            info!(removals = removals.len(), "evicting cached results");
        }
        for chunk in removals.chunks(REMOVALS_AT_ONCE) {
            let calls = chunk.iter().map(|removal| {
                let (repository, removal) = (self.repository.clone(), *removal);
                Box::pin(async move { remove(&repository, removal).await }) as RepositoryCall
            });
            for error in join_in_order(calls.collect()).await.into_iter().filter_map(Result::err) {
                warn!(%error, "could not evict a cached result");
            }
        }
    }

    /// Removes everything.
    pub async fn clear(&self) -> Result<(), Error> {
        let max_bytes = self.state.lock().index.max_bytes();
        self.read_index(max_bytes).await?;
        let removals = self.state.lock().index.clear();
        self.remove_all(removals).await;
        Ok(())
    }

    /// Whether the activity at a path reused results, and when that was decided.
    pub async fn decision(&self, path: &str) -> Result<Option<(u64, ReuseDecision)>, Error> {
        let bytes = self.repository.get(DECISIONS, &path_digest(path).to_string()).await?;
        let decision = bytes.and_then(|bytes| decode_decision(&bytes));
        Ok(decision.filter(|(_, decision)| decision.path == path))
    }
}

fn decode_entry(bytes: &[u8]) -> Option<CacheEntry> {
    record_codec::decode("cache entry", bytes).ok()
}

fn decode_decision(bytes: &[u8]) -> Option<(u64, ReuseDecision)> {
    record_codec::decode("reuse decision", bytes).ok()
}

async fn remove(repository: &Store, removal: Removal) -> Result<(), Error> {
    match removal {
        Removal::Results(key) => {
            let key = key.to_string();
            repository.remove(RESULTS, &key).await?;
            let Some(bytes) = repository.get(ENTRIES, &key).await? else { return Ok(()) };
            let Some(entry) = decode_entry(&bytes) else { return Ok(()) };
            let entry = CacheEntry { stored: StoredResults::Evicted, ..entry };
            repository.put(ENTRIES, &key, record_codec::encode(&entry)).await
        }
        Removal::Entry(key) => {
            let key = key.to_string();
            repository.remove(RESULTS, &key).await?;
            repository.remove(ENTRIES, &key).await
        }
        Removal::Decision(path) => repository.remove(DECISIONS, &path.to_string()).await,
    }
}

fn path_digest(path: &str) -> Digest {
    Digest(*blake3::hash(path.as_bytes()).as_bytes())
}
