//! The index of a store: sizes of objects and the order in which they are evicted. Objects that are held (in use at this
//! moment) or pinned (needed by an owner, usually a process) are never evicted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xavantes_model::digest::Digest;

use crate::error::Error;

/// The objects that a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreUsage {
    /// Total size of the objects.
    pub bytes: u64,
    /// Number of objects.
    pub objects: usize,
}

#[derive(Debug, Clone)]
struct StoredObject {
    size: u64,
    /// Tick of the index's clock at the last use.
    used: u64,
    /// Number of holds.
    holds: u32,
    /// Number of owners that have pinned it.
    owners: u32,
}

impl StoredObject {
    fn is_evictable(&self) -> bool {
        self.holds == 0 && self.owners == 0
    }
}

/// The objects of a store.
#[derive(Debug, Clone, Default)]
pub struct ObjectIndex {
    limit: u64,
    /// Total size of all objects.
    total: u64,
    /// Bytes of objects that are being received, as far as they have arrived.
    reserved: u64,
    /// Number of uses so far.
    clock: u64,
    objects: HashMap<Digest, StoredObject>,
    /// Evictable objects by the tick of their last use.
    idle: BTreeMap<u64, Digest>,
    idle_bytes: u64,
    pins: BTreeMap<String, BTreeSet<Digest>>,
}

impl ObjectIndex {
    /// The index of an empty store that keeps at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The size of an object, if the store has it.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        self.objects.get(digest).map(|object| object.size)
    }

    /// Size and number of all objects.
    pub fn usage(&self) -> StoreUsage {
        StoreUsage { bytes: self.total, objects: self.objects.len() }
    }

    /// At most `limit` objects, the most recently used first.
    pub fn latest(&self, limit: usize) -> Vec<Digest> {
        let mut all: Vec<(u64, Digest)> = self.objects.iter().map(|(digest, object)| (object.used, *digest)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(limit).map(|(_, digest)| digest).collect()
    }

    /// Adds an object. Does not end a reservation: see [`ObjectIndex::unreserve`].
    pub fn add(&mut self, digest: Digest, size: u64) {
        if self.objects.contains_key(&digest) {
            return self.touch(&digest);
        }
        let owners = self.pins.values().filter(|pinned| pinned.contains(&digest)).count() as u32;
        self.total += size;
        self.clock += 1;
        self.objects.insert(digest, StoredObject { size, used: self.clock, holds: 0, owners });
        self.enter_idle(&digest);
    }

    /// Removes an object.
    pub fn remove(&mut self, digest: &Digest) {
        self.leave_idle(digest);
        if let Some(object) = self.objects.remove(digest) {
            self.total -= object.size;
        }
    }

    /// Removes an object from the evictable ones.
    fn leave_idle(&mut self, digest: &Digest) {
        if let Some(object) = self.objects.get(digest)
            && self.idle.remove(&object.used).is_some()
        {
            self.idle_bytes -= object.size;
        }
    }

    /// Adds an object to the evictable ones, if it is evictable.
    fn enter_idle(&mut self, digest: &Digest) {
        if let Some(object) = self.objects.get(digest)
            && object.is_evictable()
        {
            self.idle.insert(object.used, *digest);
            self.idle_bytes += object.size;
        }
    }

    fn change(&mut self, digest: &Digest, change: impl FnOnce(&mut StoredObject)) -> bool {
        self.leave_idle(digest);
        let Some(object) = self.objects.get_mut(digest) else { return false };
        change(object);
        self.clock += 1;
        object.used = self.clock;
        self.enter_idle(digest);
        true
    }

    /// Marks an object as used.
    pub fn touch(&mut self, digest: &Digest) {
        self.change(digest, |_| {});
    }

    /// Holds an object. Returns false if the store does not have it.
    pub fn hold(&mut self, digest: &Digest) -> bool {
        self.change(digest, |object| object.holds += 1)
    }

    /// Ends a hold.
    pub fn unhold(&mut self, digest: &Digest) {
        self.change(digest, |object| object.holds = object.holds.saturating_sub(1));
    }

    /// Pins objects for an owner, whether the store has them or not. Returns those that the owner had not pinned before.
    pub fn pin(&mut self, owner: &str, digests: &[Digest]) -> Vec<Digest> {
        let mut new = Vec::new();
        for digest in digests {
            let pinned = match self.pins.get_mut(owner) {
                Some(pinned) => pinned,
                None => self.pins.entry(owner.to_owned()).or_default(),
            };
            if pinned.insert(*digest) {
                new.push(*digest);
                self.change(digest, |object| object.owners += 1);
            }
        }
        new
    }

    /// Releases all pins of an owner, except for these objects.
    pub fn release(&mut self, owner: &str, except: &[Digest]) {
        let Some(mut pinned) = self.pins.remove(owner) else { return };
        let kept: BTreeSet<Digest> = except.iter().copied().filter(|digest| pinned.remove(digest)).collect();
        for digest in &pinned {
            self.change(digest, |object| object.owners = object.owners.saturating_sub(1));
        }
        if !kept.is_empty() {
            self.pins.insert(owner.to_owned(), kept);
        }
    }

    /// The owners that have pins.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.pins.keys().map(String::as_str)
    }

    /// The objects that an owner has pinned.
    pub fn pinned(&self, owner: &str) -> impl Iterator<Item = &Digest> {
        self.pins.get(owner).into_iter().flatten()
    }

    /// Whether an object of this size could be stored: evicting all evictable objects would be enough.
    pub fn check_fits(&self, bytes: u64) -> Result<(), Error> {
        let used = (self.total - self.idle_bytes).saturating_add(self.reserved);
        match used.saturating_add(bytes) > self.limit {
            true => Err(Error::Full { wanted: bytes, limit: self.limit, used }),
            false => Ok(()),
        }
    }

    /// Reserves space. Returns the objects that the store must remove for it; they are no longer in the index. Changes nothing
    /// if evicting all evictable objects would not be enough.
    pub fn reserve(&mut self, bytes: u64) -> Result<Vec<Digest>, Error> {
        self.check_fits(bytes)?;
        let mut evicted = Vec::new();
        while self.total + self.reserved + bytes > self.limit
            && let Some(digest) = self.idle.values().next().copied()
        {
            self.remove(&digest);
            evicted.push(digest);
        }
        self.reserved += bytes;
        Ok(evicted)
    }

    /// Ends a reservation, whether the object has arrived or not.
    pub fn unreserve(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest([number; 32])
    }

    fn index() -> ObjectIndex {
        let mut index = ObjectIndex::new(10);
        (1..=3).for_each(|number| index.add(digest(number), 3));
        index
    }

    fn usage(index: &ObjectIndex) -> (u64, usize) {
        (index.usage().bytes, index.usage().objects)
    }

    #[test]
    fn the_least_recently_used_object_is_evicted_first() {
        let mut index = index();
        index.touch(&digest(1));
        assert_eq!(index.reserve(1).unwrap(), []);
        assert_eq!(index.reserve(2).unwrap(), [digest(2)]);
        index.unreserve(3);
        assert_eq!(index.reserve(10).unwrap(), [digest(3), digest(1)]);
        assert_eq!(usage(&index), (0, 0));
    }

    #[test]
    fn held_and_pinned_objects_are_not_evicted() {
        let mut index = index();
        assert!(index.hold(&digest(1)) && index.hold(&digest(1)) && !index.hold(&digest(9)));
        assert_eq!(index.pin("p", &[digest(2), digest(9)]), [digest(2), digest(9)]);
        assert_eq!(index.pin("p", &[digest(2)]), []);
        assert!(matches!(index.reserve(5), Err(Error::Full { wanted: 5, limit: 10, used: 6 })));
        assert_eq!(usage(&index), (9, 3));
        assert_eq!(index.reserve(4).unwrap(), [digest(3)]);
        index.unreserve(4);
        // A pin from before the object arrived counts, too.
        index.add(digest(9), 1);
        index.unhold(&digest(1));
        assert!(index.reserve(5).is_err());
        index.unhold(&digest(1));
        assert_eq!(index.reserve(5).unwrap(), [digest(1)]);
        index.unreserve(5);
        index.release("p", &[digest(9)]);
        assert_eq!(index.owners().collect::<Vec<_>>(), ["p"]);
        assert_eq!(index.reserve(9).unwrap(), [digest(2)]);
        index.unreserve(9);
        index.release("p", &[]);
        assert_eq!(index.owners().count(), 0);
        assert_eq!(index.reserve(10).unwrap(), [digest(9)]);
    }

    #[test]
    fn an_object_that_is_added_twice_counts_once() {
        let mut index = index();
        index.add(digest(1), 3);
        assert_eq!(usage(&index), (9, 3));
        assert_eq!(index.latest(2), [digest(1), digest(3)]);
        index.remove(&digest(1));
        index.remove(&digest(1));
        assert_eq!(usage(&index), (6, 2));
    }
}
