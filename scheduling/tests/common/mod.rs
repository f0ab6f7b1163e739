//! What several tests share: the corpus of stored workflows.
#![allow(dead_code)] // Each test uses a part.

use std::path::PathBuf;

/// The folder of stored workflows, or nothing after a loud message.
pub fn corpus(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS is not set, so {what} are not tested with stored workflows");
    }
    folder
}
