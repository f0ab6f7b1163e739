//! The result cache: results of activities that later processes reuse.
//!
//! | file | is about |
//! |---|---|
//! | `entry` | the data: lookups, entries, decisions |
//! | `decide` | what an activity may reuse |
//! | `index` | sizes, and what is evicted first |
//! | `store` | the cache in the repository |
//! | `shown_value` | values as `explain` shows them |
//! | `explain` | decisions for the wire |

pub mod decide;
pub mod entry;
pub(crate) mod explain;
pub mod index;
mod shown_value;
pub(crate) mod store;
#[cfg(test)]
mod tests;
