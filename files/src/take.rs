//! Files and directories out of a working directory. Whatever was done to it, nothing outside of it is read: paths are
//! resolved by the system, which refuses links that lead out, and what is neither a file nor a directory is not touched.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use glob::{MatchOptions, Pattern};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use xavantes_model::digest::Digest;

use crate::Error;
use crate::manifest::{Entry, EntryKind, MOST_ENTRIES, Manifest};
use crate::path::check_path;
use crate::store::{Store, pour};

/// How patterns match: `*` stops at `/`, and names that begin with a dot are to be named.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A directory in which somebody works.
#[derive(Debug)]
pub struct Workplace(OwnedFd);

/// Something that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Of a file's bytes, or of a directory's manifest.
    pub digest: Digest,
    /// The bytes of all files.
    pub size: u64,
    /// A program.
    pub executable: bool,
    /// All objects that it is made of.
    pub objects: Vec<Digest>,
}

/// What becomes of the bytes of a file.
pub(crate) type Keep<'a> = dyn FnMut(&str, &mut File, u64) -> Result<(Digest, u64), Error> + 'a;

/// The digest and size of what is read.
pub fn digest_of(source: &mut impl Read) -> std::io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let size = pour(source, &mut hasher, |_| Ok(()))?;
    Ok((Digest(*hasher.finalize().as_bytes()), size))
}

impl Workplace {
    /// Opens a directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        opened.map(Self).map_err(|cause| Error::io(format!("cannot open {}", path.display()))(cause.into()))
    }

    /// What is at a path, through links that stay inside.
    fn enter(&self, path: &str, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Error> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve).map_err(|cause| match cause {
            Errno::NOENT => Error::path(path, "is not there"),
            Errno::XDEV => Error::path(path, "leads out of the directory through a symbolic link"),
            Errno::LOOP => Error::path(path, "goes through a symbolic link"),
            Errno::NOTDIR => Error::path(path, "is not a directory"),
            Errno::NXIO => Error::path(path, "is neither a file nor a directory"),
            other => Error::path(path, format!("cannot be opened: {other}")),
        })
    }

    /// Takes what is at a path, a file or a directory, into a store.
    pub fn take(&self, store: &Store, path: &str, directory: bool) -> Result<Taken, Error> {
        let keep = &mut |_: &str, file: &mut File, size| store.add(file, size);
        match directory {
            false => self.file(path, keep),
            true => {
                let (manifest, _) = self.look(path, keep)?;
                keep_directory(store, &manifest)
            }
        }
    }

    /// Takes these paths, files and directories, as one directory, in which they have the same paths.
    pub fn gather(&self, store: &Store, paths: &[String]) -> Result<Taken, Error> {
        let keep = &mut |_: &str, file: &mut File, size| store.add(file, size);
        let mut entries = Vec::new();
        for path in paths {
            let about = self.kind(path)?;
            if about == FileType::Directory {
                let (manifest, _) = self.look(path, keep)?;
                let inner = manifest.entries().iter().cloned();
                entries.extend(inner.map(|entry| Entry { path: format!("{path}/{}", entry.path), ..entry }));
            } else {
                let Taken { digest, size, executable, .. } = self.file(path, keep)?;
                entries.push(Entry { path: path.clone(), kind: EntryKind::File { digest, size, executable } });
            }
        }
        keep_directory(store, &Manifest::new(entries)?)
    }

    fn kind(&self, path: &str) -> Result<FileType, Error> {
        let opened = self.enter(path, OFlags::empty(), ResolveFlags::empty())?;
        Ok(FileType::from_raw_mode(about(&opened, path)?.st_mode))
    }

    pub(crate) fn file(&self, path: &str, keep: &mut Keep<'_>) -> Result<Taken, Error> {
        check_path(path)?;
        let opened = self.enter(path, OFlags::empty(), ResolveFlags::empty())?;
        let about = about(&opened, path)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Error::path(path, "is a directory, not a file")),
            _ => return Err(Error::path(path, "is neither a file nor a directory")),
        }
        let (digest, size) = keep(path, &mut File::from(opened), about.st_size.try_into().unwrap_or(0))?;
        Ok(Taken { digest, size, executable: about.st_mode & 0o100 != 0, objects: vec![digest] })
    }

    /// What is in the directory at a path; with `""` in the workplace itself. Links are kept as they are.
    pub(crate) fn look(&self, path: &str, keep: &mut Keep<'_>) -> Result<(Manifest, u64), Error> {
        let root = if path.is_empty() { "." } else { path };
        if !path.is_empty() {
            check_path(path)?;
        }
        let root = Self(self.enter(root, OFlags::DIRECTORY, ResolveFlags::empty())?);
        let mut entries = Vec::new();
        let mut found = root.walk()?;
        found.retain(|(path, kind)| {
            let is_parent = *kind == FileType::Directory;
            if is_parent {
                entries.push(path.clone());
            }
            !is_parent
        });
        // Directories follow from what is in them, except for those in which there is nothing.
        let all = found.iter().map(|(path, _)| path).chain(&entries);
        let parents: std::collections::HashSet<&str> =
            all.filter_map(|path| path.rsplit_once('/').map(|(parent, _)| parent)).collect();
        let empty = entries.iter().filter(|path| !parents.contains(&***path));
        let mut listed: Vec<Entry> = empty.map(|path| Entry { path: path.clone(), kind: EntryKind::Empty }).collect();
        for (path, kind) in &found {
            let kind = match kind {
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(&root.0, path.as_str(), Vec::new());
                    let target = target.map_err(|cause| Error::path(path, format!("cannot be read: {cause}")))?;
                    let target =
                        target.into_string().map_err(|_| Error::path(path, "points to a name that is not UTF-8"))?;
                    EntryKind::Link(target)
                }
                FileType::RegularFile => {
                    let Taken { digest, size, executable, .. } = root.file(path, keep)?;
                    EntryKind::File { digest, size, executable }
                }
                _ => return Err(Error::path(path, "is neither a file nor a directory")),
            };
            listed.push(Entry { path: path.clone(), kind });
        }
        let manifest = Manifest::new(listed)?;
        let size = manifest.size();
        Ok((manifest, size))
    }

    /// Everything below, with what it is; links are not followed.
    fn walk(&self) -> Result<Vec<(String, FileType)>, Error> {
        let mut found: Vec<(String, FileType)> = Vec::new();
        let mut open = vec![String::new()];
        while let Some(folder) = open.pop() {
            let inside = if folder.is_empty() { "." } else { &folder };
            let fd = self.enter(inside, OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS)?;
            let cannot = |cause: Errno| Error::path(&folder, format!("cannot be read: {cause}"));
            for entry in Dir::read_from(&fd).map_err(cannot)? {
                let entry = entry.map_err(cannot)?;
                let name = match entry.file_name().to_str() {
                    Ok("." | "..") => continue,
                    Ok(name) => name,
                    Err(_) => {
                        let shown = entry.file_name().to_string_lossy();
                        return Err(Error::path(shown, "has a name that is not UTF-8"));
                    }
                };
                let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                let kind = match entry.file_type() {
                    FileType::Unknown => {
                        let about = rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                        FileType::from_raw_mode(about.map_err(cannot)?.st_mode)
                    }
                    known => known,
                };
                if kind == FileType::Directory {
                    open.push(path.clone());
                }
                found.push((path, kind));
                if found.len() > MOST_ENTRIES {
                    return Err(Error::Directory(format!("a directory has more than {MOST_ENTRIES} entries")));
                }
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// The paths that match a pattern, in order. A path without wildcards matches itself, if something is there.
    pub fn find(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let wanted = Pattern::new(pattern).map_err(|cause| Error::path(pattern, format!("is no pattern: {cause}")))?;
        if !pattern.contains(['*', '?', '[']) {
            check_path(pattern)?;
            return match rustix::fs::statat(&self.0, pattern, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Ok(vec![pattern.to_owned()]),
                Err(_) => Ok(Vec::new()),
            };
        }
        let found = self.walk()?.into_iter().map(|(path, _)| path);
        Ok(found.filter(|path| wanted.matches_with(path, MATCHING)).collect())
    }

    /// Is there a directory at that path? Links are not followed.
    pub fn is_directory(&self, path: &str) -> bool {
        let about = rustix::fs::statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW);
        about.is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Directory)
    }

    /// What is here, for messages: the first few names.
    pub fn listing(&self) -> String {
        match self.walk() {
            Ok(found) if found.is_empty() => "nothing".into(),
            Ok(found) => {
                let names: Vec<String> = found.iter().take(10).map(|(path, _)| format!("{path:?}")).collect();
                let more = if found.len() > 10 { format!(" and {} more", found.len() - 10) } else { String::new() };
                format!("{}{more}", names.join(", "))
            }
            Err(error) => error.to_string(),
        }
    }
}

impl AsFd for Workplace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn about(opened: &OwnedFd, path: &str) -> Result<rustix::fs::Stat, Error> {
    rustix::fs::fstat(opened).map_err(|cause| Error::path(path, format!("cannot be looked at: {cause}")))
}

pub(crate) fn keep_directory(store: &Store, manifest: &Manifest) -> Result<Taken, Error> {
    let bytes = manifest.encode();
    let (digest, _) = store.add(&mut &*bytes, bytes.len() as u64)?;
    let objects = manifest.files().map(|(digest, _)| digest).chain([digest]).collect();
    Ok(Taken { digest, size: manifest.size(), executable: false, objects })
}
