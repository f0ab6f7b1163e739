//! Replica locations: the objects that a worker holds, because it reported them or because it used them. The worker may have
//! evicted an object since; a node that asks for it then turns to another holder.

use std::collections::HashSet;
use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_model::value::Value;

/// Upper bound on the known objects of one worker. The whole set is cleared at the bound: it is a hint that new answers soon
/// rebuild, and a plain set keeps placement fast.
const MAX_KNOWN_OBJECTS: usize = 100_000;

/// A file that a task needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Digest of the file.
    pub digest: Digest,
    /// Bytes that must move if the worker lacks the file.
    pub size: u64,
    /// Addresses that the reference names.
    pub holders: Vec<Arc<str>>,
}

/// The files in a value whose content the grid stores.
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

/// The replicas of one worker: the objects that it holds.
#[derive(Debug, Default)]
pub struct Replicas(HashSet<Digest>);

impl Replicas {
    /// The worker holds these objects, too.
    pub fn add(&mut self, digests: impl IntoIterator<Item = Digest>) {
        for digest in digests {
            if self.0.len() >= MAX_KNOWN_OBJECTS {
                self.0.clear();
            }
            self.0.insert(digest);
        }
    }

    /// The worker does not hold this object.
    pub fn remove(&mut self, digest: &Digest) {
        self.0.remove(digest);
    }

    /// Does the worker hold this object?
    pub fn has(&self, digest: &Digest) -> bool {
        self.0.contains(digest)
    }

    /// Bytes of these files that need not move to the worker. A worker that a reference names counts as a holder.
    pub fn bytes(&self, address: &str, needs: &[Need]) -> u64 {
        let here = needs.iter().filter(|need| self.has(&need.digest) || need.holders.iter().any(|it| **it == *address));
        here.map(|need| need.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_a_worker_holds_need_not_move() {
        let need = |number, size, holders: &[&str]| Need {
            digest: Digest([number; 32]),
            size,
            holders: holders.iter().map(|holder| Arc::from(*holder)).collect(),
        };
        let needs = [need(1, 10, &[]), need(2, 100, &["b:1"]), need(3, 1000, &["a:1"])];
        let mut replicas = Replicas::default();
        assert_eq!(replicas.bytes("c:1", &needs), 0);
        assert_eq!(replicas.bytes("a:1", &needs), 1000);
        replicas.add([Digest([1; 32]), Digest([3; 32])]);
        assert_eq!((replicas.bytes("a:1", &needs), replicas.bytes("b:1", &needs)), (1010, 1110));
        assert!(replicas.has(&Digest([1; 32])) && !replicas.has(&Digest([2; 32])));
    }
}
