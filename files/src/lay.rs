//! Files and directories out of the store into a directory. They are laid as links to the objects, so that it costs neither
//! time nor room, and are to be read only; where links do not reach, and for programs, they are copied.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use xavantes_model::digest::Digest;

use crate::manifest::EntryKind;
use crate::path::check_path;
use crate::store::{Hold, Store};
use crate::take::{Workplace, digest_of};
use crate::{Error, Manifest};

/// Lays things into a directory in which nobody works yet.
#[derive(Debug)]
pub struct Laying<'a> {
    store: &'a Store,
    place: &'a Workplace,
    /// They are to belong to whoever gets them: copies that can be changed.
    own: bool,
    laid: Laid,
}

/// What was laid: the objects stay in the store until this is dropped.
#[derive(Debug, Default)]
pub struct Laid {
    /// Objects, their paths, and which files they are.
    links: Vec<(Hold, String, u64)>,
    place: Option<OwnedFd>,
}

/// However an attempt ended, what it changed is not given to others.
impl Drop for Laid {
    fn drop(&mut self) {
        self.changed();
    }
}

impl Laid {
    /// The paths whose content somebody changed, though it is to be read only. Those objects are gone from the store.
    pub fn changed(&self) -> Vec<&str> {
        let changed = self.links.iter().filter(|(hold, _, inode)| hold.is_changed(*inode));
        changed.map(|(_, path, _)| path.as_str()).collect()
    }

    /// Removes what was laid. A link that goes otherwise costs that its object is read before it is used again.
    pub fn lift(&self) {
        let Some(place) = &self.place else { return };
        for (hold, path, inode) in self.links.iter().filter(|(hold, _, inode)| !hold.is_changed(*inode)) {
            let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let Ok(folder) = rustix::fs::openat2(place, folder, flags, Mode::empty(), resolve) else { continue };
            // Another file that has its name by now is left to whoever made it.
            let same = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|it| it.st_ino == *inode);
            if same {
                // If it stays, it goes with the directory.
                hold.unlink(|| _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty()));
            }
        }
    }
}

fn unmade(path: &str, cause: Errno) -> Error {
    match cause {
        Errno::EXIST => Error::path(path, "is there already, and is something else"),
        other => Error::path(path, format!("cannot be made: {other}")),
    }
}

/// Is there a file with this content?
fn is_same(folder: &OwnedFd, name: &str, digest: &Digest) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let found = rustix::fs::openat(folder, name, flags, Mode::empty()).map(File::from);
    let file = found.ok().filter(|file| file.metadata().is_ok_and(|about| about.is_file()));
    file.is_some_and(|mut file| digest_of(&mut file).is_ok_and(|(found, _)| found == *digest))
}

fn leads_to(folder: &OwnedFd, name: &str, target: &str) -> bool {
    rustix::fs::readlinkat(folder, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target.as_bytes())
}

impl<'a> Laying<'a> {
    /// Begins; with `own` as copies that can be changed.
    pub fn new(store: &'a Store, place: &'a Workplace, own: bool) -> Self {
        Self { store, place, own, laid: Laid::default() }
    }

    /// Lays a file.
    pub fn file(&mut self, path: &str, digest: &Digest, executable: bool) -> Result<(), Error> {
        let hold = self.store.hold(digest)?;
        let (folder, name) = self.parent(path)?;
        let taken = |cause| unmade(path, cause);
        if !self.own && !executable {
            match hold.link(|object| rustix::fs::linkat(CWD, object, &folder, name, AtFlags::empty())) {
                Ok(inode) => {
                    self.laid.links.push((hold, path.to_owned(), inode));
                    return Ok(());
                }
                Err(Errno::EXIST) => return Err(taken(Errno::EXIST)),
                // Another file system, or one without links, or too many of them.
                Err(_) => {}
            }
        }
        let mode = match (self.own, executable) {
            (false, false) => 0o444,
            (false, true) => 0o555,
            (true, false) => 0o644,
            (true, true) => 0o755,
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copy = match rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(mode)) {
            // It was fetched before.
            Err(Errno::EXIST) if self.own && is_same(&folder, name, digest) => return Ok(()),
            made => made.map_err(taken)?,
        };
        std::io::copy(&mut hold.open()?, &mut File::from(copy)).map_err(Error::io(format!("cannot copy {path:?}")))?;
        Ok(())
    }

    /// Lays a directory with everything in it; all its objects are here.
    pub fn directory(&mut self, path: &str, manifest: &Manifest) -> Result<(), Error> {
        check_path(path)?;
        self.folder(path.split('/'))?;
        for entry in manifest.entries() {
            let at = format!("{path}/{}", entry.path);
            check_path(&at)?;
            match &entry.kind {
                EntryKind::File { digest, executable, .. } => self.file(&at, digest, *executable)?,
                EntryKind::Empty => drop(self.folder(at.split('/'))?),
                EntryKind::Link(target) => {
                    let (folder, name) = self.parent(&at)?;
                    match rustix::fs::symlinkat(target.as_str(), &folder, name) {
                        Err(Errno::EXIST) if self.own && leads_to(&folder, name, target) => {}
                        made => made.map_err(|cause| unmade(&at, cause))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// What was laid.
    pub fn done(mut self) -> Laid {
        self.laid.place = self.place.as_fd().try_clone_to_owned().ok();
        self.laid
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), Error> {
        check_path(path)?;
        match path.rsplit_once('/') {
            Some((folder, name)) => Ok((self.folder(folder.split('/'))?, name)),
            None => Ok((self.folder(std::iter::empty())?, path)),
        }
    }

    /// A directory, made if it is not there. Each name is looked at without following links.
    fn folder<'p>(&self, names: impl Iterator<Item = &'p str>) -> Result<OwnedFd, Error> {
        let cannot = |name: &str, cause: Errno| match cause {
            Errno::LOOP | Errno::NOTDIR => Error::path(name, "is there already, and is no directory"),
            other => Error::path(name, format!("cannot be made: {other}")),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = self.place.as_fd().try_clone_to_owned();
        let mut folder = place.map_err(Error::io("cannot open the working directory"))?;
        for name in names {
            folder = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    let mode = Mode::from_raw_mode(0o755);
                    rustix::fs::mkdirat(&folder, name, mode).map_err(|cause| cannot(name, cause))?;
                    rustix::fs::openat(&folder, name, flags, Mode::empty())
                }
                other => other,
            }
            .map_err(|cause| cannot(name, cause))?;
        }
        Ok(folder)
    }
}
