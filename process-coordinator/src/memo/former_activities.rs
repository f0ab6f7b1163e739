//! The completed activities of a former process, and which activity of its rerun takes over which results. Without I/O, clock
//! or threads.
//!
//! Each activity of the former process is taken over at most once: a loop that draws random numbers with equal inputs gets
//! as many different results as before, not the same one several times.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use xavantes_model::definition::Program;
use xavantes_model::digest::Digest;
use xavantes_proto::{Message, v1};

use crate::cache::cache_entry::{
    CacheEntry, CacheHit, CacheLookup, EarlierActivity, FormerHit, MissReason, ParameterDigest, StoredResults,
};
use crate::cache::decide::{code_digest, combined_key};
use crate::memo::memo_entry::{MemoEntry, element_path};

/// Memory of an entry besides its bytes, approximately.
const ENTRY_OVERHEAD_BYTES: u64 = 160;

/// What is known of a former process besides its entries.
#[derive(Debug, Clone)]
pub struct FormerProcess {
    /// Id of the process.
    pub id: Arc<str>,
    /// Its definitions.
    pub program: Arc<Program>,
    /// Time of its submission in milliseconds since 1970.
    pub submitted_ms: u64,
    /// Completed activities that its memo does not have.
    pub left_out: u64,
}

/// The completed activities of a former process.
#[derive(Debug)]
pub struct FormerActivities {
    process: FormerProcess,
    codes: Vec<Digest>,
    entries: Vec<FormerEntry>,
    /// Where the search begins for an entry with this key that is not taken; entries with the same key are linked.
    by_key: HashMap<Digest, u32>,
    /// The last entry of each path, by a hash of the path.
    by_path: HashMap<u64, u32>,
    hasher: RandomState,
    bytes: u64,
    untaken: u64,
}

#[derive(Debug)]
struct FormerEntry {
    encoded: Bytes,
    key: Option<Digest>,
    /// The entry before it with the same key.
    previous: Option<u32>,
    taken: bool,
}

impl FormerActivities {
    /// Reads the chunks of a memo. What cannot be read is left out.
    pub fn read(process: FormerProcess, chunks: Vec<Bytes>) -> Self {
        let codes = process.program.activities.iter().map(code_digest).collect();
        let (entries, by_key, by_path) = (Vec::new(), HashMap::new(), HashMap::new());
        let hasher = RandomState::new();
        let mut former = Self { process, codes, entries, by_key, by_path, hasher, bytes: 0, untaken: 0 };
        for chunk in chunks {
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let Ok((entry, after)) = postcard::take_from_bytes::<MemoEntry>(rest) else { break };
                let encoded = chunk.slice_ref(&rest[..rest.len() - after.len()]);
                former.add(&entry, encoded);
                rest = after;
            }
        }
        former
    }

    fn add(&mut self, entry: &MemoEntry, encoded: Bytes) {
        let position = self.entries.len() as u32;
        self.bytes += encoded.len() as u64 + ENTRY_OVERHEAD_BYTES;
        let key = self.key(entry);
        let previous = key.and_then(|key| self.by_key.insert(key, position));
        self.by_path.insert(self.hasher.hash_one(&*entry.path), position);
        self.entries.push(FormerEntry { encoded, key, previous, taken: false });
        self.untaken += 1;
    }

    /// The key of an entry, equal to that of a [`CacheLookup`] for the same activity.
    fn key(&self, entry: &MemoEntry) -> Option<Digest> {
        let code = self.codes.get(entry.activity as usize)?;
        let digests: Option<Vec<Digest>> = entry.inputs.iter().map(|input| Some(input.digest()?.0)).collect();
        Some(combined_key(*code, digests?.iter()))
    }

    /// Id of the former process.
    pub fn id(&self) -> &Arc<str> {
        &self.process.id
    }

    /// Bytes that it takes in memory, approximately.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of activities that nobody has taken over.
    pub fn untaken(&self) -> u64 {
        self.untaken
    }

    /// Completed activities that are not known.
    pub fn left_out(&self) -> u64 {
        self.process.left_out
    }

    /// The results of all activities.
    pub fn results(&self) -> impl Iterator<Item = v1::Completed> {
        self.entries.iter().filter_map(|entry| v1::Completed::decode(&*decode(&entry.encoded)?.results).ok())
    }

    /// Marks an entry as taken over.
    pub fn mark_taken(&mut self, position: u32) {
        if let Some(entry) = self.entries.get_mut(position as usize)
            && !std::mem::replace(&mut entry.taken, true)
        {
            self.untaken -= 1;
        }
    }

    /// The positions in the memo of another process that the entries of this one took over.
    pub fn taken_from(&self) -> Vec<u32> {
        self.entries.iter().filter_map(|entry| decode(&entry.encoded)?.taken).collect()
    }

    /// Takes over the results of the same activity, or says why there are none. Prefers the same element.
    pub fn take(&mut self, lookup: &CacheLookup) -> Result<Box<FormerHit>, MissReason> {
        let path = element_path(&lookup.path);
        let position = self.at_path(lookup, path).or_else(|| self.first_untaken(&lookup.key));
        let entry = position.and_then(|position| decode(&self.entries[position as usize].encoded));
        let (Some(position), Some(entry)) = (position, entry) else { return Err(self.why_not(lookup, path)) };
        let earlier = self.earlier(&entry);
        let completed = v1::Completed::decode(&*entry.results).unwrap_or_default();
        self.mark_taken(position);
        Ok(Box::new(FormerHit { position, hit: CacheHit { earlier, completed } }))
    }

    /// The entry of the same element, if it has the key and is not taken.
    fn at_path(&self, lookup: &CacheLookup, path: &str) -> Option<u32> {
        let position = *self.by_path.get(&self.hasher.hash_one(path))?;
        let entry = &self.entries[position as usize];
        (entry.key == Some(lookup.key) && !entry.taken && decode(&entry.encoded)?.path == path).then_some(position)
    }

    /// An entry with this key that is not taken. The next search does not look at taken ones again.
    fn first_untaken(&mut self, key: &Digest) -> Option<u32> {
        let first = self.by_key.get_mut(key)?;
        while self.entries[*first as usize].taken {
            *first = self.entries[*first as usize].previous?;
        }
        Some(*first)
    }

    fn why_not(&self, lookup: &CacheLookup, path: &str) -> MissReason {
        let entry_at = |position: u32| decode(&self.entries[position as usize].encoded);
        if let Some(same) = self.by_key.get(&lookup.key).and_then(|position| entry_at(*position)) {
            return MissReason::TakenOver(self.earlier(&same));
        }
        let at_path = self.by_path.get(&self.hasher.hash_one(path)).and_then(|position| entry_at(*position));
        match at_path.filter(|entry| entry.path == path).and_then(|entry| self.cache_entry(&entry)) {
            Some(entry) => lookup.compare(&entry),
            None => MissReason::NotCompleted { process: self.process.id.to_string(), left_out: self.process.left_out },
        }
    }

    fn earlier(&self, entry: &MemoEntry) -> EarlierActivity {
        let path = format!("{}/{}", self.process.id, entry.path);
        EarlierActivity { path, at_ms: self.process.submitted_ms.saturating_add(entry.at_ms) }
    }

    /// An entry in the form that lookups compare with.
    fn cache_entry(&self, entry: &MemoEntry) -> Option<CacheEntry> {
        let activity = self.process.program.activities.get(entry.activity as usize)?;
        let named = activity.parameters.iter().filter(|it| it.direction.is_in()).zip(&entry.inputs);
        let parameters = named.map(|(variable, input)| {
            let (digest, shown) = input.digest()?;
            Some(ParameterDigest { name: variable.name.clone(), digest, shown: shown.into_owned() })
        });
        Some(CacheEntry {
            type_name: activity.name.clone(),
            made: self.earlier(entry),
            used_ms: 0,
            code: *self.codes.get(entry.activity as usize)?,
            parameters: parameters.collect::<Option<_>>()?,
            stored: StoredResults::Evicted,
        })
    }
}

fn decode(encoded: &[u8]) -> Option<MemoEntry<'_>> {
    postcard::from_bytes(encoded).ok()
}
