//! The data that flows through a process: typed, immutable, cheap to clone.
//!
//! | module | content |
//! |---|---|
//! | `data` | [`Value`] with traversal, equality and order |
//! | `value_type` | [`Type`], the declared type of a parameter |
//! | `file_reference` | [`FileRef`] and [`Content`], references to files and directories |
//! | `shared_ref` | [`SharedRef`] and [`SharedKind`], references to shared objects |
//! | `json_value` | values as JSON and back |

mod data;
mod file_reference;
mod json_value;
mod shared_ref;
#[cfg(test)]
mod tests;
mod value_type;

pub use data::{EXACT_INTEGER, MAX_VALUE_DEPTH, Map, Value, is_exact};
pub use file_reference::{Content, FileRef, MAX_HOLDERS};
pub use shared_ref::{SharedKind, SharedRef};
pub use value_type::Type;
