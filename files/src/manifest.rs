//! A directory as a list of what is in it. The list is an object like others, so a directory has a digest: two with the same
//! names, links, executable bits and contents are the same.

use prost::Message;
use xavantes_model::digest::Digest;
use xavantes_proto::{digest_from, v1};

use crate::Error;
use crate::path::{check_link, check_path};

/// A directory has at most so many entries: its list is worked on in memory.
pub(crate) const MOST_ENTRIES: usize = 200_000;
/// A list is at most so large.
pub(crate) const LARGEST: u64 = 64 << 20;

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path from the directory on.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What something in a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File {
        /// Of its bytes.
        digest: Digest,
        /// In bytes.
        size: u64,
        /// A program.
        executable: bool,
    },
    /// A symbolic link to something in the same directory.
    Link(String),
    /// A directory with nothing in it.
    Empty,
}

/// What is in a directory; always sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<Entry>,
}

impl Manifest {
    /// From entries in any order, if they can stand beside each other.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self, Error> {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Self::sound(entries)
    }

    fn sound(entries: Vec<Entry>) -> Result<Self, Error> {
        if entries.len() > MOST_ENTRIES {
            return Err(Error::Directory(format!("a directory has more than {MOST_ENTRIES} entries")));
        }
        for entry in &entries {
            check_path(&entry.path)?;
            if let EntryKind::Link(target) = &entry.kind {
                check_link(&entry.path, target)?;
            }
        }
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            return Err(Error::path(&pair[1].path, "is in the directory twice, or its entries are out of order"));
        }
        // Whatever has something in it is a directory, so it is none of the entries. Those come before what is in them,
        // though others may stand between: "a", "a.b", "a/c".
        let leaves: std::collections::HashSet<&str> = entries.iter().map(|entry| &*entry.path).collect();
        for entry in &entries {
            let parents = entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]);
            if let Some(parent) = parents.into_iter().find(|parent| leaves.contains(parent)) {
                return Err(Error::path(parent, "is in the directory both as a file or link, and as a directory"));
            }
        }
        Ok(Self { entries })
    }

    /// What is in the directory, in the order of the paths.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The bytes of all files together.
    pub fn size(&self) -> u64 {
        self.files().fold(0, |sum, (_, size)| sum.saturating_add(size))
    }

    /// The files: digests and sizes.
    pub fn files(&self) -> impl Iterator<Item = (Digest, u64)> {
        self.entries.iter().filter_map(|entry| match entry.kind {
            EntryKind::File { digest, size, .. } => Some((digest, size)),
            _ => None,
        })
    }

    /// The bytes whose digest is the directory's.
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

    /// The inverse of [`Manifest::encode`]. They may come from anybody.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        use v1::manifest_entry::Kind;
        let wrong = || Error::Directory("the list of what is in a directory cannot be read".into());
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
            Ok(Entry { path: entry.path, kind })
        });
        Self::sound(entries.collect::<Result<_, Error>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Entry {
        Entry { path: path.into(), kind: EntryKind::File { digest: Digest([7; 32]), size: 5, executable: true } }
    }

    fn link(path: &str, target: &str) -> Entry {
        Entry { path: path.into(), kind: EntryKind::Link(target.into()) }
    }

    #[test]
    fn the_order_in_which_entries_are_found_does_not_matter() {
        let empty = Entry { path: "e".into(), kind: EntryKind::Empty };
        let one = Manifest::new(vec![file("a/b"), link("c", "a"), empty.clone(), file("a.b")]).unwrap();
        let other = Manifest::new(vec![file("a.b"), empty, file("a/b"), link("c", "a")]).unwrap();
        assert_eq!(one.encode(), other.encode());
        assert_eq!(Manifest::decode(&one.encode()).unwrap(), one);
        assert_eq!((one.size(), one.files().count()), (10, 2));
        assert_eq!(Manifest::decode(&[]).unwrap().entries(), []);
    }

    #[test]
    fn lists_that_nobody_could_lay_out_are_refused() {
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
