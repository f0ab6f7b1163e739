//! The memo of a process: what its completed activities were given and what they returned. A rerun takes the results over.
//!
//! | file | is about |
//! |---|---|
//! | `memo_entry` | one completed activity, and its encoding |
//! | `memo_log` | the memo of a running process: bounds, and what must be written when |
//! | `former_activities` | the memo of a former process: which activity of a rerun takes over which results |
//! | `memo_store` | memos in the repository |
//!
//! A memo is not part of the journal: an entry that is lost means that a rerun runs an activity once more.

pub mod former_activities;
pub mod memo_entry;
pub mod memo_log;
pub(crate) mod memo_store;
#[cfg(test)]
mod tests;
