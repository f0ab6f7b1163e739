//! A directory that is read without leaving it. Programs may do anything to it: the kernel resolves all paths and refuses links
//! that lead outside.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use glob::{MatchOptions, Pattern};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::allowed_path::check_path;
use crate::error::Error;
use crate::manifest::MAX_ENTRIES;

/// Patterns match like those of a shell: `*` does not match `/`, nor the dot at the beginning of a name.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
/// Upper bound on the names in a listing for messages.
const MAX_LISTED_NAMES: usize = 10;
/// Upper bound on the paths among which a message looks for a similar one.
const MAX_COMPARED_PATHS: usize = 1000;

/// An open directory, usually the working directory of an activity.
#[derive(Debug)]
pub struct WorkingDirectory(OwnedFd);

/// Something that was found below a directory.
pub(crate) struct FoundPath {
    pub path: String,
    pub kind: FileType,
}

impl WorkingDirectory {
    /// Opens a directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        opened.map(Self).map_err(|cause| Error::io(format!("cannot open {}", path.display()))(cause.into()))
    }

    /// Opens a directory below this one; `""` is this directory.
    pub(crate) fn open_below(&self, path: &str) -> Result<Self, Error> {
        if path.is_empty() {
            return Ok(Self(self.open_at(".", OFlags::DIRECTORY, ResolveFlags::empty())?));
        }
        check_path(path)?;
        Ok(Self(self.open_at(path, OFlags::DIRECTORY, ResolveFlags::empty())?))
    }

    /// Opens the file or directory at a path, through links that stay inside.
    pub(crate) fn open_file(&self, path: &str) -> Result<(OwnedFd, Stat), Error> {
        self.open_if_present(path)?.ok_or_else(|| Error::path(path, "is not there"))
    }

    /// Opens the file or directory at a path, through links that stay inside; `None` if nothing is there.
    pub(crate) fn open_if_present(&self, path: &str) -> Result<Option<(OwnedFd, Stat)>, Error> {
        let opened = match self.try_open_at(path, OFlags::empty(), ResolveFlags::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|cause| cannot_open(path, cause))?,
        };
        let stat = rustix::fs::fstat(&opened);
        let stat = stat.map_err(|cause| Error::path(path, format!("cannot be examined: {cause}")))?;
        Ok(Some((opened, stat)))
    }

    fn open_at(&self, path: &str, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Error> {
        self.try_open_at(path, flags, resolve).map_err(|cause| cannot_open(path, cause))
    }

    fn try_open_at(&self, path: &str, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve)
    }

    /// Reads the target of a symbolic link.
    pub(crate) fn read_link(&self, path: &str) -> Result<String, Error> {
        let target = rustix::fs::readlinkat(&self.0, path, Vec::new());
        let target = target.map_err(|cause| Error::path(path, format!("cannot be read: {cause}")))?;
        target.into_string().map_err(|_| Error::path(path, "points to a name that is not UTF-8"))
    }

    /// Lists everything below the directory, sorted by path, without following links.
    pub(crate) fn walk(&self) -> Result<Vec<FoundPath>, Error> {
        let mut found = Vec::new();
        let mut unread = vec![String::new()];
        while let Some(folder) = unread.pop() {
            let inside = if folder.is_empty() { "." } else { &folder };
            let fd = self.open_at(inside, OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS)?;
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
                        let stat = rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                        FileType::from_raw_mode(stat.map_err(cannot)?.st_mode)
                    }
                    known => known,
                };
                if kind == FileType::Directory {
                    unread.push(path.clone());
                }
                found.push(FoundPath { path, kind });
                if found.len() > MAX_ENTRIES {
                    return Err(Error::Directory(format!("a directory has more than {MAX_ENTRIES} entries")));
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The paths that match a pattern, sorted. A pattern without wildcards matches the path that it is, if that exists.
    pub fn find(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let wanted =
            Pattern::new(pattern).map_err(|cause| Error::path(pattern, format!("is not a pattern: {cause}")))?;
        if !pattern.contains(['*', '?', '[']) {
            check_path(pattern)?;
            return match rustix::fs::statat(&self.0, pattern, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Ok(vec![pattern.to_owned()]),
                Err(_) => Ok(Vec::new()),
            };
        }
        let found = self.walk()?.into_iter().map(|found| found.path);
        Ok(found.filter(|path| wanted.matches_with(path, MATCHING)).collect())
    }

    /// Whether there is a directory at a path. Does not follow links.
    pub fn is_directory(&self, path: &str) -> bool {
        let stat = rustix::fs::statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// The paths of the first files in the directory, for messages.
    pub fn paths(&self) -> Vec<String> {
        self.walk()
            .map_or_else(|_| Vec::new(), |found| found.into_iter().take(MAX_COMPARED_PATHS).map(|it| it.path).collect())
    }

    /// The first names in the directory, for messages.
    pub fn listing(&self) -> String {
        let found = match self.walk() {
            Ok(found) if found.is_empty() => return "nothing".into(),
            Ok(found) => found,
            Err(error) => return error.to_string(),
        };
        let names: Vec<String> = found.iter().take(MAX_LISTED_NAMES).map(|it| format!("{:?}", it.path)).collect();
        let more = match found.len().saturating_sub(MAX_LISTED_NAMES) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!("{}{more}", names.join(", "))
    }
}

/// The error for a path that the system does not open.
fn cannot_open(path: &str, cause: Errno) -> Error {
    match cause {
        Errno::NOENT => Error::path(path, "is not there"),
        Errno::XDEV => Error::path(path, "leads out of the directory through a symbolic link"),
        Errno::LOOP => Error::path(path, "goes through a symbolic link"),
        Errno::NOTDIR => Error::path(path, "is not a directory"),
        Errno::NXIO => Error::path(path, "is neither a file nor a directory"),
        other => Error::path(path, format!("cannot be opened: {other}")),
    }
}

impl AsFd for WorkingDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
