//! What the result cache holds, its size, and what it evicts first. Without I/O, clock or threads.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use xavantes_model::digest::Digest;

use crate::cache::cache_entry::{CacheEntry, StoredResults};

/// Upper bound on the entries of the cache, and on its decisions. Each takes about a hundred bytes of memory.
pub const MAX_ENTRIES: usize = 100_000;
/// The time of a reuse is stored once per period of this length.
pub(super) const USED_PERIOD_MS: u64 = 3_600_000;

/// Digests in the order of their ages.
#[derive(Debug, Default)]
struct Ages {
    ages: HashMap<Digest, u64>,
    order: BTreeSet<(u64, Digest)>,
}

impl Ages {
    fn set(&mut self, digest: Digest, age: u64) {
        self.remove(&digest);
        self.ages.insert(digest, age);
        self.order.insert((age, digest));
    }

    fn remove(&mut self, digest: &Digest) -> bool {
        let age = self.ages.remove(digest);
        age.is_some_and(|age| self.order.remove(&(age, *digest)))
    }

    fn oldest(&self) -> Option<Digest> {
        self.order.first().map(|(_, digest)| *digest)
    }

    fn len(&self) -> usize {
        self.ages.len()
    }
}

/// All entries and decisions of the cache.
#[derive(Debug)]
pub struct CacheIndex {
    max_bytes: u64,
    max_entries: usize,
    total_bytes: u64,
    sizes: HashMap<Digest, EntrySize>,
    /// Entries with results, by the time of their last use.
    with_results: Ages,
    /// Entries without results, by the time of their last use.
    without_results: Ages,
    /// Latest entry of each element of a type, and of each type.
    latest: HashMap<u64, Digest>,
    /// Decisions, by their time.
    decisions: Ages,
}

/// Bytes of an entry and of its results.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    entry: u64,
    results: u64,
}

/// Something that the cache must remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Results; their entry stays.
    Results(Digest),
    /// An entry, and its results if there are some.
    Entry(Digest),
    /// A decision, by the digest of its path.
    Decision(Digest),
}

impl CacheIndex {
    /// An empty cache with these upper bounds: bytes, and entries as well as decisions.
    pub fn new(max_bytes: u64, max_entries: usize) -> Self {
        Self {
            max_bytes,
            max_entries,
            total_bytes: 0,
            sizes: HashMap::new(),
            with_results: Ages::default(),
            without_results: Ages::default(),
            latest: HashMap::new(),
            decisions: Ages::default(),
        }
    }

    /// Adds an entry that takes this many bytes, without its results.
    pub fn add(&mut self, key: Digest, entry: &CacheEntry, bytes: u64) {
        self.remove(&key);
        let results = match entry.stored {
            StoredResults::Present(size) => size,
            _ => 0,
        };
        self.sizes.insert(key, EntrySize { entry: bytes, results });
        self.total_bytes += bytes + results;
        let has_results = matches!(entry.stored, StoredResults::Present(_));
        let ages = if has_results { &mut self.with_results } else { &mut self.without_results };
        ages.set(key, entry.used_ms);
        for name in names(&entry.type_name, &entry.made.path) {
            self.latest.insert(name, key);
        }
    }

    fn remove(&mut self, key: &Digest) {
        if let Some(size) = self.sizes.remove(key) {
            self.total_bytes -= size.entry + size.results;
        }
        self.with_results.remove(key);
        self.without_results.remove(key);
    }

    /// Does the cache have results under this key?
    pub fn has_results(&self, key: &Digest) -> bool {
        self.with_results.ages.contains_key(key)
    }

    /// The results under this key were reused. True if the time of that must be stored.
    pub fn on_used(&mut self, key: Digest, now_ms: u64) -> bool {
        let Some(before) = self.with_results.ages.get(&key).copied() else { return false };
        self.with_results.set(key, now_ms.max(before));
        // Of all uses within one period the first is stored.
        before / USED_PERIOD_MS != now_ms / USED_PERIOD_MS
    }

    /// The earlier activity to compare with: the latest of the same element, or else of the same type.
    pub fn nearest(&self, type_name: &str, path: &str) -> Option<Digest> {
        let known = |name| self.latest.get(&name).copied().filter(|key| self.sizes.contains_key(key));
        names(type_name, path).into_iter().find_map(known)
    }

    /// Adds a decision.
    pub fn add_decision(&mut self, path: Digest, at_ms: u64) {
        self.decisions.set(path, at_ms);
    }

    /// Evicts what exceeds the bounds, least recently used first; the caller removes it from the repository.
    pub fn evict(&mut self) -> Vec<Removal> {
        let mut removals = Vec::new();
        if self.total_bytes > self.max_bytes
            || self.sizes.len() > self.max_entries
            || self.decisions.len() > self.max_entries
        {
            // A tenth more than necessary, so that not every new entry evicts another.
            let (bytes, count) = (self.max_bytes - self.max_bytes / 10, self.max_entries - self.max_entries / 10);
            while self.sizes.len() > count
                && let Some(key) = self.without_results.oldest().or_else(|| self.with_results.oldest())
            {
                self.remove(&key);
                removals.push(Removal::Entry(key));
            }
            while self.total_bytes > bytes
                && let Some(key) = self.with_results.oldest()
            {
                let age = self.with_results.ages.get(&key).copied().unwrap_or_default();
                self.with_results.remove(&key);
                self.without_results.set(key, age);
                if let Some(size) = self.sizes.get_mut(&key) {
                    self.total_bytes -= std::mem::take(&mut size.results);
                }
                removals.push(Removal::Results(key));
            }
            while self.total_bytes > bytes
                && let Some(key) = self.without_results.oldest()
            {
                self.remove(&key);
                removals.push(Removal::Entry(key));
            }
            while self.decisions.len() > count
                && let Some(path) = self.decisions.oldest()
            {
                self.decisions.remove(&path);
                removals.push(Removal::Decision(path));
            }
            let sizes = &self.sizes;
            self.latest.retain(|_, key| sizes.contains_key(key));
        }
        removals
    }

    /// Evicts everything.
    pub fn clear(&mut self) -> Vec<Removal> {
        let entries = self.sizes.keys().map(|key| Removal::Entry(*key));
        let decisions = self.decisions.ages.keys().map(|path| Removal::Decision(*path));
        let removals = entries.chain(decisions).collect();
        *self = Self::new(self.max_bytes, self.max_entries);
        removals
    }

    /// Upper bound on the bytes of the cache.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Bytes of all entries and results.
    pub fn bytes(&self) -> u64 {
        self.total_bytes
    }
}

/// Hashes that name an element of a type without its process, and the type alone.
fn names(type_name: &str, path: &str) -> [u64; 2] {
    let element = path.split_once('/').map(|(_, element)| element);
    [element, None].map(|element| {
        let mut hasher = DefaultHasher::new();
        (type_name, element).hash(&mut hasher);
        hasher.finish()
    })
}
