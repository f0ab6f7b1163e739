//! How much a store keeps, which object goes first when there is no room, and which must not go: what somebody uses at this
//! moment, and what owners, processes, still need.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xavantes_model::digest::Digest;

use crate::Error;

#[derive(Debug, Clone)]
struct Object {
    size: u64,
    /// When it was last used, by the index's own clock.
    used: u64,
    /// How many use it at this moment.
    holds: u32,
    /// How many owners need it.
    owners: u32,
}

impl Object {
    fn may_go(&self) -> bool {
        self.holds == 0 && self.owners == 0
    }
}

/// What a store has.
#[derive(Debug, Clone, Default)]
pub struct Index {
    limit: u64,
    /// Bytes of all objects, and of those that are coming in.
    total: u64,
    coming: u64,
    clock: u64,
    objects: HashMap<Digest, Object>,
    /// Those that may go, the one that was not used for longest first.
    idle: BTreeMap<u64, Digest>,
    idle_bytes: u64,
    pins: BTreeMap<String, BTreeSet<Digest>>,
}

impl Index {
    /// Of a store that may keep so many bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The size of an object, if it is there.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        self.objects.get(digest).map(|object| object.size)
    }

    /// Bytes and number of all objects.
    pub fn kept(&self) -> (u64, usize) {
        (self.total, self.objects.len())
    }

    /// All objects, those that were used last first.
    pub fn latest(&self, most: usize) -> Vec<Digest> {
        let mut all: Vec<(u64, Digest)> = self.objects.iter().map(|(digest, object)| (object.used, *digest)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(most).map(|(_, digest)| digest).collect()
    }

    /// An object is there now. What it took of [`Index::reserve`] is given back by [`Index::unreserve`].
    pub fn add(&mut self, digest: Digest, size: u64) {
        if self.objects.contains_key(&digest) {
            return self.touch(&digest);
        }
        let owners = self.pins.values().filter(|pinned| pinned.contains(&digest)).count() as u32;
        self.total += size;
        self.clock += 1;
        self.objects.insert(digest, Object { size, used: self.clock, holds: 0, owners });
        self.rest(&digest);
    }

    /// An object is not there any more.
    pub fn remove(&mut self, digest: &Digest) {
        self.stir(digest);
        if let Some(object) = self.objects.remove(digest) {
            self.total -= object.size;
        }
    }

    /// Takes it out of those that may go.
    fn stir(&mut self, digest: &Digest) {
        if let Some(object) = self.objects.get(digest)
            && self.idle.remove(&object.used).is_some()
        {
            self.idle_bytes -= object.size;
        }
    }

    /// Puts it among those that may go, if it may.
    fn rest(&mut self, digest: &Digest) {
        if let Some(object) = self.objects.get(digest)
            && object.may_go()
        {
            self.idle.insert(object.used, *digest);
            self.idle_bytes += object.size;
        }
    }

    fn change(&mut self, digest: &Digest, change: impl FnOnce(&mut Object)) -> bool {
        self.stir(digest);
        let Some(object) = self.objects.get_mut(digest) else { return false };
        change(object);
        self.clock += 1;
        object.used = self.clock;
        self.rest(digest);
        true
    }

    /// It was used.
    pub fn touch(&mut self, digest: &Digest) {
        self.change(digest, |_| {});
    }

    /// Somebody begins to use it; false if it is not there.
    pub fn hold(&mut self, digest: &Digest) -> bool {
        self.change(digest, |object| object.holds += 1)
    }

    /// Somebody does not use it any more.
    pub fn let_go(&mut self, digest: &Digest) {
        self.change(digest, |object| object.holds = object.holds.saturating_sub(1));
    }

    /// An owner needs these, whether they are here yet or not; gives those that it did not need before.
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

    /// An owner needs nothing any more, except for these.
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

    /// Who needs something.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.pins.keys().map(String::as_str)
    }

    /// What an owner needs.
    pub fn pinned(&self, owner: &str) -> impl Iterator<Item = &Digest> {
        self.pins.get(owner).into_iter().flatten()
    }

    /// Makes room for so many bytes, which count from now on; gives what is to be removed for it. If that is not enough
    /// nothing changes.
    pub fn reserve(&mut self, bytes: u64) -> Result<Vec<Digest>, Error> {
        let used = self.total - self.idle_bytes + self.coming;
        if used.saturating_add(bytes) > self.limit {
            return Err(Error::Full { wanted: bytes, limit: self.limit, used });
        }
        let mut gone = Vec::new();
        while self.total + self.coming + bytes > self.limit
            && let Some(digest) = self.idle.values().next().copied()
        {
            self.remove(&digest);
            gone.push(digest);
        }
        self.coming += bytes;
        Ok(gone)
    }

    /// What was reserved has come, or will not.
    pub fn unreserve(&mut self, bytes: u64) {
        self.coming = self.coming.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u8) -> Digest {
        Digest([number; 32])
    }

    fn index() -> Index {
        let mut index = Index::new(10);
        (1..=3).for_each(|number| index.add(digest(number), 3));
        index
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut index = index();
        index.touch(&digest(1));
        assert_eq!(index.reserve(1).unwrap(), []);
        assert_eq!(index.reserve(2).unwrap(), [digest(2)]);
        index.unreserve(3);
        assert_eq!(index.reserve(10).unwrap(), [digest(3), digest(1)]);
        assert_eq!(index.kept(), (0, 0));
    }

    #[test]
    fn what_is_in_use_or_needed_stays() {
        let mut index = index();
        assert!(index.hold(&digest(1)) && index.hold(&digest(1)) && !index.hold(&digest(9)));
        assert_eq!(index.pin("p", &[digest(2), digest(9)]), [digest(2), digest(9)]);
        assert_eq!(index.pin("p", &[digest(2)]), []);
        assert!(matches!(index.reserve(5), Err(Error::Full { wanted: 5, limit: 10, used: 6 })));
        assert_eq!(index.kept(), (9, 3));
        assert_eq!(index.reserve(4).unwrap(), [digest(3)]);
        index.unreserve(4);
        // One that is needed before it comes stays, too.
        index.add(digest(9), 1);
        index.let_go(&digest(1));
        assert!(index.reserve(5).is_err());
        index.let_go(&digest(1));
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
    fn the_same_object_counts_once() {
        let mut index = index();
        index.add(digest(1), 3);
        assert_eq!(index.kept(), (9, 3));
        assert_eq!(index.latest(2), [digest(1), digest(3)]);
        index.remove(&digest(1));
        index.remove(&digest(1));
        assert_eq!(index.kept(), (6, 2));
    }
}
