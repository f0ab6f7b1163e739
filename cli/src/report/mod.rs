//! Reports: what a command answers, as one typed value. Text and JSON are both made from it, so that the same fact has
//! the same name everywhere. docs/json.md and docs/output.schema.json are generated from these types.
//!
//! | module | reports |
//! |---|---|
//! | `process` | processes: that one runs, how it runs, how it ended, what its elements return |
//! | `element` | an element of a process and everything in it |
//! | `reuse` | whether a result came from the cache |
//! | `reason` | failures, and why something waits or stands still |
//! | `grid` | nodes, groups, types, sources |
//! | `action` | commands that change something |
//! | `repository` | the repository of a node |
//! | `log` | the output of an activity |
//! | `validation` | problems of definitions |
//! | `schema` | the JSON Schema of all of them |

pub(crate) mod action;
pub(crate) mod element;
pub(crate) mod grid;
pub(crate) mod log;
pub(crate) mod process;
pub(crate) mod reason;
pub(crate) mod repository;
pub(crate) mod reuse;
#[cfg(test)]
mod schema;
pub(crate) mod validation;

/// A text of the wire that may be absent.
pub(crate) fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number of the wire in which 0 means absent.
fn some_number<N: Default + PartialEq>(number: N) -> Option<N> {
    (number != N::default()).then_some(number)
}
