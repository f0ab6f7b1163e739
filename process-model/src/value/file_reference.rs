//! References to files and directories, and the identity of their content.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Upper bound on the holders that a reference names, so that references stay small.
pub const MAX_HOLDERS: usize = 4;

/// The value of a `file` or `directory` parameter: where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileRef {
    /// `source://name/path` or a path as the user wrote it. If the grid stores the content, the name of the file.
    pub uri: Arc<str>,
    /// True for a directory.
    pub directory: bool,
    /// Content, if the grid stores it.
    pub content: Option<Content>,
}

impl FileRef {
    /// Refers to a file or directory outside the grid.
    pub fn outside(uri: impl Into<Arc<str>>, directory: bool) -> Self {
        Self { uri: uri.into(), directory, content: None }
    }
}

/// The content of a file, or of all files of a directory, and nodes that hold it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Content {
    /// Digest of the bytes of a file, or of the listing of a directory.
    pub digest: Digest,
    /// Size in bytes; for a directory the sum over its files.
    pub size: u64,
    /// True for a file that can be executed.
    pub executable: bool,
    /// Addresses of nodes that held the content when the reference was made; at most [`MAX_HOLDERS`].
    pub holders: Vec<Arc<str>>,
}

impl Content {
    /// The part that equality and order look at. Holders come and go, so they do not count.
    fn identity(&self) -> (&Digest, u64, bool) {
        (&self.digest, self.size, self.executable)
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Content {}

impl Ord for Content {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl PartialOrd for Content {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
