//! A runtime and scratch directories for the targets that need them.

use std::future::Future;
use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("the system has threads")
});

/// Runs a future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// A directory that is removed with the result, in memory if the system has such a place.
pub(crate) fn scratch_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("xavantes-fuzz-").tempdir_in(parent).expect("the disk has space")
}
