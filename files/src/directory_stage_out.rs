//! Stages files and directories out of a working directory into the store. Nothing outside the directory is read, and what is
//! neither a file, a link nor a directory is refused.

use std::collections::HashSet;
use std::fs::File;

use rustix::fs::FileType;
use xavantes_model::digest::Digest;

use crate::allowed_path::check_path;
use crate::confined_directory::{FoundPath, WorkingDirectory};
use crate::error::Error;
use crate::manifest::{EntryKind, Manifest, ManifestEntry};
use crate::store::store_state::FileStore;

/// A file or directory that is now in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedOut {
    /// The digest of the file, or of the manifest of the directory.
    pub digest: Digest,
    /// Total size of all files in bytes.
    pub size: u64,
    /// For a file: whether its owner may execute it.
    pub executable: bool,
    /// All objects of the file or directory.
    pub objects: Vec<Digest>,
}

/// Reads a file, given its path and about its size, and returns the digest and exact size of its content.
pub(crate) type ReadFile<'a> = dyn FnMut(&str, &mut File, u64) -> Result<(Digest, u64), Error> + 'a;

impl WorkingDirectory {
    /// Stores the file or directory at a path.
    pub fn stage_out(&self, store: &FileStore, path: &str, directory: bool) -> Result<StagedOut, Error> {
        let add = &mut |_: &str, file: &mut File, size| store.add(file, size);
        match directory {
            false => self.scan_file(path, add),
            true => store_directory(store, &self.scan_directory(path, add)?),
        }
    }

    /// Stores several files and directories as one directory, in which they keep their paths.
    pub fn stage_out_together(&self, store: &FileStore, paths: &[String]) -> Result<StagedOut, Error> {
        let add = &mut |_: &str, file: &mut File, size| store.add(file, size);
        let mut entries = Vec::new();
        for path in paths {
            let (_, stat) = self.open_file(path)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let inner = self.scan_directory(path, add)?;
                let inner = inner.entries().iter().cloned();
                entries.extend(inner.map(|entry| ManifestEntry { path: format!("{path}/{}", entry.path), ..entry }));
            } else {
                let StagedOut { digest, size, executable, .. } = self.scan_file(path, add)?;
                entries.push(ManifestEntry { path: path.clone(), kind: EntryKind::File { digest, size, executable } });
            }
        }
        store_directory(store, &Manifest::new(entries)?)
    }

    /// Reads the file at a path.
    pub(crate) fn scan_file(&self, path: &str, read: &mut ReadFile<'_>) -> Result<StagedOut, Error> {
        check_path(path)?;
        let (opened, stat) = self.open_file(path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Error::path(path, "is a directory, not a file")),
            _ => return Err(Error::path(path, "is neither a file nor a directory")),
        }
        let (digest, size) = read(path, &mut File::from(opened), stat.st_size.try_into().unwrap_or(0))?;
        Ok(StagedOut { digest, size, executable: stat.st_mode & 0o100 != 0, objects: vec![digest] })
    }

    /// Reads all files of the directory at a path, `""` for this directory. Links stay links.
    pub(crate) fn scan_directory(&self, path: &str, read: &mut ReadFile<'_>) -> Result<Manifest, Error> {
        let root = self.open_below(path)?;
        let found = root.walk()?;
        let parents: HashSet<&str> =
            found.iter().filter_map(|it| it.path.rsplit_once('/').map(|(parent, _)| parent)).collect();
        let mut entries = Vec::with_capacity(found.len());
        for FoundPath { path, kind } in &found {
            let kind = match kind {
                // The paths of its entries imply a directory that has some.
                FileType::Directory if parents.contains(path.as_str()) => continue,
                FileType::Directory => EntryKind::Empty,
                FileType::Symlink => EntryKind::Link(root.read_link(path)?),
                FileType::RegularFile => {
                    let StagedOut { digest, size, executable, .. } = root.scan_file(path, read)?;
                    EntryKind::File { digest, size, executable }
                }
                _ => return Err(Error::path(path, "is neither a file nor a directory")),
            };
            entries.push(ManifestEntry { path: path.clone(), kind });
        }
        Manifest::new(entries)
    }
}

/// Stores the manifest of a directory whose files are in the store.
pub(crate) fn store_directory(store: &FileStore, manifest: &Manifest) -> Result<StagedOut, Error> {
    let bytes = manifest.encode();
    let (digest, _) = store.add(&mut &*bytes, bytes.len() as u64)?;
    let objects = manifest.files().map(|(digest, _)| digest).chain([digest]).collect();
    Ok(StagedOut { digest, size: manifest.size(), executable: false, objects })
}
