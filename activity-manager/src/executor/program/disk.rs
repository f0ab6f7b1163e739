//! The disk usage of working directories.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Upper bound on the files and folders that one measurement visits. More would take too long.
const MAX_VISITED: usize = 200_000;
/// The kernel counts blocks of this size, whatever the file system uses.
const BLOCK_BYTES: u64 = 512;

/// Bytes that a folder takes on its disk.
pub(super) fn disk_usage(folder: &Path) -> u64 {
    let (mut bytes, mut visited, mut open) = (0, 0, vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            visited += 1;
            let Ok(metadata) = entry.metadata() else { continue };
            bytes += metadata.blocks() * BLOCK_BYTES;
            if metadata.is_dir() && visited < MAX_VISITED {
                open.push(entry.path());
            }
        }
    }
    bytes
}
