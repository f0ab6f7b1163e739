//! The result cache: results of activities that later processes reuse.
//!
//! | file | is about |
//! |---|---|
//! | `cache_entry` | the data: lookups, entries, decisions |
//! | `decide` | what an activity may reuse |
//! | `cache_index` | sizes, and what is evicted first |
//! | `cache_store` | the cache in the repository |
//! | `shown_value` | values as `explain` shows them |
//! | `explain` | decisions for the wire |

pub mod cache_entry;
pub mod cache_index;
pub(crate) mod cache_store;
pub mod decide;
pub(crate) mod explain;
pub(crate) mod shown_value;
#[cfg(test)]
mod tests;
