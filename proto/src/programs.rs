//! Loaded programs: how they are named, what they cost, and which of them stay in memory.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use xavantes_model::definition::Program;

use crate::v1;

/// Upper bound on the documents of a program.
pub const MAX_DOCUMENTS: usize = 256;
/// Upper bound on the programs in a cache, whatever they cost.
// The compiler evaluates this `unwrap`.
const MAX_PROGRAMS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// Bytes of memory for each byte of the documents, at most: a literal list takes most, with 24 bytes for each `0,`.
const BYTES_PER_BYTE: usize = 12;
/// Bytes of memory for each node of a process type, on average.
const BYTES_PER_NODE: usize = 512;

/// The name of a program: a digest of its documents.
pub fn program_digest(documents: &[v1::Document]) -> String {
    let mut hasher = blake3::Hasher::new();
    for document in documents {
        for part in [&document.name, &document.text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// An estimate of the memory that a loaded program takes.
pub fn program_bytes(program: &Program, document_bytes: usize) -> usize {
    let nodes: usize = program.processes.iter().map(|process| process.nodes.len()).sum();
    document_bytes.saturating_mul(BYTES_PER_BYTE).saturating_add(nodes.saturating_mul(BYTES_PER_NODE))
}

/// A loaded program. It is pinned while something besides the cache uses it.
pub trait CachedProgram {
    /// The program.
    fn program(&self) -> &Arc<Program>;
}

impl CachedProgram for Arc<Program> {
    fn program(&self) -> &Arc<Program> {
        self
    }
}

/// The programs that something uses take all memory that programs may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoomForProgram {
    /// Estimated size of the program.
    pub bytes: usize,
    /// Bytes that all programs may take.
    pub budget: usize,
}

impl std::fmt::Display for NoRoomForProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        write!(
            f,
            "the definition takes about {} MiB of memory, and the definitions of running processes leave no room for it in \
             {} MiB; wait until processes have ended, or make the definition smaller",
            mib(self.bytes),
            mib(self.budget)
        )
    }
}

/// Programs by digest. The least recently used ones go first when they take more than the budget; those that something uses
/// stay.
#[derive(Debug)]
pub struct ProgramCache<P> {
    programs: LruCache<String, (P, usize)>,
    bytes: usize,
    budget: usize,
}

impl<P: CachedProgram> ProgramCache<P> {
    /// An empty cache for this many bytes.
    pub fn new(budget: usize) -> Self {
        Self { programs: LruCache::new(MAX_PROGRAMS), bytes: 0, budget }
    }

    /// A program, which counts as used now.
    pub fn get(&mut self, digest: &str) -> Option<&P> {
        self.programs.get(digest).map(|(program, _)| program)
    }

    /// Adds a program of this estimated size. Removes programs that nothing uses to make room.
    pub fn add(&mut self, digest: &str, program: P, bytes: usize) -> Result<(), NoRoomForProgram> {
        self.make_room(bytes);
        if self.bytes + bytes > self.budget {
            return Err(NoRoomForProgram { bytes, budget: self.budget });
        }
        self.insert(digest, program, bytes);
        Ok(())
    }

    /// Adds a program even if there is no room: a process needs it.
    pub fn add_needed(&mut self, digest: &str, program: P, bytes: usize) {
        self.make_room(bytes);
        self.insert(digest, program, bytes);
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes <= self.budget {
            return;
        }
        let unused = self.programs.iter().rev().filter(|(_, (program, _))| Arc::strong_count(program.program()) == 1);
        let mut missing = (self.bytes + bytes - self.budget) as i128;
        let oldest = unused.take_while(|(_, (_, bytes))| {
            let needed = missing > 0;
            missing -= *bytes as i128;
            needed
        });
        let oldest: Vec<String> = oldest.map(|(digest, _)| digest.clone()).collect();
        for digest in oldest {
            self.remove(&digest);
        }
    }

    fn insert(&mut self, digest: &str, program: P, bytes: usize) {
        self.remove(digest);
        self.bytes += bytes;
        if let Some((_, (_, bytes))) = self.programs.push(digest.to_owned(), (program, bytes)) {
            self.bytes -= bytes;
        }
    }

    fn remove(&mut self, digest: &str) {
        if let Some((_, bytes)) = self.programs.pop(digest) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_programs_make_room_and_used_ones_stay() {
        let mut cache = ProgramCache::new(100);
        let program = || Arc::new(Program::default());
        let used = program();
        assert_eq!(cache.add("used", used.clone(), 40), Ok(()));
        assert_eq!(cache.add("a", program(), 30), Ok(()));
        assert_eq!(cache.add("b", program(), 30), Ok(()));
        assert!(cache.get("a").is_some());
        assert_eq!(cache.add("c", program(), 30), Ok(()), "b is the least recently used one");
        assert!(cache.get("b").is_none() && cache.get("a").is_some() && cache.get("used").is_some());
        assert_eq!(cache.add("large", program(), 61), Err(NoRoomForProgram { bytes: 61, budget: 100 }));
        assert!(cache.get("used").is_some());
        cache.add_needed("large", program(), 61);
        assert!(cache.get("large").is_some() && cache.bytes == 101);
        drop(used);
        assert_eq!(cache.add("large", program(), 100), Ok(()));
        assert_eq!((cache.programs.len(), cache.bytes), (1, 100));
    }
}
