//! A directory as the list of its entries. The list is an object like others, so a directory has a digest: two directories
//! with equal names, links, executable bits and contents have equal digests.

use std::collections::HashSet;

use prost::Message;
use xavantes_model::digest::Digest;
use xavantes_proto::{digest_from, v1};

use crate::allowed_path::{check_link, check_path};
use crate::error::Error;

/// Upper bound on the entries of a directory, because manifests are processed in memory.
pub(crate) const MAX_ENTRIES: usize = 200_000;
/// Upper bound on the size of an encoded manifest, for the same reason.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// A file, link or empty directory in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The path, relative to the directory.
    pub path: String,
    /// The kind of entry, with its content.
    pub kind: EntryKind,
}

/// The kinds of entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File {
        /// The digest of its bytes.
        digest: Digest,
        /// Its size in bytes.
        size: u64,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A symbolic link to this target in the same directory.
    Link(String),
    /// A directory without entries. Other directories follow from the paths of their entries.
    Empty,
}

/// The entries of a directory. Always valid: paths are sorted, unique, and stay inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<ManifestEntry>,
}

impl Manifest {
    /// Makes a manifest of entries in any order, if they can be in one directory.
    pub fn new(mut entries: Vec<ManifestEntry>) -> Result<Self, Error> {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Self::from_sorted(entries)
    }

    fn from_sorted(entries: Vec<ManifestEntry>) -> Result<Self, Error> {
        if entries.len() > MAX_ENTRIES {
            return Err(Error::Directory(format!("a directory has more than {MAX_ENTRIES} entries")));
        }
        for entry in &entries {
            check_path(&entry.path)?;
            if let EntryKind::Link(target) = &entry.kind {
                check_link(&entry.path, target)?;
            }
        }
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            return Err(Error::path(&pair[1].path, "is listed twice, or the entries are not sorted"));
        }
        // The parent of an entry is a directory with content, so it is not an entry itself. Comparing neighbours is not
        // enough to see that: "a" and "a/c" may have "a.b" between them.
        let leaves: HashSet<&str> = entries.iter().map(|entry| &*entry.path).collect();
        for entry in &entries {
            let parents = entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]);
            if let Some(parent) = parents.into_iter().find(|parent| leaves.contains(parent)) {
                return Err(Error::path(parent, "is listed both as a file or link and as a directory"));
            }
        }
        Ok(Self { entries })
    }

    /// The entries of the directory, sorted by path.
    pub fn entries(&self) -> &[ManifestEntry] {
        &self.entries
    }

    /// The total size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files().fold(0, |sum, (_, size)| sum.saturating_add(size))
    }

    /// Digest and size of each file.
    pub fn files(&self) -> impl Iterator<Item = (Digest, u64)> {
        self.entries.iter().filter_map(|entry| match entry.kind {
            EntryKind::File { digest, size, .. } => Some((digest, size)),
            _ => None,
        })
    }

    /// The encoded manifest. Its digest is the digest of the directory.
    pub fn encode(&self) -> Vec<u8> {
        use v1::manifest_entry::Kind;
        let entries = self.entries.iter().map(|entry| {
            let kind = match &entry.kind {
                EntryKind::File { digest, size, executable } => {
                    Kind::File(v1::ManifestFile { digest: digest.0.to_vec(), size: *size, executable: *executable })
                }
                EntryKind::Link(target) => Kind::Link(target.clone()),
                EntryKind::Empty => Kind::Empty(v1::Nothing {}),
            };
            v1::ManifestEntry { path: entry.path.clone(), kind: Some(kind) }
        });
        v1::Manifest { entries: entries.collect() }.encode_to_vec()
    }

    /// Decodes and validates a manifest. The bytes may come from any node or user.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        use v1::manifest_entry::Kind;
        let wrong = || Error::Directory("the manifest of a directory cannot be decoded".into());
        let manifest = v1::Manifest::decode(bytes).map_err(|_| wrong())?;
        let entries = manifest.entries.into_iter().map(|entry| {
            let kind = match entry.kind.ok_or_else(wrong)? {
                Kind::File(file) => EntryKind::File {
                    digest: digest_from(&file.digest).map_err(|_| wrong())?,
                    size: file.size,
                    executable: file.executable,
                },
                Kind::Link(target) => EntryKind::Link(target),
                Kind::Empty(_) => EntryKind::Empty,
            };
            Ok(ManifestEntry { path: entry.path, kind })
        });
        Self::from_sorted(entries.collect::<Result<_, Error>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> ManifestEntry {
        ManifestEntry {
            path: path.into(),
            kind: EntryKind::File { digest: Digest([7; 32]), size: 5, executable: true },
        }
    }

    fn link(path: &str, target: &str) -> ManifestEntry {
        ManifestEntry { path: path.into(), kind: EntryKind::Link(target.into()) }
    }

    #[test]
    fn the_order_of_entries_does_not_change_the_digest() {
        let empty = ManifestEntry { path: "e".into(), kind: EntryKind::Empty };
        let one = Manifest::new(vec![file("a/b"), link("c", "a"), empty.clone(), file("a.b")]).unwrap();
        let other = Manifest::new(vec![file("a.b"), empty, file("a/b"), link("c", "a")]).unwrap();
        assert_eq!(one.encode(), other.encode());
        assert_eq!(Manifest::decode(&one.encode()).unwrap(), one);
        assert_eq!((one.size(), one.files().count()), (10, 2));
        assert_eq!(Manifest::decode(&[]).unwrap().entries(), []);
    }

    #[test]
    fn manifests_that_cannot_be_staged_are_refused() {
        let bad = [
            vec![file("a"), file("a")],
            vec![file("a"), file("a.b"), file("a/b")],
            vec![link("a", "b"), file("a/x")],
            vec![file("../x")],
            vec![file("/x")],
            vec![link("a", "../x")],
        ];
        for entries in bad {
            assert!(Manifest::new(entries.clone()).is_err(), "{entries:?}");
            assert!(Manifest::decode(&Manifest { entries }.encode()).is_err());
        }
        assert!(Manifest::decode(&Manifest { entries: vec![file("b"), file("a")] }.encode()).is_err());
        assert!(Manifest::decode(b"anything").is_err());
    }
}
