//! The data that flows through a process: typed, immutable, cheap to clone.
//!
//! | module | content |
//! |---|---|
//! | `data` | [`Value`] with traversal, equality and order |
//! | `types` | [`Type`], the declared type of a parameter |
//! | `file` | [`FileRef`] and [`Content`], references to files and directories |
//! | `shared_ref` | [`SharedRef`] and [`SharedKind`], references to shared objects |
//! | `json` | values as JSON and back |

mod data;
mod file;
mod json;
mod shared_ref;
#[cfg(test)]
mod tests;
mod types;

pub use data::{EXACT_INTEGER, MAX_VALUE_DEPTH, Map, Value, is_exact};
pub use file::{Content, FileRef, MAX_HOLDERS};
pub use shared_ref::{SharedKind, SharedRef};
pub use types::Type;
