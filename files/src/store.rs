//! Objects on disk, each in a file that is named by its digest and never changes. A new one is written under another name
//! and gets its own when all bytes are there and have the digest.
//!
//! | in the folder | is |
//! |---|---|
//! | `objects/ab/cdef…` | the objects |
//! | `coming/` | what is not whole yet; goes when the store is opened |
//! | `pins/` | for each owner what it needs: its name, then digests, a line each |
//!
//! Programs that run as the node's own user could write to objects that are laid as links. The system notes when something
//! was done to a file, and that cannot be set back: an object to which something was done that was not done here is read
//! and checked before it is used again. So is one that has links when the store is opened.
//!
//! Nothing is synced: after a kill everything is there. After the power failed an object may be damaged, so one that is older
//! than the start of the machine is read once and checked before it is used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, FileTimes};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tracing::{debug, info, warn};
use xavantes_model::digest::Digest;

use crate::counters::{Counted, Counters};
use crate::index::Index;
use crate::manifest::{self, Manifest};
use crate::{CHUNK, Error};

/// So many transfers that broke off may wait to go on.
const MOST_BROKEN: usize = 64;
/// When there is no room, what owners need goes all the same that nobody has heard of for so long: they are gone for good.
const UNHEARD_OF: Duration = Duration::from_secs(90 * 24 * 3600);

/// Keeps objects; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    state: Mutex<State>,
    counters: Counters,
    next: AtomicU64,
}

#[derive(Debug)]
struct State {
    index: Index,
    /// Older than the start of the machine, and not checked since.
    doubtful: HashSet<Digest>,
    /// Objects of which there are, or were, links; with how they looked when something was last done to them here. Without
    /// that they are to be checked.
    linked: HashMap<Digest, Option<Stamp>>,
    /// What somebody brings at this moment.
    coming: HashSet<Digest>,
    /// What somebody began to bring.
    broken: HashMap<Digest, Partial>,
}

/// How a file looks from outside. Whoever writes to it makes it another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds: when it was written to, which can be set, and when anything was done to it, which cannot.
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self {
            inode: about.ino(),
            size: about.len(),
            written: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

/// An object that is not whole yet.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    file: File,
    hasher: Box<blake3::Hasher>,
    size: u64,
    written: u64,
}

/// What becomes of an object that somebody brings.
#[derive(Debug)]
pub enum Reception {
    /// It is here already.
    Here,
    /// Its bytes, or those that are missing, are welcome.
    Welcome(Box<Receiving>),
}

impl Store {
    /// Opens a store that may keep so many bytes; its folder is made if it is not there.
    pub fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        let private = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(folder)?;
        let coming = folder.join("coming");
        if coming.exists() {
            fs::remove_dir_all(&coming)?;
        }
        for name in ["objects", "coming", "pins"] {
            private(&folder.join(name))?;
        }
        let mut index = Index::new(limit);
        for entry in fs::read_dir(folder.join("pins"))? {
            if let Some((owner, digests)) = read_pins(&fs::read(entry?.path())?) {
                index.pin(&owner, &digests);
            }
        }
        let started = machine_started();
        let mut found = BTreeMap::new();
        let mut doubtful = HashSet::new();
        for shelf in fs::read_dir(folder.join("objects"))? {
            let shelf = shelf?;
            for entry in fs::read_dir(shelf.path())? {
                let entry = entry?;
                let name = format!("{}{}", shelf.file_name().display(), entry.file_name().display());
                let Ok(digest) = name.parse::<Digest>() else { continue };
                let about = entry.metadata()?;
                if Duration::new(about.ctime().try_into().unwrap_or(0), 0) < started || about.nlink() > 1 {
                    doubtful.insert(digest);
                }
                found.insert((about.atime(), about.atime_nsec(), digest), about.len());
            }
        }
        let count = found.len();
        for ((.., digest), size) in found {
            index.add(digest, size);
        }
        info!(objects = count, bytes = index.kept().0, "files are kept");
        let state = State { index, doubtful, linked: HashMap::new(), coming: HashSet::new(), broken: HashMap::new() };
        let (counters, next) = (Counters::default(), AtomicU64::new(0));
        Ok(Self(Arc::new(Inner { folder: folder.to_owned(), state: Mutex::new(state), counters, next })))
    }

    /// Nothing in it can be half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// What moved.
    pub fn counted(&self) -> Counted {
        self.0.counters.read()
    }

    /// Bytes and number of objects.
    pub fn kept(&self) -> (u64, usize) {
        self.state().index.kept()
    }

    /// Objects that are here, those that were used last first.
    pub fn latest(&self, most: usize) -> Vec<Digest> {
        self.state().index.latest(most)
    }

    /// Is it here?
    pub fn has(&self, digest: &Digest) -> bool {
        self.state().index.size(digest).is_some()
    }

    /// Which of these are here, directories with everything in them? What is here stays for an owner, if there is one.
    pub fn has_all(&self, files: &[Digest], directories: &[Digest], owner: Option<&str>) -> Result<Vec<bool>, Error> {
        let mut has: Vec<bool> = files.iter().map(|digest| self.has(digest)).collect();
        let mut here: Vec<Digest> =
            files.iter().zip(&has).filter(|(_, has)| **has).map(|(digest, _)| *digest).collect();
        for directory in directories {
            // One that cannot be read is not here.
            let inner = self.manifest(directory).map(|it| it.files().map(|(digest, _)| digest).collect::<Vec<_>>());
            let inner = inner.ok().filter(|inner| inner.iter().all(|digest| self.has(digest)));
            has.push(inner.is_some());
            here.extend(inner.into_iter().flat_map(|inner| [*directory].into_iter().chain(inner)));
        }
        if let Some(owner) = owner {
            self.pin(owner, &here)?;
        }
        Ok(has)
    }

    pub(crate) fn object(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (shelf, rest) = name.split_at(2);
        self.0.folder.join("objects").join(shelf).join(rest)
    }

    /// Uses an object: it stays as long as this is there.
    pub fn hold(&self, digest: &Digest) -> Result<Hold, Error> {
        let doubtful = {
            let mut state = self.state();
            if !state.index.hold(digest) {
                return Err(Error::Missing(*digest));
            }
            let known = state.linked.get(digest);
            let touched = known.is_some_and(|known| known.is_none() || *known != Stamp::of(&self.object(digest)));
            touched || state.doubtful.contains(digest)
        };
        let hold = Hold { store: self.clone(), digest: *digest };
        if doubtful {
            self.check(digest)?;
        }
        Ok(hold)
    }

    /// Reads an object whose bytes may have been lost with the power, or written over.
    fn check(&self, digest: &Digest) -> Result<(), Error> {
        let path = self.object(digest);
        let before = Stamp::of(&path);
        let whole = File::open(&path).and_then(|mut file| {
            let mut hasher = blake3::Hasher::new();
            pour(&mut file, &mut hasher, |_| Ok(()))?;
            Ok(hasher.finalize().as_bytes() == &digest.0)
        });
        if !whole.unwrap_or(false) {
            warn!(%digest, "an object was damaged and is removed");
            self.discard(digest);
            return Err(Error::Missing(*digest));
        }
        let mut state = self.state();
        // Otherwise something was done to it meanwhile: then it is read again next time.
        if Stamp::of(&path) == before {
            // From now on it is newer than the start of the machine, for its inode was changed.
            let used = FileTimes::new().set_accessed(SystemTime::now());
            let _ = File::open(&path).and_then(|file| file.set_times(used));
            if state.doubtful.remove(digest) || state.linked.contains_key(digest) {
                state.linked.insert(*digest, Stamp::of(&path));
            }
        }
        Ok(())
    }

    /// Does something to the file of an object, but not to what is in it.
    fn handle<T>(&self, digest: &Digest, act: impl FnOnce(&Path) -> T) -> T {
        let (mut state, path) = (self.state(), self.object(digest));
        let sound = state.linked.get(digest).is_none_or(|known| *known == Stamp::of(&path));
        let done = act(&path);
        state.linked.insert(*digest, Stamp::of(&path).filter(|_| sound));
        done
    }

    /// Removes an object that is not what it should be.
    fn discard(&self, digest: &Digest) {
        let mut state = self.state();
        state.index.remove(digest);
        state.doubtful.remove(digest);
        state.linked.remove(digest);
        let _ = fs::remove_file(self.object(digest));
    }

    /// An owner needs these objects, whether they are here yet or not, until it releases them.
    pub fn pin(&self, owner: &str, digests: &[Digest]) -> Result<(), Error> {
        let mut state = self.state();
        let new = state.index.pin(owner, digests);
        if new.is_empty() {
            return Ok(());
        }
        let lines: String = new.iter().map(|digest| format!("{digest}\n")).collect();
        let written = File::options().append(true).create(true).open(self.pins(owner)).and_then(|mut file| {
            let head = if file.metadata()?.len() == 0 { format!("{owner}\n") } else { String::new() };
            file.write_all(format!("{head}{lines}").as_bytes())
        });
        written.map_err(Error::io("cannot note what a process needs"))
    }

    /// An owner needs nothing any more, except for these.
    pub fn release(&self, owner: &str, except: &[Digest]) {
        let mut state = self.state();
        if state.index.pinned(owner).next().is_none() {
            return;
        }
        state.index.release(owner, except);
        let left: String = state.index.pinned(owner).map(|digest| format!("{digest}\n")).collect();
        let path = self.pins(owner);
        // Should it not succeed, something is kept for longer than it need be.
        let _ = if left.is_empty() { fs::remove_file(path) } else { fs::write(path, format!("{owner}\n{left}")) };
    }

    /// The same, by bytes of digests; directories stay with everything that is in them.
    pub fn release_except(&self, owner: &str, files: &[Vec<u8>], directories: &[Vec<u8>]) {
        let read = |list: &[Vec<u8>]| list.iter().filter_map(|bytes| Digest::from_bytes(bytes)).collect::<Vec<_>>();
        let mut except = read(files);
        for directory in read(directories) {
            except.push(directory);
            except.extend(self.manifest(&directory).iter().flat_map(|it| it.files()).map(|(digest, _)| digest));
        }
        self.release(owner, &except);
    }

    /// Who needs something.
    pub fn owners(&self) -> Vec<String> {
        self.state().index.owners().map(str::to_owned).collect()
    }

    /// What an owner needs and is here.
    pub fn pinned(&self, owner: &str) -> Vec<Digest> {
        let state = self.state();
        state.index.pinned(owner).filter(|digest| state.index.size(digest).is_some()).copied().collect()
    }

    /// Somebody says that an owner still needs what it needed.
    pub fn confirm(&self, owner: &str) {
        let _ = File::options().append(true).open(self.pins(owner)).and_then(|it| it.set_modified(SystemTime::now()));
    }

    /// Owners that nobody has heard of for long need nothing any more; true if there was one.
    fn release_unheard_of(&self, state: &mut State) -> bool {
        let old = |path: &Path| {
            let changed = fs::metadata(path).and_then(|about| about.modified());
            changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > UNHEARD_OF))
        };
        let owners: Vec<String> = state.index.owners().filter(|it| old(&self.pins(it))).map(str::to_owned).collect();
        for owner in &owners {
            warn!(owner, "nobody has asked for its files for long: they may go");
            state.index.release(owner, &[]);
            let _ = fs::remove_file(self.pins(owner));
        }
        !owners.is_empty()
    }

    fn pins(&self, owner: &str) -> PathBuf {
        self.0.folder.join("pins").join(blake3::hash(owner.as_bytes()).to_hex().as_str())
    }

    fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let mut state = self.state();
        let mut gone = state.index.reserve(bytes);
        if gone.is_err() {
            // What broke off can begin anew.
            for (_, partial) in std::mem::take(&mut state.broken) {
                state.index.unreserve(partial.size);
                let _ = fs::remove_file(&partial.path);
            }
            gone = state.index.reserve(bytes);
        }
        if gone.is_err() && self.release_unheard_of(&mut state) {
            gone = state.index.reserve(bytes);
        }
        for digest in gone? {
            state.doubtful.remove(&digest);
            state.linked.remove(&digest);
            let _ = fs::remove_file(self.object(&digest));
        }
        Ok(())
    }

    /// A new file for bytes that come.
    fn create(&self) -> Result<(PathBuf, File), Error> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let path = self.0.folder.join("coming").join(number.to_string());
        let file = File::options().write(true).create_new(true).mode(0o444).open(&path);
        Ok((path, file.map_err(Error::io("cannot write to the file store"))?))
    }

    /// Gives a whole file its name.
    fn settle(&self, path: &Path, digest: Digest, size: u64) -> Result<(), Error> {
        let object = self.object(&digest);
        let mut state = self.state();
        if state.index.size(&digest).is_some() && !state.doubtful.contains(&digest) {
            state.index.touch(&digest);
            let _ = fs::remove_file(path);
            return Ok(());
        }
        let placed = fs::rename(path, &object).or_else(|_| {
            fs::create_dir_all(object.parent().unwrap_or(Path::new("/")))?;
            fs::rename(path, &object)
        });
        placed.map_err(Error::io("cannot write to the file store"))?;
        state.doubtful.remove(&digest);
        state.index.add(digest, size);
        Ok(())
    }

    /// Somebody brings an object: from the beginning, or from where the last one broke off.
    pub fn receive(&self, digest: Digest, size: u64) -> Result<Reception, Error> {
        let broken = {
            let mut state = self.state();
            if state.index.size(&digest).is_some() && !state.doubtful.contains(&digest) {
                state.index.touch(&digest);
                return Ok(Reception::Here);
            }
            if !state.coming.insert(digest) {
                return Err(Error::Busy(digest));
            }
            state.broken.remove(&digest)
        };
        let partial = match broken {
            Some(partial) if partial.size == size => Ok(partial),
            other => {
                if let Some(partial) = other {
                    self.forget(&partial);
                }
                self.reserve(size).and_then(|()| match self.create() {
                    Ok((path, file)) => Ok(Partial { path, file, hasher: Box::default(), size, written: 0 }),
                    Err(error) => {
                        self.state().index.unreserve(size);
                        Err(error)
                    }
                })
            }
        };
        match partial {
            Ok(partial) => {
                let receiving = Receiving { store: self.clone(), digest, partial: Some(partial) };
                Ok(Reception::Welcome(Box::new(receiving)))
            }
            Err(error) => {
                self.state().coming.remove(&digest);
                Err(error)
            }
        }
    }

    /// How much of it is here.
    pub fn offset(&self, digest: &Digest) -> u64 {
        let state = self.state();
        match state.index.size(digest) {
            Some(all) => all,
            None => state.broken.get(digest).map_or(0, |partial| partial.written),
        }
    }

    fn forget(&self, partial: &Partial) {
        self.state().index.unreserve(partial.size);
        let _ = fs::remove_file(&partial.path);
    }

    /// Takes bytes whose digest is not known, about so many; gives digest and size.
    pub fn add(&self, source: &mut impl Read, expected: u64) -> Result<(Digest, u64), Error> {
        self.reserve(expected)?;
        let added = self.create().and_then(|(path, mut file)| {
            let mut hasher = blake3::Hasher::new();
            let settled = pour(source, &mut hasher, |bytes| file.write_all(bytes))
                .map_err(Error::io("cannot keep a file"))
                .and_then(|size| {
                    let digest = Digest(*hasher.finalize().as_bytes());
                    self.settle(&path, digest, size).map(|()| (digest, size))
                });
            if settled.is_err() {
                let _ = fs::remove_file(&path);
            }
            settled
        });
        self.state().index.unreserve(expected);
        added
    }

    /// What is in a directory that is kept.
    pub fn manifest(&self, digest: &Digest) -> Result<Manifest, Error> {
        let _hold = self.hold(digest)?;
        let cannot = "cannot read what is in a directory";
        let file = File::open(self.object(digest)).map_err(Error::io(cannot))?;
        let mut bytes = Vec::new();
        file.take(manifest::LARGEST).read_to_end(&mut bytes).map_err(Error::io(cannot))?;
        Manifest::decode(&bytes)
    }
}

/// Reads everything, through the hasher, to where it goes; gives how much it was.
pub(crate) fn pour(
    source: &mut impl Read,
    hasher: &mut blake3::Hasher,
    mut to: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut buffer, mut size) = (vec![0; CHUNK], 0);
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(size),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        to(&buffer[..count])?;
        size += count as u64;
    }
}

/// When the machine was started, since 1970.
fn machine_started() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    Duration::from_secs(line.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(0))
}

/// An owner and what it needs. A line that was cut off does not count.
fn read_pins(bytes: &[u8]) -> Option<(String, Vec<Digest>)> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let owner = lines.next().filter(|owner| !owner.is_empty())?.to_owned();
    Some((owner, lines.filter_map(|line| line.parse().ok()).collect()))
}

/// Somebody uses an object, which stays until then.
#[derive(Debug)]
pub struct Hold {
    store: Store,
    digest: Digest,
}

impl Hold {
    /// The object's bytes.
    pub fn open(&self) -> Result<File, Error> {
        File::open(self.path()).map_err(Error::io("cannot read from the file store"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.store.object(&self.digest)
    }

    /// Has a link to the object made; tells which file it is.
    pub(crate) fn link<E>(&self, make: impl FnOnce(&Path) -> Result<(), E>) -> Result<u64, E> {
        let inode = |path: &Path| Stamp::of(path).map_or(0, |stamp| stamp.inode);
        self.store.handle(&self.digest, |path| make(path).map(|()| inode(path)))
    }

    /// Has a link to the object removed.
    pub(crate) fn unlink(&self, remove: impl FnOnce()) {
        self.store.handle(&self.digest, |_| remove());
    }

    /// Whether somebody changed what is in a file that was linked: then it is the object no more.
    pub(crate) fn is_changed(&self, inode: u64) -> bool {
        Stamp::of(&self.path()).is_none_or(|now| now.inode != inode) || self.store.hold(&self.digest).is_err()
    }

    /// Which object.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.store.state().index.let_go(&self.digest);
    }
}

/// An object that somebody brings. If it is dropped before its end, another one may go on.
#[derive(Debug)]
pub struct Receiving {
    store: Store,
    digest: Digest,
    partial: Option<Partial>,
}

impl Receiving {
    /// From where on bytes are missing.
    pub fn offset(&self) -> u64 {
        self.partial.as_ref().map_or(0, |partial| partial.written)
    }

    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(partial) = &mut self.partial else { return Err(Error::Missing(self.digest)) };
        if partial.written + bytes.len() as u64 > partial.size {
            return Err(self.spoil());
        }
        if let Err(cause) = partial.file.write_all(bytes) {
            // How much of it was written is not known.
            self.spoil();
            return Err(Error::io("cannot write to the file store")(cause));
        }
        partial.hasher.update(bytes);
        partial.written += bytes.len() as u64;
        self.store.counters().came(bytes.len());
        Ok(())
    }

    fn spoil(&mut self) -> Error {
        if let Some(partial) = self.partial.take() {
            self.store.forget(&partial);
        }
        Error::Damaged(self.digest)
    }

    /// All bytes are there: if they have the digest, the object is.
    pub fn finish(mut self) -> Result<(), Error> {
        let whole = self.partial.as_ref().is_some_and(|partial| {
            partial.written == partial.size && partial.hasher.finalize().as_bytes() == &self.digest.0
        });
        if !whole {
            return Err(self.spoil());
        }
        let Some(partial) = self.partial.take() else { return Ok(()) };
        let settled = self.store.settle(&partial.path, self.digest, partial.size);
        self.store.state().index.unreserve(partial.size);
        if settled.is_err() {
            let _ = fs::remove_file(&partial.path);
        } else {
            self.store.counters().arrived();
            debug!(digest = %self.digest, size = partial.size, "a file came");
        }
        settled
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let mut state = self.store.state();
        state.coming.remove(&self.digest);
        let Some(partial) = self.partial.take() else { return };
        state.broken.insert(self.digest, partial);
        let other = state.broken.keys().find(|digest| **digest != self.digest).copied();
        let other = other.filter(|_| state.broken.len() > MOST_BROKEN).and_then(|other| state.broken.remove(&other));
        drop(state);
        if let Some(partial) = other {
            self.store.forget(&partial);
        }
    }
}
