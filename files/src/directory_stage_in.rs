//! Stages files and directories from the store into a working directory. Read-only files are hard links to the objects, which
//! cost neither time nor space. Executable and writable files are copies, and so are files on another file system.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use xavantes_model::digest::Digest;

use crate::allowed_path::check_path;
use crate::confined_directory::WorkingDirectory;
use crate::error::Error;
use crate::hash::digest_of;
use crate::manifest::{EntryKind, Manifest};
use crate::store::store_state::FileStore;
use crate::store::stored_objects::Hold;

/// Stages files into a directory that no program uses yet.
#[derive(Debug)]
pub struct StageIn<'a> {
    store: &'a FileStore,
    directory: &'a WorkingDirectory,
    access: Access,
    staged: StagedFiles,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Programs must not change the files, which are links or copies.
    ReadOnly,
    /// The files are copies that belong to the user. Files that exist with the same content stay.
    Writable,
}

impl Access {
    fn mode(self, executable: bool) -> Mode {
        Mode::from_raw_mode(match (self, executable) {
            (Self::ReadOnly, false) => 0o444,
            (Self::ReadOnly, true) => 0o555,
            (Self::Writable, false) => 0o644,
            (Self::Writable, true) => 0o755,
        })
    }
}

/// The links of a finished stage-in. Holds their objects until it is dropped. Dropping it checks the objects, so that the
/// store never gives out an object that a program changed, however the attempt ended.
#[derive(Debug, Default)]
pub struct StagedFiles {
    links: Vec<StagedLink>,
    directory: Option<OwnedFd>,
}

/// A hard link to an object.
#[derive(Debug)]
struct StagedLink {
    object: Hold,
    path: String,
    inode: u64,
}

impl StagedLink {
    fn is_changed(&self) -> bool {
        self.object.is_changed(self.inode)
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        self.changed();
    }
}

impl StagedFiles {
    /// The paths of read-only files whose content changed. The store has removed their objects.
    pub fn changed(&self) -> Vec<&str> {
        self.links.iter().filter(|link| link.is_changed()).map(|link| link.path.as_str()).collect()
    }

    /// Removes the links. The store must check an object whose link disappears in any other way.
    pub fn unlink(&self) {
        let Some(directory) = &self.directory else { return };
        for link in self.links.iter().filter(|link| !link.is_changed()) {
            let (folder, name) = link.path.rsplit_once('/').unwrap_or((".", &link.path));
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let Ok(folder) = rustix::fs::openat2(directory, folder, flags, Mode::empty(), resolve) else { continue };
            // A file that the program put in place of the link stays.
            let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| stat.st_ino == link.inode) {
                // A link that cannot be removed disappears with the directory.
                link.object.unlink(|| _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty()));
            }
        }
    }
}

impl<'a> StageIn<'a> {
    /// Stages files that programs may only read.
    pub fn read_only(store: &'a FileStore, directory: &'a WorkingDirectory) -> Self {
        Self { store, directory, access: Access::ReadOnly, staged: StagedFiles::default() }
    }

    /// Stages copies that belong to the user.
    pub fn writable(store: &'a FileStore, directory: &'a WorkingDirectory) -> Self {
        Self { store, directory, access: Access::Writable, staged: StagedFiles::default() }
    }

    /// Stages a file.
    pub fn file(&mut self, path: &str, digest: &Digest, executable: bool) -> Result<(), Error> {
        let object = self.store.hold(digest)?;
        let (folder, name) = self.parent(path)?;
        if self.access == Access::ReadOnly && !executable {
            match object.link(|object| rustix::fs::linkat(CWD, object, &folder, name, AtFlags::empty())) {
                Ok(inode) => {
                    self.staged.links.push(StagedLink { object, path: path.to_owned(), inode });
                    return Ok(());
                }
                Err(Errno::EXIST) => return Err(cannot_create(path, Errno::EXIST)),
                // Another file system, a file system without links, or too many links: copy the file.
                Err(_) => {}
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copy = match rustix::fs::openat(&folder, name, flags, self.access.mode(executable)) {
            // An earlier stage-in made the file.
            Err(Errno::EXIST) if self.access == Access::Writable && has_content(&folder, name, digest) => return Ok(()),
            created => created.map_err(|cause| cannot_create(path, cause))?,
        };
        let copied = std::io::copy(&mut object.open()?, &mut File::from(copy));
        copied.map_err(Error::io(format!("cannot copy {path:?}")))?;
        Ok(())
    }

    /// Stages a directory. The store must have all its objects.
    pub fn directory(&mut self, path: &str, manifest: &Manifest) -> Result<(), Error> {
        check_path(path)?;
        self.create_folders(path.split('/'))?;
        for entry in manifest.entries() {
            let path = format!("{path}/{}", entry.path);
            check_path(&path)?;
            match &entry.kind {
                EntryKind::File { digest, executable, .. } => self.file(&path, digest, *executable)?,
                EntryKind::Empty => drop(self.create_folders(path.split('/'))?),
                EntryKind::Link(target) => self.link(&path, target)?,
            }
        }
        Ok(())
    }

    /// Stages a symbolic link.
    fn link(&self, path: &str, target: &str) -> Result<(), Error> {
        let (folder, name) = self.parent(path)?;
        match rustix::fs::symlinkat(target, &folder, name) {
            Err(Errno::EXIST) if self.access == Access::Writable && has_target(&folder, name, target) => Ok(()),
            created => created.map_err(|cause| cannot_create(path, cause)),
        }
    }

    /// Ends the stage-in.
    pub fn finish(mut self) -> StagedFiles {
        self.staged.directory = self.directory.as_fd().try_clone_to_owned().ok();
        self.staged
    }

    /// Opens the folder of a path, created if necessary, and returns it with the name of the path in it.
    fn parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), Error> {
        check_path(path)?;
        match path.rsplit_once('/') {
            Some((folder, name)) => Ok((self.create_folders(folder.split('/'))?, name)),
            None => Ok((self.create_folders(std::iter::empty())?, path)),
        }
    }

    /// Opens nested folders, created if necessary, without following links.
    fn create_folders<'p>(&self, names: impl Iterator<Item = &'p str>) -> Result<OwnedFd, Error> {
        let cannot = |name: &str, cause: Errno| match cause {
            Errno::LOOP | Errno::NOTDIR => Error::path(name, "already exists and is not a directory"),
            other => Error::path(name, format!("cannot be created: {other}")),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = self.directory.as_fd().try_clone_to_owned();
        let mut folder = opened.map_err(Error::io("cannot open the working directory"))?;
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

fn cannot_create(path: &str, cause: Errno) -> Error {
    match cause {
        Errno::EXIST => Error::path(path, "is there already, and is something else"),
        other => Error::path(path, format!("cannot be created: {other}")),
    }
}

/// Whether a folder has a regular file with this content.
fn has_content(folder: &OwnedFd, name: &str, digest: &Digest) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty()).map(File::from);
    let file = opened.ok().filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()));
    file.is_some_and(|mut file| digest_of(&mut file).is_ok_and(|(found, _)| found == *digest))
}

/// Whether a folder has a symbolic link with this target.
fn has_target(folder: &OwnedFd, name: &str, target: &str) -> bool {
    rustix::fs::readlinkat(folder, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target.as_bytes())
}
