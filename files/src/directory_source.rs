//! A data source that is a directory of this machine. Others may change it at any time: the kernel resolves all paths, and refuses
//! links that lead out of the directory.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::confined_directory::{FoundPath, WorkingDirectory};
use crate::error::Error;

/// An open directory that is registered as a data source.
#[derive(Debug)]
pub(crate) struct DirectorySource(WorkingDirectory);

/// Something that belongs to the content of a directory in a source; the path is relative to that directory.
#[derive(Debug)]
pub(crate) enum SourceEntry {
    /// A file, perhaps behind a link.
    File(String, SourceFile),
    /// A link to a directory, with its target.
    Link(String, String),
}

/// An open file of a source.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub file: File,
    pub size: u64,
    pub modified_ms: i64,
    /// Differs between files, and after every modification of a file.
    pub tag: String,
}

impl SourceFile {
    /// The file behind an open descriptor; `None` if it is none.
    fn new(opened: rustix::fd::OwnedFd, stat: &Stat) -> Option<Self> {
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| Self {
            file: File::from(opened),
            size: stat.st_size.try_into().unwrap_or(0),
            modified_ms: stat.st_mtime.saturating_mul(1000),
            tag: format!("{:x}-{:x}-{:x}", stat.st_ino, stat.st_mtime, stat.st_mtime_nsec),
        })
    }
}

impl DirectorySource {
    /// Opens the directory at a path.
    pub fn open(path: &Path) -> Result<Self, Error> {
        WorkingDirectory::open(path).map(Self)
    }

    /// Opens the file at a path.
    pub fn file(&self, path: &str) -> Result<SourceFile, Error> {
        let (opened, stat) = self.0.open_file(path)?;
        SourceFile::new(opened, &stat).ok_or_else(|| Error::path(path, "is not a file"))
    }

    /// Visits what is in the directory at a path. A link to a file counts as that file. Links that lead nowhere are left out.
    pub fn visit(&self, path: &str, mut visit: impl FnMut(SourceEntry) -> Result<(), Error>) -> Result<(), Error> {
        let directory = self.0.open_below(path)?;
        for FoundPath { path: name, kind } in directory.walk()? {
            if kind == FileType::Directory {
                continue;
            }
            // Links may lead to other places in the source, so it resolves them.
            let whole = format!("{path}/{name}");
            let (opened, stat) = match self.0.open_if_present(&whole)? {
                Some(found) => found,
                None => continue,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let target = directory.read_link(&name)?;
                visit(SourceEntry::Link(name, target))?;
            } else {
                let file = SourceFile::new(opened, &stat);
                let file = file.ok_or_else(|| Error::path(&whole, "is neither a file nor a directory"))?;
                visit(SourceEntry::File(name, file))?;
            }
        }
        Ok(())
    }

    /// Writes a file at a path, and creates the directories around it. Readers see the former file or the whole new one.
    pub fn write(&self, path: &str, content: &mut impl Read) -> Result<(), Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.create_directories(parent)?;
        let cannot = |cause: Errno| Error::path(path, format!("cannot be written: {cause}"));
        let temporary = format!(".xavantes-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&directory, &temporary, flags, Mode::from_raw_mode(0o666)).map_err(cannot)?;
        let written = std::io::copy(content, &mut File::from(opened));
        let written = written.map_err(|cause| Error::path(path, format!("cannot be written: {cause}")));
        // This replaces a link at the path, it does not follow it.
        let renamed =
            written.and_then(|_| rustix::fs::renameat(&directory, &temporary, &directory, name).map_err(cannot));
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(&directory, &temporary, AtFlags::empty());
        }
        renamed
    }

    /// Opens the directory at a path, and creates what is missing of it.
    fn create_directories(&self, path: &str) -> Result<WorkingDirectory, Error> {
        let mut directory = self.0.open_below("")?;
        if path.is_empty() {
            return Ok(directory);
        }
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for prefix in ends.map(|end| &path[..end]) {
            let name = prefix.rsplit('/').next().unwrap_or(prefix);
            match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                // From the root of the source: a link at that place may lead to another place in it.
                Ok(()) | Err(Errno::EXIST) => directory = self.0.open_below(prefix)?,
                Err(cause) => return Err(Error::path(prefix, format!("cannot be created: {cause}"))),
            }
        }
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A source and a directory beside it, with a secret.
    fn source() -> (tempfile::TempDir, DirectorySource) {
        let folder = tempfile::tempdir().expect("the disk has space");
        let root = folder.path().join("source");
        std::fs::create_dir_all(root.join("inner/deep")).expect("it can be created");
        std::fs::create_dir_all(folder.path().join("outside")).expect("it can be created");
        std::fs::write(root.join("inner/file"), "content").expect("it can be written");
        std::fs::write(folder.path().join("outside/secret"), "secret").expect("it can be written");
        symlink("../outside", root.join("out")).expect("it can be created");
        symlink("../../../outside/secret", root.join("inner/deep/secret")).expect("it can be created");
        symlink(folder.path().join("outside/secret"), root.join("absolute")).expect("it can be created");
        symlink("inner", root.join("in")).expect("it can be created");
        let source = DirectorySource::open(&root).expect("it is there");
        (folder, source)
    }

    fn list(source: &DirectorySource, path: &str) -> Result<Vec<String>, Error> {
        let mut listed = Vec::new();
        source.visit(path, |entry| {
            listed.push(match entry {
                SourceEntry::File(path, file) => format!("{path} {}", file.size),
                SourceEntry::Link(path, target) => format!("{path} -> {target}"),
            });
            Ok(())
        })?;
        Ok(listed)
    }

    fn error<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
        result.expect_err("it is refused").to_string()
    }

    #[test]
    fn links_that_lead_out_are_not_read() {
        let (_folder, source) = source();
        for path in ["out/secret", "absolute", "in/deep/secret"] {
            assert!(error(source.file(path)).contains("leads out of the directory"), "{path}");
        }
        assert!(error(list(&source, "out")).contains("leads out of the directory"));
        assert!(error(list(&source, "inner")).contains("leads out of the directory"));
        assert!(error(source.file("inner")).contains("is not a file"));
        assert!(error(source.file("absent")).contains("is not there"));
        let mut read = String::new();
        source.file("in/file").expect("the link stays inside").file.read_to_string(&mut read).expect("it is a file");
        assert_eq!(read, "content");
    }

    #[test]
    fn links_that_lead_out_are_not_written_through() {
        let (folder, source) = source();
        for path in ["out/new", "out/deeper/new"] {
            assert!(error(source.write(path, &mut &b"x"[..])).contains("leads out of the directory"), "{path}");
        }
        assert_eq!(std::fs::read_dir(folder.path().join("outside")).expect("it is there").count(), 1);
        // A link at the path itself is replaced.
        source.write("absolute", &mut &b"new"[..]).expect("it is written");
        source.write("in/other/place", &mut &b"new"[..]).expect("it is written");
        let content = |path: &str| std::fs::read_to_string(folder.path().join(path)).expect("it is there");
        assert_eq!((content("source/absolute"), content("source/inner/other/place")), ("new".into(), "new".into()));
        assert_eq!(content("outside/secret"), "secret");
    }

    #[test]
    fn a_directory_lists_files_and_links_that_stay_inside() {
        let (folder, source) = source();
        let root = folder.path().join("source");
        std::fs::remove_file(root.join("inner/deep/secret")).expect("it is there");
        symlink("../file", root.join("inner/deep/same")).expect("it can be created");
        symlink("nowhere", root.join("inner/dangling")).expect("it can be created");
        symlink("deep", root.join("inner/shallow")).expect("it can be created");
        let listed = list(&source, "inner").expect("everything stays inside");
        assert_eq!(listed, ["deep/same 7", "file 7", "shallow -> deep"]);
    }
}
