//! Which workers have which files: what a worker told, and what it must have for it worked with it. It may have let go of
//! something since; then whoever asks it hears so, and asks another.

use std::collections::HashSet;
use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_model::value::Value;

/// Of so many objects it is known that a worker has them; then it begins anew.
const MOST_KNOWN: usize = 100_000;

/// A file that a task needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Which.
    pub digest: Digest,
    /// How much it is to move.
    pub size: u64,
    /// Addresses that the reference itself names.
    pub holders: Vec<Arc<str>>,
}

/// The files of a value that the grid keeps.
pub fn needs(value: &Value) -> Vec<Need> {
    let mut found = Vec::new();
    value.each_file(&mut |file| {
        found.extend(file.content.as_ref().map(|content| Need {
            digest: content.digest,
            size: content.size,
            holders: content.holders.clone(),
        }));
    });
    found
}

/// What one worker has.
#[derive(Debug, Default)]
pub struct Holdings(HashSet<Digest>);

impl Holdings {
    /// It has these, too.
    pub fn add(&mut self, digests: impl IntoIterator<Item = Digest>) {
        for digest in digests {
            if self.0.len() >= MOST_KNOWN {
                self.0.clear();
            }
            self.0.insert(digest);
        }
    }

    /// It does not have this one.
    pub fn remove(&mut self, digest: &Digest) {
        self.0.remove(digest);
    }

    /// Does it have this one?
    pub fn has(&self, digest: &Digest) -> bool {
        self.0.contains(digest)
    }

    /// How many bytes of these need not move to it. An address that a reference names counts as well.
    pub fn bytes(&self, address: &str, needs: &[Need]) -> u64 {
        let here = needs.iter().filter(|need| self.has(&need.digest) || need.holders.iter().any(|it| **it == *address));
        here.map(|need| need.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_there_need_not_move() {
        let need = |number, size, holders: &[&str]| Need {
            digest: Digest([number; 32]),
            size,
            holders: holders.iter().map(|holder| Arc::from(*holder)).collect(),
        };
        let needs = [need(1, 10, &[]), need(2, 100, &["b:1"]), need(3, 1000, &["a:1"])];
        let mut holdings = Holdings::default();
        assert_eq!(holdings.bytes("c:1", &needs), 0);
        assert_eq!(holdings.bytes("a:1", &needs), 1000);
        holdings.add([Digest([1; 32]), Digest([3; 32])]);
        assert_eq!((holdings.bytes("a:1", &needs), holdings.bytes("b:1", &needs)), (1010, 1110));
        assert!(holdings.has(&Digest([1; 32])) && !holdings.has(&Digest([2; 32])));
    }
}
